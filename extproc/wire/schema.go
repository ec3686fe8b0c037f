package wire

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// EnforcedBy selects the rules that a schema must satisfy to be enforced. Each provider refuses schemas outside its own.
type EnforcedBy uint8

// The rules.
const (
	ByAnthropic EnforcedBy = iota // output_config.format and strict tools: objects are closed, and no limits on values
	ByOpenAI                      // strict schemas: also, every property is required and has no default
)

// HasNote reports whether the description of a schema is the note, which then need not be sent separately.
func HasNote(schema jsonx.Raw, note string) bool {
	return note == "" || jsonx.Value{Raw: schema}.Get("description").Equal(note)
}

// Enforceable reports whether a provider that enforces schemas accepts this one. Unknown keywords count as refused.
func Enforceable(schema jsonx.Value, by EnforcedBy) bool {
	if len(schema.Raw) > maxSchema || by == ByOpenAI && !schema.Get("type").Equal("object") {
		return false
	}
	if by == ByAnthropic && isRecursive(schema) {
		return false
	}
	return enforceable(schema, by, maxSchemaDepth)
}

// Schemas beyond these limits count as refused: OpenAI documents much lower ones, and the check costs the schema's size for every level.
const (
	maxSchema      = 256 << 10 // bytes
	maxSchemaDepth = 32
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
		return ok && len(ref) > 1 && ref[0] == '#' // "#" alone is the root: recursion
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

// isObject reports whether a schema allows objects, alone or among other types.
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

// takesFormat reports whether a provider accepts a string format.
func takesFormat(v jsonx.Value, by EnforcedBy) bool {
	switch name, _ := v.Str(); name {
	case "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid":
		return true
	case "uri":
		return by == ByAnthropic
	}
	return false
}

// isRecursive reports whether a schema contains itself, or has more references than are checked.
func isRecursive(root jsonx.Value) bool {
	t := refWalker{root: root, active: map[string]bool{}, left: maxRefs}
	return t.follow(root, maxSchemaDepth)
}

// maxRefs is the maximum number of references that are followed.
const maxRefs = 1000

// refWalker follows the references inside a schema.
type refWalker struct {
	root   jsonx.Value
	active map[string]bool // references on the current path
	left   int
}

// follow reports whether a schema leads to a reference on the current path. Definitions count where they are used.
func (t *refWalker) follow(v jsonx.Value, levels int) bool {
	if levels == 0 {
		return true
	}
	if ref, ok := v.Get("$ref").Str(); ok && t.recurses(ref, levels) {
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

func (t *refWalker) recurses(ref string, levels int) bool {
	t.left--
	if t.active[ref] || t.left < 0 {
		return true
	}
	t.active[ref] = true
	defer delete(t.active, ref)
	return t.follow(t.resolve(ref), levels-1)
}

// resolve returns the schema that a reference names.
func (t *refWalker) resolve(ref string) jsonx.Value {
	v := t.root
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if step != "" {
			v = v.Get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
		}
	}
	return v
}
