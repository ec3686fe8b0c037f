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

// Kind is a kind of event with data of type T. Kinds are package variables created by Declare, so that Catalogue lists all that a program can emit.
type Kind[T any] struct {
	name    string
	audited bool // the audit log has it, too
}

// Name returns the event name of the kind.
func (k Kind[T]) Name() string { return k.name }

// Declared describes a kind of event, for documents.
type Declared struct {
	Name   string   `json:"name"`
	When   string   `json:"when"`   // when it is emitted
	Fields []string `json:"fields"` // the members of its data, by their names in JSON
	Audit  bool     `json:"audit"`  // it is also in the audit log
}

// declared are the kinds of this program.
var declared struct {
	sync.Mutex
	list []Declared
}

// Declare declares a kind of event; when describes the occasion.
func Declare[T any](name, when string) Kind[T] {
	declared.Lock()
	defer declared.Unlock()
	declared.list = append(declared.list, Declared{name, when, fields(reflect.TypeFor[T]()), false})
	return Kind[T]{name: name}
}

// Audited returns the kind with recording in the audit log, whether or not events are read.
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

// Catalogue returns the kinds of events that the program's packages declare, by name.
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

// Watch calls f with each event of this kind that s gets, in the goroutine that emits it: f must not block or modify the data. It costs events of
// other kinds nothing. Watching does not end; s must not be one that holds events.
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

// watcher returns the watcher of a kind of event; nil for none.
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

// fields returns the JSON names of a struct's members, including those of embedded structs.
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
