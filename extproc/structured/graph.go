package structured

import (
	"errors"

	"bardo.money/gateway/internal/jsonx"
)

// Bounds on what a schema may have done with one value: schemas that are applied to the same value, one inside the other and all
// together, and references. What is applied to the values inside is counted while it is done.
const (
	longestReach   = 64
	widestReach    = 2048
	mostReferences = 2000
)

var (
	errCircle     = errors.New("refers to itself, and says nothing of a value by that")
	errReach      = errors.New("leads on too far, or in too many ways")
	errReferences = errors.New("has too many references")
)

// graph finds out how far schemas reach without going into a value.
type graph struct {
	root    jsonx.Value
	known   map[int]reach          // by the place of the schema
	targets map[string]jsonx.Value // of references
	refs    int
}

// reach is how many schemas are applied to a value: one inside the other, and all together.
type reach struct {
	open       bool // it is being worked out
	deep, wide int
}

// target is what a reference refers to.
func (g *graph) target(ref string) (v jsonx.Value, ok bool) {
	v, known := g.targets[ref]
	if !known {
		v = pointed(g.root, ref)
		g.targets[ref] = v
	}
	return v, v.Exists()
}

// from is the reach of a schema.
func (g *graph) from(v jsonx.Value) (r reach, err error) {
	if v.Kind() != jsonx.Object {
		return reach{deep: 1, wide: 1}, nil
	}
	if r, known := g.known[v.At]; known {
		if r.open {
			return r, errCircle
		}
		return r, nil
	}
	g.known[v.At] = reach{open: true}
	r = reach{deep: 1, wide: 1}
	for key, e := range v.Members {
		if err := g.member(&r, string(key), e); err != nil {
			return r, err
		}
	}
	if r.deep > longestReach || r.wide > widestReach {
		return r, errReach
	}
	g.known[v.At] = r
	return r, nil
}

// member adds what one keyword of a schema has applied to the same value.
func (g *graph) member(r *reach, key string, e jsonx.Value) error {
	switch key {
	case "$ref":
		ref, ok := e.Str()
		if !ok {
			return nil
		}
		if g.refs++; g.refs > mostReferences {
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
	inner, err := g.from(v)
	if err != nil {
		return err
	}
	r.deep = max(r.deep, 1+inner.deep)
	r.wide = min(r.wide+inner.wide, widestReach+1)
	return nil
}
