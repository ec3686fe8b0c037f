package ledger

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
)

// account is a key's money in memory. Held and free money add up to the key's block in the store, except while the writer moves money
// between them.
type account struct {
	name      policy.Account
	blockLock chan struct{} // semaphore: its holder moves money between the block and the balance

	mu        sync.Mutex
	row       int64 // the account's number in the store, once ready
	ready     bool  // the store was read once and the key was not blocked
	epoch     int   // incremented when the block is lost
	free      policy.Micro
	held      policy.Micro // in open holds
	openHolds int          // holds
	balance   policy.Micro // the store's balance when last read, less what is not written yet
	lastUsed  time.Time    // the last reserve, capture or release
	spent     spent
}

// spent is the charges of one day.
type spent struct {
	day        int64        // days since 1970, UTC
	loaded     bool         // the day's earlier charges are in sum
	generation uint64       // the store's generation before it was read
	sum        policy.Micro // committed
	pending    policy.Micro // handed to the writer, of any day
}

// begin counts a charge that is handed to the writer.
func (s *spent) begin(amount policy.Micro) { s.pending += amount }

// end counts its result: charged is zero if it failed or was a duplicate.
func (s *spent) end(amount, charged policy.Micro, day int64) {
	s.pending -= amount
	if s.loaded && s.day == day {
		s.sum += charged
	}
}

// Hold is an amount reserved for one request. It ends by Capture or Release.
type Hold struct {
	account *account
	request string

	// Guarded by account.mu.
	amount    policy.Micro
	epoch     int // of the account when money was last added
	capturing int
	released  bool
	ended     bool
}

// Amount is the reserved amount: zero once the hold has ended.
func (h *Hold) Amount() policy.Micro {
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	return h.amount
}

// number is the account's id in the store, which is set once there is a hold.
func (a *account) number() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.row
}

// reserve moves an amount from the free part of the block to the hold, if there is enough.
func (a *account) reserve(h *Hold, amount policy.Micro, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastUsed = now
	if !a.ready || a.free < amount {
		return false
	}
	a.move(h, amount)
	return true
}

// move moves an amount from the free part to a hold, or back if negative. a.mu is locked.
func (a *account) move(h *Hold, amount policy.Micro) {
	a.free -= amount
	a.held += amount
	h.amount += amount
	h.epoch = a.epoch
}

// dropFree sets the free part to zero after other gateways have returned the block. Holds stay: their requests are charged to the balance.
func (a *account) dropFree() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = 0
	a.epoch++
}

// reset drops the state after the store's file was replaced. Holds stay: their requests are charged to the balance in the new file.
func (a *account) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.row, a.ready, a.free = 0, false, 0
	a.epoch++
	a.spent.loaded = false
}

// takeFree takes up to an amount out of the free part, so that no other request can use it.
func (a *account) takeFree(amount policy.Micro) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	aside := min(a.free, amount)
	a.free -= aside
	return aside
}

// beginCapture keeps a concurrent Release from freeing money that a charge is about to take.
func (h *Hold) beginCapture(amount policy.Micro, now time.Time) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastUsed = now
	h.capturing++
	a.spent.begin(amount)
}

// expectedReceipt is the expected result of a deferred charge.
func (h *Hold) expectedReceipt(amount policy.Micro) Receipt {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.balance -= amount
	return Receipt{Charged: amount, Balance: a.balance, Late: true}
}

// endCapture takes the charge out of the hold and frees the rest. If the charge failed, the hold stays open.
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
		a.ready = false // blocked: look for a deposit in the store at each reserve
	}
}

// freeIfReleased frees the hold's amount if it was released and no charge is in progress. account.mu is locked.
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
		h.account.openHolds--
	}
}
