package jsonx

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// Checks of a text's member names by its form.

// objectState is the state of an object that is being scanned.
type objectState struct {
	start int       // its brace
	first int       // index of its first member in the list
	known [4]uint64 // bit set of its known members, by id, as far as there is room
}

// seen is a member of an object that is being scanned, except known ones that opened.known has room for.
type seen struct {
	key []byte
	id  uint32 // of a known member; 0: unknown
	sum uint32 // the hash of its name
}

// fewMembers is the number of an object's members that are compared one by one; beyond it a set is used.
const fewMembers = 32

// names are the members seen so far: those of the current object follow those of the objects around it.
type names struct {
	list []seen
	sets []set // of the objects being scanned that have many members
}

// set has the members of a large object, by their folded names.
type set struct {
	first int // index of its object's first member in the list
	of    map[string]struct{}
}

// member checks a member's name by the form of its object. It returns the known member of this name, nil for none, and the form of its value; ok is
// false after s.refuse.
func (s *scanner) member(f *Form, key []byte, at int, o *objectState) (known *name, of *Form, ok bool) {
	if f.kind == userNames {
		return nil, f.other, true
	}
	if f.kind == knownNames {
		n, exact := f.find(key)
		if n == nil {
			n = f.findLenient(key)
		}
		if n != nil {
			return n, n.of, s.knownMember(f, n, exact, key, at, o)
		}
	}
	return nil, f.other, s.newMember(f, seen{key: key, sum: nameHash(key, wordOf(key))}, at, o)
}

func (s *scanner) knownMember(f *Form, n *name, exact bool, key []byte, at int, o *objectState) bool {
	if !exact {
		s.refuse(at, differsByCase, n.text)
		return false
	}
	place, bit := n.id/64, uint64(1)<<(n.id%64)
	if int(place) >= len(o.known) {
		return s.newMember(f, seen{key: key, id: n.id}, at, o)
	}
	if o.known[place]&bit != 0 {
		s.refuseDuplicate(f, &seen{key: key, id: n.id}, at, o)
		return false
	}
	o.known[place] |= bit
	return true
}

// newMember adds a member to the list; it refuses a duplicate.
func (s *scanner) newMember(f *Form, m seen, at int, o *objectState) bool {
	if len(s.names.list)-o.first >= fewMembers {
		if s.inSet(f, &m, o) {
			s.refuseDuplicate(f, &m, at, o)
			return false
		}
		return true
	}
	for i := o.first; i < len(s.names.list); i++ {
		if s.names.list[i].same(&m, f) {
			s.refuseDuplicate(f, &m, at, o)
			return false
		}
	}
	if s.names.list == nil {
		s.names.list = make([]seen, 0, fewMembers/2)
	}
	s.names.list = append(s.names.list, m)
	return true
}

// refuseDuplicate refuses a member of which the object already has a spelling.
func (s *scanner) refuseDuplicate(f *Form, m *seen, at int, o *objectState) {
	other := string(m.key)
	for key := range (Value{Raw: s.b[o.start:]}).Members {
		twin := seen{key: key, sum: nameHash(key, wordOf(key))}
		if n, exact := f.find(key); exact {
			twin.id = n.id
		}
		if twin.same(m, f) {
			other = string(key)
			break
		}
	}
	s.refuse(at, givenTwice, other)
}

func (m *seen) same(o *seen, f *Form) bool {
	if m.id != 0 || o.id != 0 {
		return m.id == o.id
	}
	return m.sum == o.sum && (bytes.Equal(m.key, o.key) || f.kind == knownNames && equalFold(m.key, o.key))
}

// inSet reports whether a large object already has a member, and adds it.
func (s *scanner) inSet(f *Form, m *seen, o *objectState) bool {
	n := len(s.names.sets)
	if n == 0 || s.names.sets[n-1].first != o.first {
		of := make(map[string]struct{}, 2*fewMembers)
		for _, e := range s.names.list[o.first:] {
			of[e.folded(f)] = struct{}{}
		}
		s.names.sets = append(s.names.sets, set{o.first, of})
		n++
	}
	of, folded := s.names.sets[n-1].of, m.folded(f)
	if _, dup := of[folded]; dup {
		return true
	}
	of[folded] = struct{}{}
	return false
}

// folded is equal for names that a form does not distinguish.
func (m *seen) folded(f *Form) string {
	switch {
	case m.id != 0:
		return "\xff" + strconv.FormatUint(uint64(m.id), 10) // no name starts like this
	case f.kind == knownNames:
		return string(lowerASCII(m.key))
	}
	return string(m.key)
}

// popObject drops the members of an object, which start at first.
func (n *names) popObject(first int) {
	n.list = n.list[:first]
	if last := len(n.sets) - 1; last >= 0 && n.sets[last].first == first {
		n.sets = n.sets[:last]
	}
}

// nameError returns the error of the member whose key begins at s.at and collides with another name.
func (s *scanner) nameError() *SyntaxError {
	key, _, _ := readKey(s.b, s.at)
	member := make([]byte, 0, 64)
	for i, step := range slices.Backward(s.path) {
		member = append(member, step...)
		if i == 0 || !strings.HasPrefix(s.path[i-1], "[") {
			member = append(member, '.')
		}
	}
	e := syntaxError(s.b, s.at, "")
	e.Member = clip(append(member, key...))
	switch {
	case s.problem == differsByCase:
		e.Msg = e.Member + " is not a member: names are case-sensitive, write " + clip([]byte(s.msg))
	case string(key) != s.msg:
		e.Msg = e.Member + " is given twice, also as " + clip([]byte(s.msg))
	default:
		e.Msg = e.Member + " is given twice"
	}
	return e
}

// inMember and inElement extend the path of a refused name, from the inside out, by the member whose key begins at an offset, or by an array's
// element.
func (s *scanner) inMember(at int) int {
	if s.problem != 0 {
		key, _, _ := readKey(s.b, at)
		s.path = append(s.path, clip(key))
	}
	return -1
}

func (s *scanner) inElement(index int) int {
	if s.problem != 0 {
		s.path = append(s.path, "["+strconv.Itoa(index)+"]")
	}
	return -1
}

// clip shortens a name for an error: its end is kept.
func clip(name []byte) string {
	const maxLen = 128
	if len(name) <= maxLen {
		return string(name)
	}
	return "…" + strings.ToValidUTF8(string(name[len(name)-maxLen:]), "")
}
