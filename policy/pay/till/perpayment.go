package till

import "sync"

// perPayment has values by payments' ids. Safe for concurrent use: a facilitator gets many payments concurrently.
type perPayment[T any] struct {
	mu   sync.Mutex
	byID map[int64]T
}

func (n *perPayment[T]) get(id int64) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byID[id]
}

// update replaces the value of a payment, which is zero if there is none, and returns the new one.
func (n *perPayment[T]) update(id int64, by func(T) T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byID == nil {
		n.byID = map[int64]T{}
	}
	n.byID[id] = by(n.byID[id])
	return n.byID[id]
}

func (n *perPayment[T]) remove(id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.byID, id)
}
