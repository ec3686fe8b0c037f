package till

import "sync"

// noted is what is known of payments, by their ids, for several goroutines: a facilitator is handed many payments at once.
type noted[T any] struct {
	mu   sync.Mutex
	byID map[int64]T
}

func (n *noted[T]) of(id int64) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byID[id]
}

// change replaces what is noted of a payment, its zero value if nothing is, and gives what is noted then.
func (n *noted[T]) change(id int64, by func(T) T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID == nil {
		n.byID = map[int64]T{}
	}
	n.byID[id] = by(n.byID[id])
	return n.byID[id]
}

func (n *noted[T]) forget(id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byID, id)
}
