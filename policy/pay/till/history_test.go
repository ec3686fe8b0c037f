package till

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

// history is a random sequence of what can happen to payments.
type history struct {
	*shop
	*testing.T
	random *rand.Rand
	nonce  byte
	open   []Taken                // whose requests are being served
	served map[int64]policy.Micro // what each served request cost, by payment
	lost   map[pay.Address]bool   // payers who cancelled
	waived map[pay.Address]policy.Micro
	top    uint64 // the highest block so far
}

// TestRandomHistoriesConserveMoney: payments are taken, served, released, sent, mined, taken out of the chain again and cancelled, at a node that fails at times,
// by gateways that end at any moment, in files and in PostgreSQL. In the end each served payment has moved what its request cost, or is a loss; the books sum up, no balance is
// below zero, and each payer has what is left of all payments together and of what was forgiven, or owes it.
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
			t.Cleanup(func() { _ = h.books.Close() })
			for range steps {
				h.step()
			}
			h.finish()
		})
	}
}

func (h *history) step() {
	h.Helper()
	h.top = max(h.top, h.chain.height)
	switch h.random.IntN(13) {
	case 0, 1, 2:
		h.takeOne()
	case 3, 4:
		h.end(func(p *Taken) { h.bill(p) })
	case 5:
		h.end(func(p *Taken) { h.must(h.Release(h.Context(), p)) })
	case 6, 7, 8:
		h.look(h.T, time.Duration(h.random.IntN(4))*time.Second)
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

// takeOne takes a payment of one of a few payers, by either scheme. A payer may have too much on its way, or be blocked.
func (h *history) takeOne() {
	h.Helper()
	if h.nonce == 250 || h.chain.down {
		return
	}
	h.nonce++
	p := h.payment(h.nonce)
	p.From = pay.Address{byte(1 + h.random.IntN(4))}
	if p.UpTo = h.random.IntN(2) == 0; p.UpTo {
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
	h.patience = time.Millisecond
	taken, err := h.Take(h.Context(), p, pay.Word{}, 11_000, fmt.Sprintf("req_%03d", h.nonce))
	if r, ok := errors.AsType[*pay.Refusal](err); ok && (r.Reason == pay.ReasonExposure || r.Reason == pay.ReasonBlocked || r.Reason == pay.ReasonValue && owes > 0 && !pays) {
		return
	}
	if owes > 0 && !pays {
		h.Errorf("a payment of %s was taken of a payer who owes %s", p.Value, owes)
	}
	if errors.Is(err, ErrUnsettled) { // of a payer whose payment failed: the payment is the wallet's credit
		h.served[taken.ID] = 0
		return
	}
	h.must(err)
	h.open = append(h.open, taken)
}

// end ends the request of a payment.
func (h *history) end(how func(p *Taken)) {
	if len(h.open) == 0 {
		return
	}
	i := h.random.IntN(len(h.open))
	p := h.open[i]
	h.open = append(h.open[:i], h.open[i+1:]...)
	how(&p)
}

// bill books what a request cost, at most what its payment allows.
func (h *history) bill(p *Taken) {
	h.Helper()
	cost := policy.Micro(1 + h.random.IntN(10_000))
	_, err := h.Served(h.Context(), p, ledger.Charge{RequestID: p.Request, Account: pay.Account(p.From), Amount: cost})
	h.must(err)
	h.served[p.ID] = cost
}

// reorg takes the newest transactions out of the chain, but none that is final. Those that are sent again are mined again, in other blocks.
func (h *history) reorg(n int) {
	for range n {
		if h.chain.height == 0 || h.chain.height+2 <= h.top {
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

// forgive forgives what a payer has lost so far, if anything.
func (h *history) forgive() {
	h.Helper()
	payer := pay.Address{byte(1 + h.random.IntN(4))}
	f, err := h.books.Forgive(h.Context(), pay.Account(payer), ledger.Forgiveness{Via: "socket", Reason: "why"})
	if errors.Is(err, ledger.ErrNoLoss) || errors.Is(err, ledger.ErrUnknownKey) {
		return
	}
	h.must(err)
	h.waived[payer] += f.Amount
}

// crash ends the gateway; the next one goes on.
func (h *history) crash() {
	h.Helper()
	h.open = nil
	h.reopen(h.T)
}

// finish lets everything settle, and looks at the sums.
func (h *history) finish() {
	h.Helper()
	h.crash()
	h.chain.down, h.chain.sends = false, true
	for range 30 {
		h.look(h.T, 6*time.Second)
	}
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

// checkServed makes sure that a served payment was moved once, or cannot be moved.
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
