package stored

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// finder walks over a body and collects references.
type finder struct {
	refs   []Ref
	err    error
	stack  []level // the objects and arrays that contain the current value, outermost first
	answer bool    // the body is part of an answer: annotations have ids, and members that are not ids are ignored
}

var _ jsonx.Visitor = (*finder)(nil)

// level is an object or array on the path to the current value.
type level struct {
	means     meaning // meaning of the member that it is; elements of an array have the array's
	array     bool
	step      jsonx.Step // its key or index in its parent; the key is a copy
	skill     string     // an object's skill_id
	userSkill bool       // the skill is a user's: the object's type is not "anthropic"
	item      *item      // set if it is an item of an input
}

// Enter implements jsonx.Visitor.
func (f *finder) Enter(at jsonx.Step, kind jsonx.Kind, empty bool) bool {
	l := level{array: kind == jsonx.Array, step: at}
	if around := f.parent(); at.Key != nil {
		l.means = f.meaning(at.Key)
		if around.item != nil && !empty {
			around.item.has(at.Key)
		}
		if l.means == items && !l.array {
			l.means = ignored // the input of a tool call
		}
	} else if around != nil {
		l.means = around.means
	}
	f.stack = append(f.stack, l)
	switch l.means {
	case stringID, fileURI:
		f.invalid(nil)
	case idList:
		if !l.array || at.Key == nil {
			f.invalid(nil)
		}
	case items:
		if !l.array {
			f.parent().item = &item{}
		}
	case idOrObject:
		if l.array {
			f.invalid(nil)
		}
	case objectWithID, anyURL, ignored:
	}
	if l.means == ignored || f.err != nil {
		f.stack = f.stack[:len(f.stack)-1]
		return false
	}
	return true
}

// meaning returns the meaning of a member's name at the current place; 0 for most.
func (f *finder) meaning(key []byte) meaning {
	m, ok := members[string(key)]
	if !ok && slices.ContainsFunc(key, needsFolding) {
		m = members[foldName(key)]
	}
	if f.answer && m == ignored && strings.EqualFold(string(key), "annotations") {
		return 0
	}
	return m
}

// needsFolding reports whether a lenient JSON parser may treat a byte as another one.
func needsFolding(c byte) bool { return c >= 0x80 || c == 0 || c >= 'A' && c <= 'Z' }

// Leave implements jsonx.Visitor.
func (f *finder) Leave() {
	l := f.parent()
	if l.item != nil {
		for _, id := range l.item.ids {
			f.add(id, []byte("id"), l.item.kind())
		}
	}
	if l.skill != "" && l.userSkill {
		f.add(l.skill, []byte(skillID), Resource)
	}
	f.stack = f.stack[:len(f.stack)-1]
}

// Scalar implements jsonx.Visitor.
func (f *finder) Scalar(at jsonx.Step, v jsonx.Value) {
	l := f.parent()
	switch {
	case f.err != nil || l == nil || v.IsNull():
	case at.Key == nil:
		if l.means == idList && l.array {
			f.named([]byte(strconv.Itoa(at.Index)), v)
		}
	default:
		f.member(l, at.Key, v)
	}
}

// member reads a scalar member of an object.
func (f *finder) member(l *level, key []byte, v jsonx.Value) {
	switch f.meaning(key) {
	case stringID:
		if len(key) == len(skillID) && foldName(key) == skillID { // vendors also have built-in skills
			l.skill, _ = v.Str()
			l.userSkill = l.userSkill || strings.HasPrefix(l.skill, "skill_")
			return
		}
		f.named(key, v)
	case idOrObject:
		f.named(key, v)
	case idList:
		f.invalid(key)
	case fileURI:
		f.uri(key, v)
	case anyURL:
		f.url(key, v)
	case objectWithID, items, ignored:
	default:
		f.plain(l, key, v)
	}
	if l.item != nil {
		l.item.member(key, v)
	}
}

// plain handles members whose meaning depends on the object.
func (f *finder) plain(l *level, key []byte, v jsonx.Value) {
	switch {
	case len(key) == len("id") && (l.means == idOrObject || l.means == objectWithID) && foldName(key) == "id":
		f.named(key, v)
	case string(key) == "type":
		l.userSkill = l.userSkill || !v.Equal("anthropic")
	}
}

// named adds a reference in a member or an element.
func (f *finder) named(step []byte, v jsonx.Value) {
	id, ok := v.Str()
	switch {
	case !ok:
		f.invalid(step)
	case id != "":
		f.add(id, step, Resource)
	}
}

// uri adds a file that Google's API stores. Other URIs are public.
func (f *finder) uri(key []byte, v jsonx.Value) {
	uri, ok := v.Str()
	switch file, stored := GoogleFile(uri); {
	case !ok:
		f.invalid(key)
	case stored:
		f.add(file, key, Resource)
	}
}

// url adds a URL that Google's API treats as a stored file.
func (f *finder) url(key []byte, v jsonx.Value) {
	if len(v.Raw) > maxURL {
		return // a data: URL
	}
	if url, ok := v.Str(); ok {
		if file, stored := GoogleFile(url); stored {
			f.add(file, key, URL)
		}
	}
}

// maxURL is the longest URL in bytes that can refer to a stored file.
const maxURL = 8 << 10

func (f *finder) add(id string, step []byte, kind Kind) {
	f.refs = append(f.refs, Ref{ID: id, At: f.path(step), Kind: kind})
}

// invalid records that a member, or its object or array, has the wrong type. Answers of providers are not checked.
func (f *finder) invalid(step []byte) {
	if f.err == nil && !f.answer {
		f.err = &InvalidError{At: f.path(step)}
	}
}

// parent returns the object or array that contains the current value; nil at the top.
func (f *finder) parent() *level {
	if len(f.stack) == 0 {
		return nil
	}
	return &f.stack[len(f.stack)-1]
}

// path returns the path of a member or element of the current level, or of the level itself if last is nil.
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
		step(string(last), f.parent() != nil && f.parent().array)
	}
	return b.String()
}
