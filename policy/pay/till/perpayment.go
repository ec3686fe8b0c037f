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

// requests are the ids of requests of this gateway whose payments are in use. Safe for concurrent use.
type requests struct {
	mu  sync.Mutex
	all map[string]struct{}
}

func (r *requests) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]struct{}{}
	}
	r.all[id] = struct{}{}
}

func (r *requests) has(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.all[id]
	return ok
}

func (r *requests) remove(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
}
