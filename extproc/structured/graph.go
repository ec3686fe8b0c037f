package structured

import (
	"errors"

	"bardo.money/gateway/internal/jsonx"
)

// Limits of the schemas that apply to one value: how deeply they are nested, how many there are in total, and the number of references.
// Schemas that apply to nested values are counted during a check instead (maxSteps).
const (
	maxNesting    = 64
	maxApplied    = 2048
	maxReferences = 2000
)

var (
	errCycle      = errors.New("refers to itself in a cycle")
	errReach      = errors.New("applies too many nested schemas to one value")
	errReferences = errors.New("has too many references")
)

// graph computes how many schemas apply to the same value.
type graph struct {
	root    jsonx.Value
	reaches map[int]reach          // by the offset of the schema in the document
	targets map[string]jsonx.Value // by reference
	refs    int
}

// reach is how many schemas apply to a value: the longest chain, and the total.
type reach struct {
	inProgress bool // being computed; seen again, it is a cycle
	deep, wide int
}

// target returns the schema that a reference refers to.
func (g *graph) target(ref string) (v jsonx.Value, ok bool) {
	v, known := g.targets[ref]
	if !known {
		v = byPointer(g.root, ref)
		g.targets[ref] = v
	}
	return v, v.Exists()
}

// reachOf computes the reach of a schema.
func (g *graph) reachOf(v jsonx.Value) (r reach, err error) {
	if v.Kind() != jsonx.Object {
		return reach{deep: 1, wide: 1}, nil
	}
	if r, known := g.reaches[v.At]; known {
		if r.inProgress {
			return r, errCycle
		}
		return r, nil
	}
	g.reaches[v.At] = reach{inProgress: true}
	r = reach{deep: 1, wide: 1}
	for key, e := range v.Members {
		if err := g.member(&r, string(key), e); err != nil {
			return r, err
		}
	}
	if r.deep > maxNesting || r.wide > maxApplied {
		return r, errReach
	}
	g.reaches[v.At] = r
	return r, nil
}

// member adds the schemas that one keyword applies to the same value.
func (g *graph) member(r *reach, key string, e jsonx.Value) error {
	switch key {
	case "$ref":
		ref, ok := e.Str()
		if !ok {
			return nil
		}
		if g.refs++; g.refs > maxReferences {
			return errReferences
		}
		to, _ := g.target(ref)
		return g.add(r, to)
	case "not", "if", "then", "else":
		return g.add(r, e)
	case "allOf", "anyOf", "oneOf":
		for _, s := range e.Each {
			if err := g.add(r, s); err != nil {
				return err
			}
		}
	case "dependentSchemas", "dependencies":
		for _, s := range e.Members {
			if err := g.add(r, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *graph) add(r *reach, v jsonx.Value) error {
	inner, err := g.reachOf(v)
	if err != nil {
		return err
	}
	r.deep = max(r.deep, 1+inner.deep)
	r.wide = min(r.wide+inner.wide, maxApplied+1)
	return nil
}
