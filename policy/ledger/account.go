package ledger

import (
	"sync"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/usage"
)

// account is a key's money in memory. Held money, free money and the payments of unapplied charges add up to the key's block in the store, except while
// the writer moves money between them.
type account struct {
	name      policy.Account
	blockLock chan struct{} // semaphore: its owner moves money between the block and the balance

	mu        sync.Mutex
	row       int64 // the account's number in the store, once ready
	ready     bool  // the store was read and the key was not blocked
	epoch     int   // incremented when the block is lost
	free      policy.Micro
	held      policy.Micro // in open holds
	openHolds int          // number of open holds
	stored    policy.Micro // the store's balance when last read
	unapplied policy.Micro // charges that stored does not include
	lastUsed  time.Time    // the last reserve, capture or release
	spent     spent
}

// spent is the charges of one day.
type spent struct {
	day        int64        // days since 1970, UTC
	loaded     bool         // sum includes the day's earlier charges
	generation uint64       // Ledger.Generation before the store was read
	sum        policy.Micro // committed
	pending    policy.Micro // sent to the writer, of any day
}

// begin counts a charge that is sent to the writer.
func (s *spent) begin(amount policy.Micro) { s.pending += amount }

// end counts the charge's result: charged is zero if it failed or was a duplicate.
func (s *spent) end(amount, charged policy.Micro, day int64) {
	s.pending -= amount
	s.add(charged, day)
}

// add counts a committed charge of a day.
func (s *spent) add(charged policy.Micro, day int64) {
	if s.loaded && s.day == day {
		s.sum += charged
	}
}

// Hold is an amount reserved for one request. It ends by Capture or Release.
type Hold struct {
	account *account
	request string

	captures sync.Mutex   // one capture at a time
	standing policy.Micro // the request's standing hold in the store, beside the amount; it is set once

	// Guarded by account.mu.
	receipt   *Receipt // of the capture
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

// isOpen reports whether the hold has neither been charged nor released.
func (h *Hold) isOpen() bool {
	h.account.mu.Lock()
	defer h.account.mu.Unlock()
	return !h.released
}

// number is the account's id in the store; zero if it is not known.
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

// dropFree sets the free part to zero after other gateways have returned the block. Holds stay: their charges are paid from the balance.
func (a *account) dropFree() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = 0
	a.epoch++
}

// reset drops the state after the store's file was replaced. Holds stay: their charges are paid from the balance in the new file.
func (a *account) reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.row, a.ready, a.free = 0, false, 0
	a.epoch++
	a.spent.loaded = false
}

// takeFree takes up to an amount out of the free part, so that no other request uses it.
func (a *account) takeFree(amount policy.Micro) policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	aside := min(a.free, amount)
	a.free -= aside
	return aside
}

// beginCapture prevents a concurrent Release from freeing money that a charge is about to take.
func (h *Hold) beginCapture(now time.Time) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lastUsed = now
	h.capturing++
}

// abandonCapture ends a capture that did not happen. The hold stays open, unless it was released meanwhile.
func (h *Hold) abandonCapture() {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	h.capturing--
	h.freeIfReleased()
}

// earlierReceipt is the receipt of the hold's charge, if there was one.
func (h *Hold) earlierReceipt() (Receipt, bool) {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.receipt == nil {
		return Receipt{}, false
	}
	r := *h.receipt
	r.Repeated = true
	return r, true
}

// payment is a charge that was taken out of its hold in memory and is not applied to the store yet.
type payment struct {
	hold    *Hold
	entry   *chargelog.Entry
	epoch   int     // of the account, when the money was taken
	receipt Receipt // for the request
	applied Receipt // from the store
}

// pay takes a charge out of its hold, ends the hold and frees the rest.
func (h *Hold) pay(c *Charge, open bool) *payment {
	a := h.account
	a.mu.Lock()
	defer a.mu.Unlock()
	standing := min(c.Amount, h.standing)
	p := &payment{hold: h, entry: &chargelog.Entry{Charge: c, Prepaid: true, Standing: standing, Paid: min(c.Amount-standing, h.amount), Open: open}, epoch: h.epoch}
	h.amount -= p.entry.Paid
	a.held -= p.entry.Paid
	charged := p.entry.Expected()
	a.unapplied += charged
	a.spent.begin(c.Amount)
	p.receipt = Receipt{Charged: charged, Loss: c.Amount - charged, Balance: a.stored - a.unapplied, Late: open}
	a.ready = a.ready && p.receipt.Loss == 0 // blocked: each reserve reads the store, until a deposit
	h.receipt = &p.receipt
	h.capturing--
	h.released = true
	h.freeIfReleased()
	return p
}

// undo reopens the hold of a charge that the writer did not accept.
func (p *payment) undo() {
	h, a := p.hold, p.hold.account
	a.mu.Lock()
	defer a.mu.Unlock()
	p.drop()
	h.receipt, h.released = nil, false
	h.amount += p.entry.Paid
	a.held += p.entry.Paid
	if h.ended {
		h.ended = false
		a.openHolds++
	}
}

// drop subtracts the charge from the unapplied ones. account.mu is locked.
func (p *payment) drop() {
	p.hold.account.unapplied -= p.entry.Expected()
	p.hold.account.spent.end(p.entry.Charge.Amount, 0, 0)
}

// settle processes the charge's result in the store. Money that the store did not take becomes free.
func (p *payment) settle(err error) {
	a, r := p.hold.account, p.applied
	a.mu.Lock()
	defer a.mu.Unlock()
	p.drop()
	if err != nil || r.Repeated {
		if p.epoch == a.epoch {
			a.free += p.entry.Paid
		}
		return
	}
	a.stored = r.Balance
	a.spent.add(r.Charged, usage.DayOf(p.entry.Charge.At))
	if r.Loss > 0 {
		a.ready = false
	}
}

// balanceNow is the last known balance, less unapplied charges.
func (a *account) balanceNow() policy.Micro {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored - a.unapplied
}

// beginSpending counts a metered key's charge that is sent to the writer.
func (a *account) beginSpending(amount policy.Micro) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent.begin(amount)
}

// endSpending counts the charge's result.
func (a *account) endSpending(c *Charge, charged policy.Micro) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.spent.end(c.Amount, charged, usage.DayOf(c.At))
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
