// Package event passes on what happened to whoever watches just now. Who reports never waits, and pays for a look at one word
// while nobody watches. It does not know what the events say.
package event

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Feed passes events from those who report to those who watch. The zero value is ready, and a nil feed is watched by nobody.
// Safe for concurrent use.
type Feed[T any] struct {
	watchers atomic.Pointer[[]*Watcher[T]]
	changing sync.Mutex
}

// Watched tells whether anybody watches. Who asks first need not make an event that nobody sees.
func (f *Feed[T]) Watched() bool { return f != nil && f.watchers.Load() != nil }

// Publish gives an event to everybody who watches, and waits for nobody.
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

// Watch begins to watch. A watcher that falls more than size events behind loses the oldest of them. Who watches calls Close.
func (f *Feed[T]) Watch(size int) *Watcher[T] {
	w := &Watcher[T]{feed: f, events: make(chan T, max(size, 1))}
	f.change(func(ws []*Watcher[T]) []*Watcher[T] { return append(slices.Clone(ws), w) })
	return w
}

// change swaps the list of watchers for another; an empty one is nil.
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

// take keeps an event, in place of the oldest one where there is no room.
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
		default: // read meanwhile
		}
	}
}

// Events are the events since Watch, oldest first. The channel is never closed.
func (w *Watcher[T]) Events() <-chan T { return w.events }

// Lost is how many events the watcher was too slow for.
func (w *Watcher[T]) Lost() uint64 { return w.lost.Load() }

// Close ends the watching. It may be called more than once.
func (w *Watcher[T]) Close() {
	w.feed.change(func(ws []*Watcher[T]) []*Watcher[T] {
		return slices.DeleteFunc(slices.Clone(ws), func(other *Watcher[T]) bool { return other == w })
	})
}
