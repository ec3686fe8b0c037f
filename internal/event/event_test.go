package event_test

import (
	"slices"
	"sync"
	"testing"

	"bardo.money/gateway/internal/event"
)

// pending are the events that a watcher has not read yet.
func pending(w *event.Watcher[int]) (out []int) {
	for {
		select {
		case e := <-w.Events():
			out = append(out, e)
		default:
			return out
		}
	}
}

func TestEverybodyWhoWatchesGetsEveryEvent(t *testing.T) {
	var f event.Feed[int]
	f.Publish(1) // to nobody
	a := f.Watch(10)
	f.Publish(2)
	b := f.Watch(10)
	f.Publish(3)
	a.Close()
	a.Close()
	f.Publish(4)
	if got := pending(a); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("the first got %v", got)
	}
	if got := pending(b); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("the second got %v", got)
	}
	b.Close()
	if f.Watched() {
		t.Error("watched after the last one left")
	}
}

func TestASlowWatcherLosesTheOldest(t *testing.T) {
	var f event.Feed[int]
	w := f.Watch(3)
	defer w.Close()
	for i := range 10 {
		f.Publish(i)
	}
	if got := pending(w); !slices.Equal(got, []int{7, 8, 9}) || w.Lost() != 7 {
		t.Errorf("got %v and lost %d", got, w.Lost())
	}
}

func TestANilFeedIsWatchedByNobody(t *testing.T) {
	var f *event.Feed[int]
	f.Publish(1)
	if f.Watched() {
		t.Error("watched")
	}
}

// With any concurrency, the events read and lost are all events, each once.
func TestNothingIsLostUncounted(t *testing.T) {
	var f event.Feed[int]
	w := f.Watch(4)
	const publishers, each = 8, 500
	done := make(chan struct{})
	var read int
	var reader, writers sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-w.Events():
				read++
			case <-done:
				read += len(pending(w))
				return
			}
		}
	})
	for range publishers {
		writers.Go(func() {
			for i := range each {
				f.Publish(i)
				if i%50 == 0 {
					f.Watch(1).Close()
				}
			}
		})
	}
	writers.Wait()
	close(done)
	reader.Wait()
	if got := read + int(w.Lost()); got != publishers*each {
		t.Errorf("%d of %d events", got, publishers*each)
	}
}

// A feed without watchers costs its publishers about as much as reading a variable.
func BenchmarkPublish(b *testing.B) {
	b.Run("nobody watches", func(b *testing.B) {
		var f event.Feed[[64]byte]
		b.ReportAllocs()
		for b.Loop() {
			f.Publish([64]byte{})
		}
	})
	b.Run("one watches", func(b *testing.B) {
		var f event.Feed[[64]byte]
		w := f.Watch(16)
		defer w.Close()
		b.ReportAllocs()
		for b.Loop() {
			f.Publish([64]byte{})
		}
	})
}
