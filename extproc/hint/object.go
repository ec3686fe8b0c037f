package hint

import (
	"errors"
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

const (
	maxUnknown     = 8
	maxUnknownName = 64
)

// readObject parses the members of a JSON object into t, except those in the bit set skip. Null counts as absent. Unknown members are added to
// unknown, with place as their prefix.
func readObject[T any](t *T, object jsonx.Value, members []member[T], skip uint64, longest int, place string, unknown *[]string) error {
	v := value{json: object}
	switch {
	case object.Kind() != jsonx.Object:
		return v.invalid("expected an object")
	case len(object.Raw) > longest:
		return &hintError{problem: "is too long"}
	}
	var seen uint64
	for key, m := range object.Members {
		i := indexOf(members, key)
		if i < 0 {
			if like := indexOfFold(members, key); like >= 0 {
				return withPath("."+string(key), &hintError{problem: "is not a hint: names are case-sensitive, write " + members[like].name})
			}
			addUnknown(unknown, place+"."+string(key))
			continue
		}
		bit := uint64(1) << i
		if seen&bit != 0 {
			return withPath("."+members[i].name, &hintError{problem: "is given twice"})
		}
		seen |= bit
		if skip&bit != 0 || m.IsNull() {
			continue
		}
		if err := members[i].set(t, value{json: m}); err != nil {
			return withPath("."+members[i].name, err)
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

// indexOfFold returns the member whose name differs only in case.
func indexOfFold[T any](members []member[T], key []byte) int {
	return slices.IndexFunc(members, func(m member[T]) bool { return strings.EqualFold(m.name, string(key)) })
}

// object parses a hint that is a JSON object, in a header too.
func (v value) object() (jsonx.Value, error) {
	if v.json.Exists() {
		return v.json, nil
	}
	if len(v.text) > maxHeaderJSON {
		return jsonx.Value{}, &hintError{problem: "is too long"}
	}
	j, err := jsonx.Unique.Parse([]byte(v.text))
	if se, ok := errors.AsType[*jsonx.SyntaxError](err); ok && se.Member != "" {
		return j, &hintError{problem: se.Error()}
	}
	if err != nil {
		return j, v.invalid("expected a JSON object")
	}
	return j, nil
}

// addUnknown adds the name of an unknown hint once, shortened and escaped for a response header.
func addUnknown(unknown *[]string, name string) {
	if len(*unknown) >= maxUnknown {
		return
	}
	name = strings.Map(func(r rune) rune {
		if r <= ' ' || r >= 0x7f || r == ',' || r == ';' {
			return '_'
		}
		return r
	}, name[:min(len(name), maxUnknownName)])
	if !slices.Contains(*unknown, name) {
		*unknown = append(*unknown, name)
	}
}
