package hint

import (
	"errors"
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

const (
	mostUnknown    = 8
	longestUnknown = 64
)

// readObject reads the members of a JSON object into t. Those in the set skip are left as they are. Null counts as absent. What is
// not known is noted under the object's own place.
func readObject[T any](t *T, object jsonx.Value, members []member[T], skip uint64, longest int, place string, unknown *[]string) error {
	v := value{json: object}
	switch {
	case object.Kind() != jsonx.Object:
		return v.wrong("expected an object")
	case len(object.Raw) > longest:
		return &wrong{problem: "is too long"}
	}
	var seen uint64
	for key, m := range object.Members {
		i := indexOf(members, key)
		if i < 0 {
			if like := indexOfFold(members, key); like >= 0 {
				return at("."+string(key), &wrong{problem: "is no hint: names are case-sensitive, write " + members[like].name})
			}
			note(unknown, place+"."+string(key))
			continue
		}
		bit := uint64(1) << i
		if seen&bit != 0 {
			return at("."+members[i].name, &wrong{problem: "is given twice"})
		}
		seen |= bit
		if skip&bit != 0 || m.IsNull() {
			continue
		}
		if err := members[i].set(t, value{json: m}); err != nil {
			return at("."+members[i].name, err)
		}
	}
	return nil
}

func indexOf[T any](members []member[T], key []byte) int {
	for i := range members {
		if members[i].name == string(key) {
			return i
		}
	}
	return -1
}

// indexOfFold is the member that a name differs from only by case.
func indexOfFold[T any](members []member[T], key []byte) int {
	return slices.IndexFunc(members, func(m member[T]) bool { return strings.EqualFold(m.name, string(key)) })
}

// object is a hint that is JSON in a header too.
func (v value) object() (jsonx.Value, error) {
	if v.json.Exists() {
		return v.json, nil
	}
	if len(v.text) > longestJSON {
		return jsonx.Value{}, &wrong{problem: "is too long"}
	}
	j, err := jsonx.Unique.Parse([]byte(v.text))
	if se, ok := errors.AsType[*jsonx.SyntaxError](err); ok && se.Member != "" {
		return j, &wrong{problem: se.Error()}
	}
	if err != nil {
		return j, v.wrong("expected a JSON object")
	}
	return j, nil
}

// note adds the name of an unknown hint, once, in few and short words that fit into a header.
func note(unknown *[]string, name string) {
	if len(*unknown) >= mostUnknown {
		return
	}
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || r == ',' || r == ';' {
			return '_'
		}
		return r
	}, name[:min(len(name), longestUnknown)])
	if !slices.Contains(*unknown, name) {
		*unknown = append(*unknown, name)
	}
}
