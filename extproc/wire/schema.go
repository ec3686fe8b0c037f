package wire

import "bardo.money/gateway/internal/jsonx"

// EnforcedBy says whose rules a schema must keep to be enforced. Each provider refuses what is beyond its own.
type EnforcedBy uint8

// The rules.
const (
	ByAnthropic EnforcedBy = iota // output_config.format and strict tools: objects are closed, and no limits on values
	ByOpenAI                      // strict schemas: also, every property is required, and has no default
)

// Enforceable reports whether a provider that answers by a schema takes this one. The check is on the safe side of what
// both document: what it does not know, it takes for refused.
func Enforceable(schema jsonx.Value, by EnforcedBy) bool {
	if len(schema.Raw) > mostSchema || by == ByOpenAI && !schema.Get("type").Equal("object") {
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
	case "type", "title", "description", "enum", "const", "format", "pattern", "required", "additionalProperties":
		return true
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
