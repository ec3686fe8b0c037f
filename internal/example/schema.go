package example

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
)

// object is one JSON object with its members still in text.
type object map[string]json.RawMessage

func parseObject(raw []byte) (object, error) {
	var o object
	err := json.Unmarshal(raw, &o)
	return o, err
}

func (o object) has(key string) bool {
	v, ok := o[key]
	return ok && string(v) != "null"
}

func (o object) str(key string) string {
	var s string
	_ = json.Unmarshal(o[key], &s) // another type reads as ""
	return s
}

func (o object) num(key string) (float64, bool) {
	if !o.has(key) {
		return 0, false
	}
	var n float64
	err := json.Unmarshal(o[key], &n)
	return n, err == nil
}

func (o object) bool(key string) bool {
	var b bool
	_ = json.Unmarshal(o[key], &b) // another type reads as false
	return b
}

func (o object) object(key string) object {
	c, _ := parseObject(o[key]) // another type reads as no members
	return c
}

func (o object) strings(key string) []string {
	var l []string
	_ = json.Unmarshal(o[key], &l) // another type reads as empty
	return l
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

// names are the keys of an object in their order.
func names(raw json.RawMessage) (keys []string) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return keys
		}
		keys = append(keys, fmt.Sprint(key))
	}
	return keys
}

func clone(o object) object {
	c := make(object, len(o)+1)
	maps.Copy(c, o)
	return c
}

func (o object) raw() json.RawMessage {
	raw, err := json.Marshal(o)
	if err != nil {
		return nil
	}
	return raw
}

// all is what the schemas of an allOf say together.
func all(s object) json.RawMessage {
	var of []json.RawMessage
	_ = json.Unmarshal(s["allOf"], &of) // another type reads as empty
	rest := clone(s)
	delete(rest, "allOf")
	raw := rest.raw()
	for _, one := range of {
		raw = merged(raw, one)
	}
	return raw
}

// merged is what two schemas say together: the properties and the required ones of both; of what else both say, the second counts.
func merged(a, b json.RawMessage) json.RawMessage {
	one, _ := parseObject(a)
	two, err := parseObject(b)
	if err != nil || len(one) == 0 {
		return b
	}
	out := clone(one)
	maps.Copy(out, two)
	if one.has("properties") && two.has("properties") {
		both := clone(one.object("properties"))
		maps.Copy(both, two.object("properties"))
		out["properties"] = both.raw()
	}
	if one.has("required") && two.has("required") {
		out["required"], _ = json.Marshal(append(one.strings("required"), two.strings("required")...)) // of strings
	}
	return out.raw()
}
