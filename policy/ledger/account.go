package ledger

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// account is what memory knows of a key's money. What is held and what is free add up to the key's block in the store,
// except while the writer moves something between the two.
type account struct {
	name policy.Account
	turn chan struct{} // whoever fills it is the one who moves money between the block and the balance

	mu      sync.Mutex
	row     int64 // the account's number in the store, once ready
	ready   bool  // the store was asked once and the key was not blocked
	epoch   int   // moves when the block is lost
	free    policy.Micro
	held    policy.Micro // in open holds
	open    int          // holds
	balance policy.Micro // what the store had when it was asked last, less what waits to be written
	touched time.Time    // the last reserve, capture or release
	spent   spent
}

// spent counts what was charged on one day.
type spent struct {
	day     int64        // days since 1970, UTC
	known   bool         // the day's earlier charges are in sum
	asOf    uint64       // the store's generation before it was read
	sum     policy.Micro // committed
	pending policy.Micro // handed to the writer, of whatever day
}

// begin notes a charge that is on its way to the writer.
func (s *spent) begin(amount policy.Micro) { s.pending += amount }

// end notes what came of it: charged is zero when it failed or was a repetition.
func (s *spent) end(amount, charged policy.Micro, day int64) {
	s.pending -= amount
	if s.known && s.day == day {
		s.sum += charged
	}
}

// Hold is an amount reserved for one request. It ends by Capture or Release.
type Hold struct {
	account *account
	request string

	// Guarded by account.mu.
	amount    policy.Micro
	epoch     int // of the account when money came last
	capturing int
	released  bool
	ended     bool
}

// Amount is what the hold reserves now: nothing once it has ended.
func (h *Hold) Amount() policy.Micro {
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	return h.amount
}

// number is the account's number in the store. Whoever has a hold on it has brought it here.
func (a *account) number() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.row
}

// reserve moves an amount from the free part of the block to the hold, if there is enough.
func (a *account) reserve(h *Hold, amount policy.Micro, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.touched = now
	if !a.ready || a.free < amount {
		return false
	}
	a.move(h, amount)
	return true
}

// move gives an amount of the free part to a hold; a negative amount goes the other way. a.mu is held.
func (a *account) move(h *Hold, amount policy.Micro) {
	a.free -= amount
	a.held += amount
	h.amount += amount
	h.epoch = a.epoch
}

// loseBlock forgets what is free of a block that others have given back. The holds stay: their requests are charged to
// the balance.
func (a *account) loseBlock() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = 0
	a.epoch++
}

// forget drops what memory has of a store that is another file now. The holds stay: their requests are charged to the balance there.
func (a *account) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.row, a.ready, a.free = 0, false, 0
	a.epoch++
	a.spent.known = false
}

// setAside takes up to an amount out of the free part, so that no other request takes it.
func (a *account) setAside(amount policy.Micro) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	aside := min(a.free, amount)
	a.free -= aside
	return aside
}

// beginCapture keeps a Release from giving away money that a charge is about to take.
func (h *Hold) beginCapture(amount policy.Micro, now time.Time) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.touched = now
	h.capturing++
	a.spent.begin(amount)
}

// expect is what will come of a charge that waits for the store, as far as is known.
func (h *Hold) expect(amount policy.Micro) Receipt {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.balance -= amount
	return Receipt{Charged: amount, Balance: a.balance, Late: true}
}

// endCapture takes what was charged out of the hold and frees the rest. A hold whose charge failed stays open.
func (h *Hold) endCapture(amount policy.Micro, day int64, r Receipt, err error) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	h.capturing--
	if err != nil {
		a.spent.end(amount, 0, day)
		h.freeIfReleased()
		return
	}
	charged := r.Charged
	a.balance = r.Balance
	if r.Repeated {
		charged = 0
	}
	a.spent.end(amount, charged, day)
	h.amount -= charged
	a.held -= charged
	h.released = true
	h.freeIfReleased()
	if r.Loss > 0 {
		a.ready = false // blocked: ask the store for a deposit at each reserve
	}
}

// freeIfReleased gives the hold's amount back when nothing needs it any more. account.mu is held.
func (h *Hold) freeIfReleased() {
	if !h.released || h.capturing > 0 {
		return
	}
	lost := h.epoch != h.account.epoch
	back := h.amount
	h.account.move(h, -back)
	if lost {
		h.account.free -= back
	}
	if !h.ended {
		h.ended = true
		h.account.open--
	}
}
