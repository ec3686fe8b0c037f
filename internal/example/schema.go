package example

import (
	"encoding/json"
	"maps"
	"strconv"

	"bardo.money/gateway/internal/rawjson"
)

// object is a schema, or a part of one.
type object = rawjson.Object

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

// all merges the schemas of an allOf.
func all(s object) json.RawMessage {
	var of []json.RawMessage
	_ = json.Unmarshal(s["allOf"], &of) // another type reads as empty
	rest := s.Clone()
	delete(rest, "allOf")
	raw := rest.Raw()
	for _, one := range of {
		raw = merged(raw, one)
	}
	return raw
}

// merged merges two schemas: the properties and required names of both; for other keywords the second overrides the first.
func merged(a, b json.RawMessage) json.RawMessage {
	one, _ := rawjson.Parse(a)
	two, err := rawjson.Parse(b)
	if err != nil || len(one) == 0 {
		return b
	}
	out := one.Clone()
	maps.Copy(out, two)
	if one.Has("properties") && two.Has("properties") {
		both := one.Object("properties").Clone()
		maps.Copy(both, two.Object("properties"))
		out["properties"] = both.Raw()
	}
	if one.Has("required") && two.Has("required") {
		out["required"], _ = json.Marshal(append(one.Strings("required"), two.Strings("required")...)) // of strings
	}
	return out.Raw()
}
