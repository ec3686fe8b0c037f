package stored

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// finder is the walk over a body.
type finder struct {
	refs   []Ref
	err    error
	stack  []level // the objects and arrays around a value, from the outside in
	answer bool    // it is a piece of an answer: annotations name things, and a member that is no id is left out
}

var _ jsonx.Visitor = (*finder)(nil)

// level is an object or an array that the walk is in.
type level struct {
	means meaning // of an object: of the member that it is; of an array, and of its elements: of the array
	array bool
	step  jsonx.Step // its place in the level around it; the key is the walk's own copy
	skill string     // an object's skill_id
	other bool       // an object's type is not "anthropic"
	item  *item      // nil: it is none
}

// Enter implements jsonx.Visitor.
func (f *finder) Enter(at jsonx.Step, kind jsonx.Kind, empty bool) bool {
	l := level{array: kind == jsonx.Array, step: at}
	if around := f.around(); at.Key != nil {
		l.means = f.meaning(at.Key)
		if around.item != nil && !empty {
			around.item.has(at.Key)
		}
		if l.means == items && !l.array {
			l.means = opaque // the input of a tool's call
		}
	} else if around != nil {
		l.means = around.means
	}
	f.stack = append(f.stack, l)
	switch l.means {
	case anID, fileURI:
		f.invalid(nil)
	case ids:
		if !l.array || at.Key == nil {
			f.invalid(nil)
		}
	case items:
		if !l.array {
			f.around().item = &item{}
		}
	case idOrMore:
		if l.array {
			f.invalid(nil)
		}
	case withID, address, opaque:
	}
	if l.means == opaque || f.err != nil {
		f.stack = f.stack[:len(f.stack)-1]
		return false
	}
	return true
}

// meaning is what a member of some name holds here. Most names are in lower case, and mean nothing.
func (f *finder) meaning(key []byte) meaning {
	m, ok := members[string(key)]
	if !ok && slices.ContainsFunc(key, unusual) {
		m = members[same(key)]
	}
	if f.answer && m == opaque && strings.EqualFold(string(key), "annotations") {
		return 0
	}
	return m
}

// unusual tells a byte for which lenient readers may take another one.
func unusual(c byte) bool { return c >= 0x80 || c == 0 || c >= 'A' && c <= 'Z' }

// Leave implements jsonx.Visitor.
func (f *finder) Leave() {
	l := f.around()
	if l.item != nil {
		for _, id := range l.item.ids {
			f.add(id, []byte("id"), l.item.kind())
		}
	}
	if l.skill != "" && l.other {
		f.add(l.skill, []byte(skillID), Thing)
	}
	f.stack = f.stack[:len(f.stack)-1]
}

// Scalar implements jsonx.Visitor.
func (f *finder) Scalar(at jsonx.Step, v jsonx.Value) {
	l := f.around()
	switch {
	case f.err != nil || l == nil || v.IsNull():
	case at.Key == nil:
		if l.means == ids && l.array {
			f.named([]byte(strconv.Itoa(at.Index)), v)
		}
	default:
		f.member(l, at.Key, v)
	}
}

// member reads a scalar member of an object.
func (f *finder) member(l *level, key []byte, v jsonx.Value) {
	switch f.meaning(key) {
	case anID:
		if len(key) == len(skillID) && same(key) == skillID { // the vendors have some of their own
			l.skill, _ = v.Str()
			l.other = l.other || strings.HasPrefix(l.skill, "skill_")
			return
		}
		f.named(key, v)
	case idOrMore:
		f.named(key, v)
	case ids:
		f.invalid(key)
	case fileURI:
		f.uri(key, v)
	case address:
		f.url(key, v)
	case withID, items, opaque:
	default:
		f.plain(l, key, v)
	}
	if l.item != nil {
		l.item.member(key, v)
	}
}

// plain reads a member that means something only where it stands.
func (f *finder) plain(l *level, key []byte, v jsonx.Value) {
	switch {
	case len(key) == len("id") && (l.means == idOrMore || l.means == withID) && same(key) == "id":
		f.named(key, v)
	case string(key) == "type":
		l.other = l.other || !v.Equal("anthropic")
	}
}

// named notes that a member, or an element, names a thing.
func (f *finder) named(step []byte, v jsonx.Value) {
	id, ok := v.Str()
	switch {
	case !ok:
		f.invalid(step)
	case id != "":
		f.add(id, step, Thing)
	}
}

// uri notes a file that Google's API stores. Any other address is that of something that everybody may read.
func (f *finder) uri(key []byte, v jsonx.Value) {
	uri, ok := v.Str()
	switch file, stored := GoogleFile(uri); {
	case !ok:
		f.invalid(key)
	case stored:
		f.add(file, key, Thing)
	}
}

// url notes an address that Google's API would take for a file that it stores.
func (f *finder) url(key []byte, v jsonx.Value) {
	if len(v.Raw) > longestURL {
		return // it has its data with it
	}
	if url, ok := v.Str(); ok {
		if file, stored := GoogleFile(url); stored {
			f.add(file, key, URL)
		}
	}
}

// longestURL is how long an address may be that Google's API takes for a file's.
const longestURL = 8 << 10

func (f *finder) add(id string, step []byte, kind Kind) {
	f.refs = append(f.refs, Ref{ID: id, At: f.path(step), Kind: kind})
}

// invalid notes that a member, or the object or array around it, is not what it should be. A provider may say what it likes.
func (f *finder) invalid(step []byte) {
	if f.err == nil && !f.answer {
		f.err = &InvalidError{At: f.path(step)}
	}
}

// around is the object or the array around a value; nil for the text itself.
func (f *finder) around() *level {
	if len(f.stack) == 0 {
		return nil
	}
	return &f.stack[len(f.stack)-1]
}

// path is the way to a member, or an element, of the level around it; with nil, to the level itself.
func (f *finder) path(last []byte) string {
	var b strings.Builder
	step := func(name string, element bool) {
		switch {
		case element:
			b.WriteString("[" + name + "]")
		case b.Len() > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	for i := range f.stack {
		l := &f.stack[i]
		switch {
		case l.step.Key != nil:
			step(string(l.step.Key), false)
		case i > 0:
			step(strconv.Itoa(l.step.Index), true)
		}
	}
	if last != nil {
		step(string(last), f.around() != nil && f.around().array)
	}
	return b.String()
}
