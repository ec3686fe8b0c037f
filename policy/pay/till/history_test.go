package till

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// history is a random sequence of events of payments.
type history struct {
	*shop
	*testing.T
	settler       *erraticSettler // nil: the gateway's own account settles
	random        *rand.Rand
	nonce         byte
	open          []Taken                // payments whose requests are being served
	served        map[int64]policy.Micro // cost of each served request, by payment
	lost          map[pay.Address]bool   // payers who cancelled
	waived        map[pay.Address]policy.Micro
	highest       uint64         // the highest block so far
	released      []*pay.Payment // released payments
	movedByOthers []*pay.Payment // released payments that strangers moved
}

// TestRandomHistoriesConserveMoney: payments are taken, served, released, sent, mined, removed by reorganisations and cancelled; strangers, and a facilitator
// that refuses them, move released ones; the node fails at times, and gateways end at any moment; in files and in PostgreSQL. In the end each served payment
// has moved the cost of its request, or is a loss; the ledger is sound, no balance is below zero, and each payer has the rest of all payments and of forgiven
// losses, or owes it.
func TestRandomHistoriesConserveMoney(t *testing.T) {
	seeds, steps := 12, 60
	if os.Getenv("BARDO_SOAK") != "" {
		seeds, steps = 400, 200
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &history{T: t, random: rand.New(rand.NewPCG(seed, 56)), served: map[int64]policy.Micro{}, lost: map[pay.Address]bool{}, waived: map[pay.Address]policy.Micro{}}
			url := ""
			if seed%3 == 2 {
				url = postgrestest.URL(t)
			}
			h.shop = open(t, t.TempDir(), url)
			if seed%4 == 1 {
				h.settler = &erraticSettler{fakeSettler: fakeSettler{chain: h.chain}, random: rand.New(rand.NewPCG(seed, 57))}
				h.Settler = h.settler
			}
			for range steps {
				h.step()
			}
			h.finish()
		})
	}
}

func (h *history) step() {
	h.Helper()
	h.highest = max(h.highest, h.chain.height)
	switch h.random.IntN(15) {
	case 0, 1, 2:
		h.takeOne()
	case 13:
		h.moveReleased()
	case 14:
		h.resend()
	case 3, 4:
		h.end(func(p *Taken) { h.bill(p) })
	case 5:
		h.end(func(p *Taken) { h.release(p) })
	case 6, 7, 8:
		h.settleAll(time.Duration(h.random.IntN(4)) * time.Second)
	case 9:
		h.reorg(1 + h.random.IntN(2))
	case 10:
		h.chain.down, h.chain.sends = h.random.IntN(3) == 0, h.random.IntN(4) > 0
	case 12:
		h.forgive()
	case 11:
		if h.random.IntN(3) == 0 {
			h.cancel()
			return
		}
		h.crash()
	}
}

func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// takeOne takes a payment of one of a few payers, by either scheme. It may exceed the payer's exposure, or the payer may be blocked.
func (h *history) takeOne() {
	h.Helper()
	if h.nonce == 250 || h.chain.down {
		return
	}
	h.nonce++
	p := h.payment(h.nonce)
	p.From = pay.Address{byte(1 + h.random.IntN(4))}
	if p.UpTo = h.random.IntN(2) == 0 && h.settler == nil; p.UpTo {
		p.Facilitator = pay.Address{8}
	}
	owes, err := h.Owed(h.Context(), p.From)
	h.must(err)
	if p.UpTo {
		owes = 0 // its payer is refused
	}
	pays := h.random.IntN(3) > 0
	if pays {
		p.Value += owes
	}
	h.timeout = time.Millisecond
	taken, err := h.Take(h.Context(), p, pay.Word{}, 11_000, fmt.Sprintf("req_%03d", h.nonce))
	if r, ok := errors.AsType[*pay.Refusal](err); ok && (r.Reason == pay.ReasonExposure || r.Reason == pay.ReasonBlocked || r.Reason == pay.ReasonValue && owes > 0 && !pays) {
		return
	}
	if owes > 0 && !pays {
		h.Errorf("a payment of %s was taken of a payer who owes %s", p.Value, owes)
	}
	if h.settler != nil && err != nil && taken.ID == 0 { // the facilitator refuses it, and may move it
		h.released = append(h.released, p)
		return
	}
	if errors.Is(err, ErrUnsettled) { // settled first: the payment becomes the wallet's credit
		h.served[taken.ID] = 0
		return
	}
	h.must(err)
	h.open = append(h.open, taken)
}

// release ends a request that costs nothing.
func (h *history) release(p *Taken) {
	h.Helper()
	h.must(h.Release(h.Context(), p))
	if !p.UpTo {
		h.released = append(h.released, &pay.Payment{Version: 2, Signature: p.Signature, Authorization: p.Authorization})
	}
}

// moveReleased has a stranger move a payment that was released.
func (h *history) moveReleased() {
	if len(h.released) == 0 {
		return
	}
	p := h.released[h.random.IntN(len(h.released))]
	hash := pay.Word{0xf2, p.Nonce[0]}
	h.chain.by[hash] = p.From
	h.chain.mine(hash, p.Nonce)
	h.movedByOthers = append(h.movedByOthers, p)
}

// resend sends a released payment again. Refusals are checked by checkReleased at the end.
func (h *history) resend() {
	h.Helper()
	if len(h.released) == 0 || h.chain.down {
		return
	}
	p := h.released[h.random.IntN(len(h.released))]
	h.timeout = time.Millisecond
	taken, err := h.Take(h.Context(), p, pay.Word{}, 11_000, fmt.Sprintf("req_%03d_again", p.Nonce[0]))
	if err == nil {
		h.release(&taken)
	}
}

// end ends a random request of a payment.
func (h *history) end(how func(p *Taken)) {
	if len(h.open) == 0 {
		return
	}
	i := h.random.IntN(len(h.open))
	p := h.open[i]
	h.open = append(h.open[:i], h.open[i+1:]...)
	how(&p)
}

// bill books a random cost of a request, within its payment.
func (h *history) bill(p *Taken) {
	h.Helper()
	cost := policy.Micro(1 + h.random.IntN(10_000))
	_, err := h.Served(h.Context(), p, ledger.Charge{RequestID: p.Request, Account: pay.Account(p.From), Amount: cost})
	h.must(err)
	h.served[p.ID] = cost
}

// reorg removes the newest transactions that are not final from the chain. Those that are sent again are mined in other blocks.
func (h *history) reorg(n int) {
	for range n {
		if h.chain.height == 0 || h.chain.height+2 <= h.highest {
			return
		}
		for hash, r := range h.chain.mined {
			if r.Block != h.chain.height {
				continue
			}
			delete(h.chain.mined, hash)
			for nonce, by := range h.chain.used {
				if by == hash {
					delete(h.chain.used, nonce)
				}
			}
			h.chain.slot--
		}
		h.chain.height--
	}
}

// cancel has a payer cancel an authorization whose request was served and which is not in the chain.
func (h *history) cancel() {
	h.Helper()
	due, err := h.Book.Due(h.Context())
	h.must(err)
	for i := range due {
		if _, used := h.chain.used[due[i].Nonce]; !used && due[i].Settlement != book.Confirmed {
			h.chain.used[due[i].Nonce] = pay.Word{}
			h.lost[due[i].From] = true
			return
		}
	}
}

// forgive forgives the losses of a payer so far, if there are any.
func (h *history) forgive() {
	h.Helper()
	payer := pay.Address{byte(1 + h.random.IntN(4))}
	f, err := h.books.Forgive(h.Context(), pay.Account(payer), ledger.ForgiveRequest{Via: "socket", Reason: "why"})
	if errors.Is(err, ledger.ErrNoLoss) || errors.Is(err, ledger.ErrUnknownKey) {
		return
	}
	h.must(err)
	h.waived[payer] += f.Amount
}

// crash ends the gateway, and starts the next one.
func (h *history) crash() {
	h.Helper()
	for i := range h.open {
		if p := &h.open[i]; !p.UpTo {
			h.released = append(h.released, &pay.Payment{Version: 2, Signature: p.Signature, Authorization: p.Authorization})
		}
	}
	h.open = nil
	h.reopen(h.T)
	if h.settler != nil {
		h.Settler = h.settler
	}
}

// finish settles everything, and checks the sums.
func (h *history) finish() {
	h.Helper()
	h.crash()
	h.chain.down, h.chain.sends = false, true
	if h.settler != nil {
		h.settler.mu.Lock()
		h.settler.honest = true
		h.settler.mu.Unlock()
	}
	for _, p := range h.movedByOthers {
		if _, ok := h.chain.used[p.Nonce]; !ok && h.chain.by[pay.Word{0xf2, p.Nonce[0]}] == p.From { // a reorganisation removed it
			h.chain.mine(pay.Word{0xf2, p.Nonce[0]}, p.Nonce)
		}
	}
	for range 30 {
		h.settleAll(6 * time.Second)
	}
	for range 5 { // until released payments have expired
		h.settleAll(3 * time.Minute)
	}
	h.checkReleased()
	balances := maps.Clone(h.waived)
	for id, cost := range h.served {
		p, err := h.Book.ByID(h.Context(), id)
		h.must(err)
		h.checkServed(&p, cost)
		balances[p.From] += p.Captured - p.Fee - cost
		if p.Settlement == book.Failed {
			balances[p.From] -= p.Captured
		}
	}
	for payer, want := range balances {
		b, err := h.books.Balance(h.Context(), pay.Account(payer))
		if err != nil || b.Amount != max(want, 0) || b.Owed != max(-want, 0) || b.Held != 0 {
			h.Errorf("%s has %s (%s held) and owes %s, want %s: %v", payer, b.Amount, b.Held, b.Owed, want, err)
		}
	}
	if r, err := h.books.Audit(h.Context()); err != nil || !r.OK {
		h.Errorf("the books: %+v, %v", r, err)
	}
}

// checkReleased verifies that every released payment that was moved is in the books, and that no transfer was made of one that is kept as credit.
func (h *history) checkReleased() {
	h.Helper()
	for _, p := range h.released {
		row, ok, err := h.Book.Find(h.Context(), h.Terms, p)
		h.must(err)
		hash, used := h.chain.used[p.Nonce]
		if moved := used && hash != (pay.Word{}); moved && (!ok || row.Service != book.Served) {
			h.Errorf("%s has moved, and the payment is %s of %s", hash, row.Service, row.Request)
		}
		if kept, err := h.Book.IsMovedByOther(h.Context(), row.ID); err != nil || kept && slices.Contains(h.chain.made, p.Nonce) {
			h.Errorf("the transfer of %s, which is kept as credit, was made, %v", row.Request, err)
		}
		if _, known := h.served[row.ID]; row.Service == book.Served && !known {
			h.served[row.ID] = 0
		}
	}
}

// checkServed verifies that a served payment was moved once, or can no longer be moved.
func (h *history) checkServed(p *book.Payment, cost policy.Micro) {
	h.Helper()
	hash, used := h.chain.used[p.Nonce]
	moved := used && hash != pay.Word{}
	switch {
	case p.Service != book.Served || !p.Booked || p.Charge != cost:
		h.Errorf("%s is %s, booked %v, %s", p.Request, p.Service, p.Booked, p.Charge)
	case p.Settlement == book.Failed && (moved || !h.lost[p.From]):
		h.Errorf("%s was given up: %s; moved %v", p.Request, p.Reason, moved)
	case p.Settlement != book.Failed && (!moved || p.Settlement != book.Confirmed && p.Settlement != book.Final):
		h.Errorf("%s is %s; moved %v", p.Request, p.Settlement, moved)
	case p.UpTo && p.Captured != cost+p.Fee || !p.UpTo && p.Captured != p.Value:
		h.Errorf("%s: %s moved for %s", p.Request, p.Captured, cost)
	}
}

// settleAll runs one pass of the till some time later; it may fail.
func (h *history) settleAll(later time.Duration) {
	h.Helper()
	h.at = h.at.Add(later)
	h.chain.now = h.at
	if err := h.pass(h.Context()); err != nil && h.settler == nil && !h.chain.down {
		h.Fatal(err)
	}
}

// erraticSettler is a facilitator that moves payments and answers at random.
type erraticSettler struct {
	fakeSettler

	random *rand.Rand
	honest bool // from here on
}

// Verify implements pay.Settler.
func (m *erraticSettler) Verify(_ context.Context, p *pay.Payment) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.random.IntN(4) == 0 {
		m.move(p)
	}
	switch m.random.IntN(5) {
	case 0:
		return p.Refuse(pay.ReasonTransfer, "not today")
	case 1:
		return errUnknown
	}
	return nil
}

// Settle implements pay.Settler.
func (m *erraticSettler) Settle(_ context.Context, t *pay.Transfer) (pay.Word, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chain.ordered(t.Nonce)
	hash := pay.Word{0xf0, t.Nonce[0]}
	if m.honest || m.random.IntN(3) > 0 {
		m.chain.mine(hash, t.Nonce)
	}
	switch m.random.IntN(5) {
	case 0:
		return pay.Word{}, errUnknown
	case 1:
		return pay.Word{}, &pay.Refusal{Reason: "not_today"}
	case 2:
		return pay.Word{0xee, t.Nonce[0]}, nil // an unknown transaction
	}
	return hash, nil
}
