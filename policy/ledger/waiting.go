package ledger

import (
	"sync"

	"bardo.money/gateway/policy"
)

// waiting are the requests that the store does not have yet: those that are written behind, and those whose charges wait for a store that
// cannot be written. Whoever asks for one finds it here, so that what was said of a request can be read at once. The zero value is empty.
type waiting struct {
	mu       sync.Mutex
	requests map[string]Charge
	things   map[string]Kept // that are kept at providers
}

func (w *waiting) add(c Charge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requests == nil {
		w.requests = map[string]Charge{}
	}
	w.requests[c.RequestID] = c
}

func (w *waiting) remove(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.requests, id)
}

// find is the charge of a request of an account. What the account pays in the end is not known yet: the amount, most likely.
func (w *waiting) find(acct policy.Account, id string) (Request, bool) {
	r, ok := w.findAny(id)
	if !ok || r.Account != acct {
		return Request{}, false
	}
	return r, true
}

// findAny is find for whatever account.
func (w *waiting) findAny(id string) (Request, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.requests[id]
	return Request{Charge: c, Charged: c.Amount}, ok
}

func (w *waiting) addThings(things []Kept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.things == nil {
		w.things = map[string]Kept{}
	}
	for _, k := range things {
		if _, ok := w.things[k.ID]; !ok {
			w.things[k.ID] = k
		}
	}
}

func (w *waiting) removeThings(things []Kept) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range things {
		delete(w.things, k.ID)
	}
}

func (w *waiting) thing(id string) (Kept, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.things[id]
	return k, ok
}
