package event

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// Kind is a kind of event, whose data is a T. Kinds are package variables, each made by Declare, so that Catalogue has all that a program can emit.
type Kind[T any] struct {
	name    string
	audited bool // the audit log has it, too
}

// Name is what events of the kind are called.
func (k Kind[T]) Name() string { return k.name }

// Declared is a kind of event as documents show it.
type Declared struct {
	Name   string   `json:"name"`
	When   string   `json:"when"`   // it is emitted
	Fields []string `json:"fields"` // the members of its data, by their names in JSON
	Audit  bool     `json:"audit"`  // the audit log has it
}

// declared are the kinds of this program.
var declared struct {
	sync.Mutex
	list []Declared
}

// Declare names a kind of event, and says when it is emitted.
func Declare[T any](name, when string) Kind[T] {
	declared.Lock()
	defer declared.Unlock()
	declared.list = append(declared.list, Declared{name, when, fields(reflect.TypeFor[T]()), false})
	return Kind[T]{name: name}
}

// Audited is the kind as one that the audit log has, too, whether or not somebody reads events.
func (k Kind[T]) Audited() Kind[T] {
	declared.Lock()
	defer declared.Unlock()
	for i := range declared.list {
		if declared.list[i].Name == k.name {
			declared.list[i].Audit = true
		}
	}
	k.audited = true
	return k
}

// Catalogue are the kinds of events that the program's packages declare, by name.
func Catalogue() []Declared {
	declared.Lock()
	defer declared.Unlock()
	all := slices.Clone(declared.list)
	slices.SortFunc(all, func(a, b Declared) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Emit emits an event of this kind about the request of an account ("" for none). The data is marshalled later by another goroutine, and must not be modified. s may
// be nil.
func (k Kind[T]) Emit(s *Sink, account policy.Account, data T) {
	if k.audited {
		s.record(k.name, account, data)
	}
	s.emit(k.name, account, data)
}

// Watch has f called with each event of this kind that s gets, in the goroutine that emits it: f must not wait, nor modify the data. It costs events of other
// kinds nothing. Watching does not end; s must not be one that holds events.
func (k Kind[T]) Watch(s *Sink, f func(at time.Time, account policy.Account, data T)) {
	s.changes.Lock()
	defer s.changes.Unlock()
	next := map[string]func(*line){}
	if now := s.watched.Load(); now != nil {
		maps.Copy(next, *now)
	}
	before := next[k.name]
	next[k.name] = func(l *line) {
		if before != nil {
			before(l)
		}
		if data, ok := l.Data.(T); ok {
			f(l.Time, l.Account, data)
		}
	}
	s.watched.Store(&next)
}

// watcher is who watches a kind of event; nil for nobody.
func (s *Sink) watcher(name string) func(*line) {
	switch {
	case s == nil:
		return nil
	case s.to != nil:
		return s.to.watcher(name)
	}
	if w := s.watched.Load(); w != nil {
		return (*w)[name]
	}
	return nil
}

// fields are the names in JSON of a struct's members, those of embedded structs among them.
func fields(t reflect.Type) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, fields(f.Type)...)
		case name != "-" && f.IsExported():
			names = append(names, name)
		}
	}
	return names
}
