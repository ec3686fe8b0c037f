package structured

import (
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// limitNote describes a keyword that providers do not enforce, for the description; "" for annotations.
func limitNote(key string, v jsonx.Value) string {
	switch key {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
		"minProperties", "maxProperties", "format", "pattern", "uniqueItems":
		return key + " " + clip(string(v.Raw))
	}
	return ""
}

// addDescription appends the description of a value, with its limits.
func addDescription(w *member, v jsonx.Value, notes []string) {
	text, said := v.Get("description").Str()
	if len(notes) > 0 {
		if text != "" {
			text += " "
		}
		text += "(" + strings.Join(notes, ", ") + ")"
	}
	if said || text != "" {
		w.add("description", jsonx.AppendString(nil, text))
	}
}

// isRecursive reports whether a schema refers to itself.
func (s *strictWriter) isRecursive(start jsonx.Value, depth int) bool {
	return s.reaches(start, start.At, map[int]bool{}, depth)
}

func (s *strictWriter) reaches(v jsonx.Value, target int, seen map[int]bool, depth int) bool {
	if depth > 2*maxSchemaDepth {
		return true
	}
	if ref := v.Get("$ref"); ref.Exists() {
		to := resolved(s.root, v)
		if to.At == target {
			return true
		}
		if !seen[to.At] {
			seen[to.At] = true
			if s.reaches(to, target, seen, depth+1) {
				return true
			}
		}
	}
	for key, e := range v.Members {
		if name := string(key); name != "$defs" && name != "definitions" && s.reaches(e, target, seen, depth+1) {
			return true
		}
	}
	for _, e := range v.Each {
		if s.reaches(e, target, seen, depth+1) {
			return true
		}
	}
	return false
}

// Documented limits of enforced schemas: OpenAI allows 5,000 properties, 10 levels and 1,000 enum values; Anthropic 24 optional members and
// 16 unions of types.
const (
	openAIProperties  = 5000
	openAILevels      = 10
	openAIValues      = 1000
	anthropicOptional = 24
	anthropicUnions   = 16
)

// size is the numbers that providers limit.
type size struct {
	properties, levels, values, optional, unions int
}

// withinLimits reports whether a schema is within the limits of a provider.
func withinLimits(v jsonx.Value, r Rules) bool {
	var n size
	n.schema(v, 0)
	switch r {
	case RulesOpenAI:
		return n.properties <= openAIProperties && n.levels <= openAILevels && n.values <= openAIValues
	case RulesAnthropic:
		return n.optional <= anthropicOptional && n.unions <= anthropicUnions
	case RulesAny:
	}
	return true
}

func (n *size) schema(v jsonx.Value, level int) {
	if properties := v.Get("properties"); properties.Exists() {
		level++
		required := requiredBy(v)
		for key := range properties.Members {
			n.properties++
			if !required[string(key)] {
				n.optional++
			}
		}
	}
	if v.Get("anyOf").Exists() || v.Get("type").Kind() == jsonx.Array {
		n.unions++
	}
	n.values += len(listOf(v.Get("enum")))
	n.levels = max(n.levels, level)
	for key, e := range v.Members {
		switch string(key) {
		case "properties", "$defs", "definitions":
			for _, s := range e.Members {
				n.schema(s, level)
			}
		case "items":
			n.schema(e, level)
		case "anyOf", "allOf":
			for _, s := range e.Each {
				n.schema(s, level)
			}
		}
	}
}
