package wire

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// EnforcedBy says whose rules a schema must keep to be enforced. Each provider refuses what is beyond its own.
type EnforcedBy uint8

// The rules.
const (
	ByAnthropic EnforcedBy = iota // output_config.format and strict tools: objects are closed, and no limits on values
	ByOpenAI                      // strict schemas: also, every property is required, and has no default
)

// Says reports whether a schema has a note inside, so that it need not be said beside it.
func Says(schema jsonx.Raw, note string) bool {
	return note == "" || jsonx.Value{Raw: schema}.Get("description").Equal(note)
}

// Enforceable reports whether a provider that answers by a schema takes this one. The check is on the safe side of what
// both document: what it does not know, it takes for refused.
func Enforceable(schema jsonx.Value, by EnforcedBy) bool {
	if len(schema.Raw) > mostSchema || by == ByOpenAI && !schema.Get("type").Equal("object") {
		return false
	}
	if by == ByAnthropic && leadsBack(schema) {
		return false
	}
	return enforceable(schema, by, deepestSchema)
}

// Schemas beyond these bounds are taken for refused: OpenAI documents far lower ones, and looking at a schema costs its size
// for every level of it.
const (
	mostSchema    = 256 << 10 // bytes
	deepestSchema = 32
)

func enforceable(schema jsonx.Value, by EnforcedBy, levels int) bool {
	if schema.Kind() != jsonx.Object || levels == 0 {
		return false
	}
	for key, v := range schema.Members {
		if !takesKeyword(string(key), v, by, levels-1) {
			return false
		}
	}
	if !isObject(schema) {
		return true
	}
	return string(schema.Get("additionalProperties").Raw) == "false" && (by != ByOpenAI || requiresAll(schema))
}

func takesKeyword(key string, v jsonx.Value, by EnforcedBy, levels int) bool {
	switch key {
	case "type", "title", "description", "enum", "const", "pattern", "required", "additionalProperties":
		return true
	case "format":
		return takesFormat(v, by)
	case "default":
		return by == ByAnthropic
	case "$ref":
		ref, ok := v.Str()
		return ok && len(ref) > 1 && ref[0] == '#' // "#" alone is the schema inside itself
	case "minItems":
		n, ok := v.Int()
		return ok && n <= 1
	case "items":
		return enforceable(v, by, levels)
	case "properties", "$defs", "definitions":
		for _, e := range v.Members {
			if !enforceable(e, by, levels) {
				return false
			}
		}
		return true
	case "anyOf", "allOf":
		for _, e := range v.Each {
			if !enforceable(e, by, levels) {
				return false
			}
		}
		return key == "anyOf" || by == ByAnthropic
	}
	return false
}

// isObject reports whether a schema describes objects, alone or among other types.
func isObject(schema jsonx.Value) bool {
	kind := schema.Get("type")
	for _, e := range kind.Each {
		if e.Equal("object") {
			return true
		}
	}
	return kind.Equal("object") || schema.Get("properties").Exists()
}

func requiresAll(schema jsonx.Value) bool {
	required := map[string]bool{}
	for _, e := range schema.Get("required").Each {
		name, _ := e.Str()
		required[name] = true
	}
	for key := range schema.Get("properties").Members {
		if !required[string(key)] {
			return false
		}
	}
	return true
}

// takesFormat reports whether a provider knows a format of strings.
func takesFormat(v jsonx.Value, by EnforcedBy) bool {
	switch name, _ := v.Str(); name {
	case "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid":
		return true
	case "uri":
		return by == ByAnthropic
	}
	return false
}

// leadsBack reports whether a schema has itself inside, or so many references that nobody can tell.
func leadsBack(root jsonx.Value) bool {
	t := trail{root: root, open: map[string]bool{}, left: mostRefs}
	return t.follow(root, deepestSchema)
}

// mostRefs is how many references of a schema are followed.
const mostRefs = 1000

// trail follows the references inside a schema.
type trail struct {
	root jsonx.Value
	open map[string]bool // references that are being followed
	left int
}

// follow reports whether what is inside a schema leads back to where the trail is. Definitions count where they are used.
func (t *trail) follow(v jsonx.Value, levels int) bool {
	if levels == 0 {
		return true
	}
	if ref, ok := v.Get("$ref").Str(); ok && t.back(ref, levels) {
		return true
	}
	for key, e := range v.Members {
		if k := string(key); k != "$defs" && k != "definitions" && t.follow(e, levels-1) {
			return true
		}
	}
	for _, e := range v.Each {
		if t.follow(e, levels-1) {
			return true
		}
	}
	return false
}

func (t *trail) back(ref string, levels int) bool {
	t.left--
	if t.open[ref] || t.left < 0 {
		return true
	}
	t.open[ref] = true
	defer delete(t.open, ref)
	return t.follow(t.at(ref), levels-1)
}

// at is what a reference into the schema names.
func (t *trail) at(ref string) jsonx.Value {
	v := t.root
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if step != "" {
			v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	return v
}
