package gemini

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// maxSchemaDepth is the maximum depth to which a schema is converted; deeper parts are unchanged.
const maxSchemaDepth = 32

// jsonSchema converts one of Google's own schemas into JSON Schema: types in lower case, nullable as a type, counts as numbers, and without
// the format "enum", which is redundant. A schema that needs no conversion keeps its bytes.
func jsonSchema(v jsonx.Value) jsonx.Raw {
	if !isGoogleSchema(v, maxSchemaDepth) {
		return v.Raw
	}
	return appendSchema(nil, v, maxSchemaDepth)
}

// isGoogleSchema reports whether a schema uses Google's own keywords or values.
func isGoogleSchema(v jsonx.Value, levels int) bool {
	for key, m := range v.Members {
		name := camel(key)
		switch {
		case name != string(key), isGoogleKeyword(name, m):
			return true
		case name == "type":
			if s, ok := m.Str(); ok && s != strings.ToLower(s) {
				return true
			}
		case isCount(name) && m.Kind() == jsonx.String:
			return true
		case levels == 0:
		case isSchema(name) && isGoogleSchema(m, levels-1):
			return true
		case isSchemas(name):
			for _, e := range m.Each {
				if isGoogleSchema(e, levels-1) {
					return true
				}
			}
			for _, e := range m.Members {
				if name != "anyOf" && isGoogleSchema(e, levels-1) {
					return true
				}
			}
		}
	}
	return false
}

// isGoogleKeyword reports whether JSON Schema lacks a keyword or expresses it differently.
func isGoogleKeyword(name string, v jsonx.Value) bool {
	return name == "nullable" || name == "propertyOrdering" || name == "format" && v.Equal("enum")
}

func isCount(name string) bool {
	switch name {
	case "minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties":
		return true
	}
	return false
}

func isSchema(name string) bool { return name == "items" || name == "additionalProperties" }

func isSchemas(name string) bool {
	switch name {
	case "properties", "anyOf", "oneOf", "allOf", "defs", "$defs":
		return true
	}
	return false
}

func appendSchema(dst []byte, v jsonx.Value, levels int) []byte {
	if v.Kind() != jsonx.Object || levels == 0 {
		return append(dst, v.Raw...)
	}
	nullable, _ := v.Get("nullable").Bool()
	dst = append(dst, '{')
	first := true
	for key, m := range v.Members {
		name := camel(key)
		if isGoogleKeyword(name, m) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jsonx.AppendString(dst, name), ':')
		dst = appendKeyword(dst, name, m, nullable, levels-1)
	}
	return append(dst, '}')
}

func appendKeyword(dst []byte, name string, m jsonx.Value, nullable bool, levels int) []byte {
	text, isText := m.Str()
	switch {
	case name == "type" && isText && nullable:
		return append(jsonx.AppendString(append(dst, '['), strings.ToLower(text)), `,"null"]`...)
	case name == "type" && isText:
		return jsonx.AppendString(dst, strings.ToLower(text))
	case isCount(name) && isText:
		if n := (jsonx.Value{Raw: jsonx.Raw(text)}); n.Kind() == jsonx.Number && jsonx.Valid(n.Raw) == nil {
			return append(dst, text...)
		}
	case isSchema(name):
		return appendSchema(dst, m, levels)
	case isSchemas(name) && m.Kind() == jsonx.Array:
		dst = append(dst, '[')
		for i, e := range m.Each {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendSchema(dst, e, levels)
		}
		return append(dst, ']')
	case isSchemas(name) && m.Kind() == jsonx.Object:
		dst = append(dst, '{')
		first := true
		for key, e := range m.Members {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = appendSchema(append(jsonx.AppendString(dst, key), ':'), e, levels)
		}
		return append(dst, '}')
	}
	return append(dst, m.Raw...)
}
