package chatcompletion

import (
	"bytes"
	"slices"

	"bardo.money/gateway/internal/jsonx"
)

// join appends the value that results from the pieces of a member, as OpenAI's SDKs join a stream: arrays, members of objects, and split
// text are concatenated; of other values the last one counts. Null is ignored.
func join(dst []byte, key string, values []jsonx.Value) []byte {
	present := slices.DeleteFunc(slices.Clone(values), jsonx.Value.IsNull)
	if len(present) == 0 {
		return append(dst, "null"...)
	}
	last := present[len(present)-1]
	switch {
	case len(present) == 1:
	case last.Kind() == jsonx.Array:
		return joinArrays(dst, present)
	case last.Kind() == jsonx.Object:
		return joinObjects(dst, present)
	case last.Kind() == jsonx.String && isSplit(key):
		return joinTexts(dst, present)
	}
	return append(dst, last.Raw...)
}

// isSplit reports whether streams split the text of a member.
func isSplit(key string) bool {
	switch key {
	case "text", "summary", "data", "transcript":
		return true
	}
	return false
}

func joinTexts(dst []byte, values []jsonx.Value) []byte {
	var text []byte
	for _, v := range values {
		t, _ := v.Text(nil)
		text = append(text, t...)
	}
	return jsonx.AppendString(dst, text)
}

func joinArrays(dst []byte, arrays []jsonx.Value) []byte {
	dst = append(dst, '[')
	first := len(dst)
	for _, a := range arrays {
		for _, v := range a.Each {
			if len(dst) > first {
				dst = append(dst, ',')
			}
			dst = append(dst, v.Raw...)
		}
	}
	return append(dst, ']')
}

func joinObjects(dst []byte, objects []jsonx.Value) []byte {
	var keys []string
	values := map[string][]jsonx.Value{}
	for _, o := range objects {
		for key, v := range o.Members {
			if _, known := values[string(key)]; !known {
				keys = append(keys, string(key))
			}
			values[string(key)] = append(values[string(key)], v)
		}
	}
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonx.AppendString(dst, key), ':')
		dst = join(dst, key, values[key])
	}
	return append(dst, '}')
}

// joinDetails joins the arrays of reasoning_details: objects of the same type and index are pieces of one.
func joinDetails(dst []byte, arrays []jsonx.Value) []byte {
	type block struct{ kind, index []byte }
	var order []block
	var pieces [][]jsonx.Value
	for _, a := range arrays {
		if a.Kind() == jsonx.String { // some servers send a string
			return joinTexts(dst, arrays)
		}
		for _, v := range a.Each {
			b := block{v.Get("type").Raw, v.Get("index").Raw}
			i := slices.IndexFunc(order, func(o block) bool { return bytes.Equal(o.kind, b.kind) && bytes.Equal(o.index, b.index) })
			if i < 0 {
				i = len(order)
				order, pieces = append(order, b), append(pieces, nil)
			}
			pieces[i] = append(pieces[i], v)
		}
	}
	dst = append(dst, '[')
	for i := range pieces {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = join(dst, "", pieces[i])
	}
	return append(dst, ']')
}
