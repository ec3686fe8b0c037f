// Package event delivers events to current watchers. Publishing never blocks, and costs one atomic load without watchers. It does not know the
// content of events.
package event

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Feed delivers events to watchers. The zero value is ready to use; a nil feed has no watchers. Safe for concurrent use.
type Feed[T any] struct {
	watchers atomic.Pointer[[]*Watcher[T]]
	changing sync.Mutex
}

// Watched reports whether there are watchers, so that callers can avoid creating events.
func (f *Feed[T]) Watched() bool { return f != nil && f.watchers.Load() != nil }

// Publish sends an event to all watchers without blocking.
func (f *Feed[T]) Publish(e T) {
	if !f.Watched() {
		return
	}
	if ws := f.watchers.Load(); ws != nil {
		for _, w := range *ws {
			w.take(e)
		}
	}
}

// Watch adds a watcher with a buffer of size events; if it is full, the oldest event is dropped. Call Close at the end.
func (f *Feed[T]) Watch(size int) *Watcher[T] {
	w := &Watcher[T]{feed: f, events: make(chan T, max(size, 1))}
	f.change(func(ws []*Watcher[T]) []*Watcher[T] { return append(slices.Clone(ws), w) })
	return w
}

// change replaces the list of watchers; an empty one is nil.
func (f *Feed[T]) change(next func([]*Watcher[T]) []*Watcher[T]) {
	f.changing.Lock()
	defer f.changing.Unlock()
	var now []*Watcher[T]
	if ws := f.watchers.Load(); ws != nil {
		now = *ws
	}
	if now = next(now); len(now) == 0 {
		f.watchers.Store(nil)
		return
	}
	f.watchers.Store(&now)
}

// Watcher receives the events of a feed.
type Watcher[T any] struct {
	feed   *Feed[T]
	events chan T
	lost   atomic.Uint64
}

// take buffers an event and drops the oldest one if the buffer is full.
func (w *Watcher[T]) take(e T) {
	for {
		select {
		case w.events <- e:
			return
		default:
		}
		select {
		case <-w.events:
			w.lost.Add(1)
		default: // read in the meantime
		}
	}
}

// Events returns the events since Watch, oldest first. The channel is never closed.
func (w *Watcher[T]) Events() <-chan T { return w.events }

// Lost returns the number of dropped events.
func (w *Watcher[T]) Lost() uint64 { return w.lost.Load() }

// Close removes the watcher. It may be called more than once.
func (w *Watcher[T]) Close() {
	w.feed.change(func(ws []*Watcher[T]) []*Watcher[T] {
		return slices.DeleteFunc(slices.Clone(ws), func(other *Watcher[T]) bool { return other == w })
	})
}
