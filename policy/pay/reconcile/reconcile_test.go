package reconcile

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

const fee = 1000

var terms = &pay.Terms{Network: pay.Network{ID: 8453, Name: "base"}, Fee: fee}

// shop is a ledger with a book of payments.
type shop struct {
	*testing.T
	l     *ledger.Ledger
	book  *book.Book
	sales int
}

// onBoth runs a test with the ledger in a file and in PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	for _, store := range []string{"SQLite", "PostgreSQL"} {
		t.Run(store, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "bardo.db")
			if store == "PostgreSQL" {
				name = postgrestest.URL(t)
			}
			test(t, newShop(t, name, dir))
		})
	}
}

func newShop(t *testing.T, store, dir string) *shop {
	t.Helper()
	l, err := ledger.Open(t.Context(), store, ledger.Options{Gateway: true, Retention: -1, IdleReturn: time.Hour, AuditWait: -1, Dir: dir, Connect: postgres.Connect})
	if err != nil {
		t.Fatal(err)
	}
	b, err := book.Open(t.Context(), book.Beside(store, filepath.Join(dir, "bardo.db"), postgres.Connect), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := b.Claim(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	})
	return &shop{T: t, l: l, book: b}
}

// sale is a payment with its request, and the steps that were taken.
type sale struct {
	book.Payment

	account          policy.Account
	charge, captured policy.Micro
	done             int // steps
}

func (s *shop) sell(payer byte, charge, captured policy.Micro) *sale {
	s.Helper()
	s.sales++
	p := &pay.Payment{
		Authorization: pay.Authorization{From: pay.Address{payer}, Value: captured, ValidBefore: 1 << 39, Nonce: pay.Word{byte(s.sales), byte(s.sales >> 8)}},
		Signature:     make([]byte, 65),
	}
	row, err := s.book.Reserve(s.Context(), terms, p, fmt.Sprint("req_", s.sales), 1, book.Limits{})
	s.must(err)
	return &sale{Payment: row, account: pay.Account(p.From), charge: charge, captured: captured}
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) served(p *sale) {
	s.Helper()
	s.must(s.book.MarkServed(s.Context(), p.ID, p.charge, p.captured))
}
func (s *shop) credited(p *sale) { s.Helper(); s.credit(p, p.captured) }
func (s *shop) booked(p *sale)   { s.Helper(); s.must(s.book.MarkBooked(s.Context(), p.ID)) }
func (s *shop) failed(p *sale)   { s.Helper(); s.must(s.book.MarkFailed(s.Context(), p.ID, "expired")) }
func (s *shop) lost(p *sale)     { s.Helper(); s.must(s.book.MarkLost(s.Context(), p.ID)) }

func (s *shop) credit(p *sale, amount policy.Micro) {
	s.Helper()
	s.must(s.l.CreditWallet(s.Context(), p.account, amount, fee, p.Reference()))
}

func (s *shop) charged(p *sale) {
	s.Helper()
	if done, err := s.l.Charged(s.Context(), p.account, p.Request); err != nil || done {
		s.must(err)
		return
	}
	c := s.chargeOf(p)
	h, err := s.l.CreditServed(s.Context(), p.account, p.captured, fee, p.Reference(), &c, nil)
	s.must(err)
	_, err = s.l.Capture(s.Context(), h, c)
	s.must(err)
}

func (*shop) chargeOf(p *sale) ledger.Charge {
	return ledger.Charge{RequestID: p.Request, Account: p.account, Amount: p.charge}
}

func (s *shop) takenBack(p *sale) {
	s.Helper()
	_, err := s.l.TakeBack(s.Context(), p.account, p.captured, p.Reference())
	s.must(err)
}

// audit returns the findings of an audit, by check.
func (s *shop) audit() map[string][]string {
	s.Helper()
	r, err := s.l.Audit(s.Context())
	s.must(err)
	s.must(Run(s.Context(), s.book, s.l, &r))
	return s.offending(&r)
}

func (s *shop) offending(r *ledger.Report) map[string][]string {
	s.Helper()
	found := map[string][]string{}
	for _, c := range r.Checks {
		if !c.OK {
			found[c.Name] = c.Offending
		}
	}
	if r.OK != (len(found) == 0) {
		s.Errorf("the report says %v, and its checks %v", r.OK, found)
	}
	return found
}

func (s *shop) wantClean() {
	s.Helper()
	if found := s.audit(); len(found) > 0 {
		s.Fatalf("%v", found)
	}
}

// TestWhatIsWrongIsFound: each difference between payments and ledger is found by its check, and by no other.
func TestWhatIsWrongIsFound(t *testing.T) {
	for _, c := range []struct {
		sentence, check, offending string
		do                         func(s *shop, p *sale)
	}{
		{"a payment that was booked and not credited", Credited, "brought 0.005000 USD, which the ledger does not have", func(s *shop, p *sale) {
			p.charge = 0
			s.served(p)
			s.booked(p)
		}},
		{"a credit of another amount", Credited, "the ledger has 0.006000", func(s *shop, p *sale) {
			s.served(p)
			s.credit(p, 6000)
			s.charged(p)
			s.booked(p)
		}},
		{"a credit with another fee", Credited, "the ledger has 0.005000 with 0.000500", func(s *shop, p *sale) {
			s.served(p)
			s.must(s.l.CreditWallet(s.Context(), p.account, 5000, fee/2, p.Reference()))
			s.charged(p)
			s.booked(p)
		}},
		{"a loss of a payment whose request is not served", Credited, "is serving, and the ledger has 0.000000 USD of it", func(s *shop, p *sale) {
			s.completeSale(s.sell(2, 3000, 5000))
			s.takenBack(p)
		}},
		{"a credit of a payment whose request is not served", Credited, "is serving, and the ledger has 0.005000 USD of it", func(s *shop, p *sale) { s.credited(p) }},
		{"a request that is not charged", Charged, "cost 0.003000 USD, which the ledger has not charged", func(s *shop, p *sale) {
			s.served(p)
			s.credited(p)
			s.booked(p)
		}},
		{"a request that is charged for something else", Charged, "the ledger charged 0.002000", func(s *shop, p *sale) {
			s.served(p)
			s.credited(p)
			p.charge = 2000
			s.charged(p)
			s.booked(p)
		}},
		{"a request that is charged to another account", Charged, `the ledger charged 0.003000 of "other"`, func(s *shop, p *sale) {
			s.served(p)
			s.credited(p)
			s.must(s.l.CreateKey(s.Context(), ledger.KeyRow{ID: "other", Prepaid: true}, 10_000))
			h, err := s.l.Reserve(s.Context(), "other", p.Request, 3000)
			s.must(err)
			_, err = s.l.Capture(s.Context(), h, ledger.Charge{RequestID: p.Request, Account: "other", Amount: 3000})
			s.must(err)
			s.booked(p)
		}},
		{"money that never arrived", Taken, "its 0.005000 USD are not taken back", func(s *shop, p *sale) {
			s.completeSale(p)
			s.failed(p)
			s.lost(p)
		}},
		{"money that arrived and was taken back", Taken, "is none, and 0.005000 USD of it were taken back", func(s *shop, p *sale) {
			s.completeSale(p)
			s.takenBack(p)
		}},
		{"another amount than arrived that was taken back", Taken, "brought 0.005000 USD, and 0.004000 were taken back", func(s *shop, p *sale) {
			s.completeSale(p)
			_, err := s.l.TakeBack(s.Context(), p.account, 4000, p.Reference())
			s.must(err)
			s.failed(p)
			s.lost(p)
		}},
		{"a credit of another wallet's payment", Backed, "there is no such payment", func(s *shop, p *sale) {
			s.completeSale(p)
			s.must(s.l.CreditWallet(s.Context(), pay.Account(pay.Address{3}), 9000, fee, p.Reference()))
		}},
		{"a credit of no payment", Backed, "there is no such payment", func(s *shop, p *sale) {
			s.must(s.l.CreditWallet(s.Context(), p.account, 9000, fee, book.ReferencePrefix+"base:0x0:0x0:0x0"))
		}},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				s.completeSale(s.sell(1, 3000, 5000))
				p := s.sell(2, 3000, 5000)
				s.wantClean()
				c.do(s, p)
				found := s.audit()
				if names := slices.Collect(maps.Keys(found)); !slices.Equal(names, []string{c.check}) || len(found[c.check]) != 1 || !strings.Contains(found[c.check][0], c.offending) {
					t.Errorf("%v, want %s: %s", found, c.check, c.offending)
				}
			})
		})
	}
}

// TestAPaymentUnderWayIsNoFinding: its next step follows, or its request was charged before it by an earlier version.
func TestAPaymentUnderWayIsNoFinding(t *testing.T) {
	for sentence, do := range map[string]func(s *shop, p *sale){
		"served":                     (*shop).served,
		"served and credited":        func(s *shop, p *sale) { s.served(p); s.credited(p) },
		"failed, and not taken back": func(s *shop, p *sale) { s.completeSale(p); s.failed(p) },
		"failed before it is booked": func(s *shop, p *sale) { s.served(p); s.failed(p); s.lost(p) },
		"charged and stored without a charge": func(s *shop, p *sale) {
			s.must(s.book.MarkServed(s.Context(), p.ID, 0, p.captured))
			s.credited(p)
			s.charged(p)
			s.booked(p)
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				do(s, s.sell(1, 3000, 5000))
				s.wantClean()
			})
		})
	}
}

// TestWhatIsOnItsWayIsLookedAtAgain: a difference whose next step follows, or whose charge is in another machine's log, is no finding. One whose step does not
// follow is the only finding, while gateways continue.
func TestWhatIsOnItsWayIsLookedAtAgain(t *testing.T) {
	for _, c := range []struct {
		sentence, check, offending string
		do, then                   []func(s *shop, p *sale)
	}{
		{
			"a charge in the log of another machine", Charged, "which the ledger has not charged",
			[]func(*shop, *sale){(*shop).served, (*shop).credited, (*shop).booked},
			[]func(*shop, *sale){(*shop).charged},
		},
		{
			"a credit that the ledger shows later than the payment", Credited, "which the ledger does not have",
			[]func(*shop, *sale){(*shop).served, (*shop).booked},
			[]func(*shop, *sale){(*shop).credited, (*shop).charged},
		},
		{
			"a request that is served between two reads", Credited, "is serving, and the ledger has 0.005000 USD of it",
			[]func(*shop, *sale){(*shop).credited},
			[]func(*shop, *sale){(*shop).served, (*shop).charged, (*shop).booked},
		},
		{
			"a loss that is found between two reads", Taken, "is none, and 0.005000 USD of it were taken back",
			[]func(*shop, *sale){(*shop).completeSale, (*shop).takenBack},
			[]func(*shop, *sale){(*shop).failed, (*shop).lost},
		},
		{
			"a loss that is noted between two reads", Taken, "its 0.005000 USD are not taken back",
			[]func(*shop, *sale){(*shop).completeSale, (*shop).failed, (*shop).lost},
			[]func(*shop, *sale){(*shop).takenBack},
		},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				p, stays := s.sell(1, 3000, 5000), s.sell(2, 3000, 5000)
				for _, do := range c.do {
					do(s, p)
				}
				r := s.auditTwice(time.Minute, func() {
					for _, then := range c.then {
						then(s, p)
					}
					s.credited(stays) // wrong only since the first check
				})
				if found := s.offending(r); len(found) > 0 {
					t.Errorf("%v", found)
				}
				if r.Again == nil || r.Again.Unexplained != 0 || r.Again.Found == 0 || !strings.Contains(r.Again.For[0], c.offending) {
					t.Errorf("%+v", r.Again)
				}
				s.must(s.book.Release(t.Context(), stays.ID))
			})
		})
		t.Run(c.sentence+" and stays there", func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				p := s.sell(1, 3000, 5000)
				for _, do := range c.do {
					do(s, p)
				}
				r := s.auditTwice(100*time.Millisecond, func() {})
				if found := s.offending(r)[c.check]; len(found) != 1 || !strings.Contains(found[0], c.offending) {
					t.Errorf("%v", found)
				}
				if r.Again == nil || r.Again.Unexplained == 0 || r.Again.Seconds < 0.1 || r.Again.Seconds > 30 {
					t.Errorf("%+v", r.Again)
				}
			})
		})
	}
}

// TestACreditBeforeItsPaymentIsLookedAtAgain: payments may become visible in another order than that of their ids.
func TestACreditBeforeItsPaymentIsLookedAtAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, s *shop) {
		t.Helper()
		p := &sale{Payment: book.Payment{Network: terms.Network.String(), Asset: terms.Asset.Address.String()}, account: pay.Account(pay.Address{1}), charge: 3000, captured: 5000}
		p.From, p.Nonce = pay.Address{1}, pay.Word{1} // like those of the first sale
		s.credited(p)
		r := s.auditTwice(time.Minute, func() { s.completeSale(s.sell(1, 3000, 5000)) })
		if found := s.offending(r); len(found) > 0 || r.Again == nil || r.Again.Unexplained != 0 || !strings.Contains(r.Again.For[0], "there is no such payment") {
			t.Errorf("%v %+v", found, r.Again)
		}
	})
}

// auditTwice runs an audit, calls between after its first check, and lets it check again for maxWait.
func (s *shop) auditTwice(maxWait time.Duration, between func()) *ledger.Report {
	s.Helper()
	r, err := s.l.Audit(s.Context())
	s.must(err)
	r.Left = maxWait
	s.must(run(s.Context(), s.book, s.l, &r, between))
	return &r
}

// completeSale takes all steps of a sale.
func (s *shop) completeSale(p *sale) {
	s.Helper()
	for _, step := range []func(*sale){s.served, s.credited, s.charged, s.booked} {
		step(p)
	}
}

// history runs random events of a gateway, and tracks the expected balances.
type history struct {
	*shop
	random  *rand.Rand
	sold    []*sale
	holds   []*ledger.Hold
	key     policy.Micro
	wallets map[policy.Account]policy.Micro
	blocked map[policy.Account]bool // wallets with a failed payment
	step    int
}

// TestRandomHistoriesOfMoneyAreSound: deposits, holds and charges of a key, and payments whose steps are interrupted, repeated or fail. After each event, the audit
// has no findings, and every balance is as expected.
func TestRandomHistoriesOfMoneyAreSound(t *testing.T) {
	seeds := 3
	if os.Getenv("BARDO_SOAK") != "" {
		seeds = 40
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *shop) {
				t.Helper()
				h := &history{shop: s, random: rand.New(rand.NewPCG(seed, 7)), wallets: map[policy.Account]policy.Micro{}, blocked: map[policy.Account]bool{}}
				s.must(s.l.CreateKey(t.Context(), ledger.KeyRow{ID: "k", Prepaid: true}, policy.USD))
				h.key = policy.USD
				for h.step = range 240 {
					h.randomEvent()
					if h.step%40 == 39 {
						h.compare()
					}
				}
			})
		})
	}
}

func (h *history) randomEvent() {
	amount := policy.Micro(1 + h.random.IntN(20_000))
	switch n := h.random.IntN(12); {
	case n < 2:
		if hold, err := h.l.Reserve(h.Context(), "k", fmt.Sprint("key-", h.step), amount); err == nil {
			h.holds = append(h.holds, hold)
		}
	case n < 4 && len(h.holds) > 0:
		h.capture()
	case n == 4 && len(h.holds) > 0:
		h.l.Release(h.holds[0])
		h.holds = h.holds[1:]
	case n == 5:
		for range 1 + h.random.IntN(2) { // a deposit may be repeated
			_, err := h.l.Deposit(h.Context(), "k", amount, fmt.Sprint("d", h.step))
			h.must(err)
		}
		h.key += amount
	case n < 8:
		payer := byte(1 + h.random.IntN(10))
		if !h.blocked[pay.Account(pay.Address{payer})] {
			h.sold = append(h.sold, h.sell(payer, amount, amount+fee+policy.Micro(h.random.IntN(5000))))
		}
	case len(h.sold) > 0:
		h.advance(h.sold[h.random.IntN(len(h.sold))])
	}
}

// capture charges up to the amount of the oldest hold, sometimes twice.
func (h *history) capture() {
	hold := h.holds[0]
	h.holds = h.holds[1:]
	amount := policy.Micro(h.random.Int64N(int64(hold.Amount()) + 1))
	for range 1 + h.random.IntN(2) {
		r, err := h.l.Capture(h.Context(), hold, ledger.Charge{Amount: amount})
		h.must(err)
		if r.Charged != amount {
			h.Errorf("%+v, want %s", r, amount)
		}
	}
	h.key -= amount
}

// advance takes the next step of a sale, sometimes twice, as after a crash.
func (h *history) advance(p *sale) {
	switch p.done {
	case 0:
		if h.random.IntN(4) == 0 {
			h.must(h.book.Release(h.Context(), p.ID))
			p.done = 100
			return
		}
		h.served(p)
	case 1:
		h.twice(func() {
			c := h.chargeOf(p)
			_, err := h.l.CreditServed(h.Context(), p.account, p.captured, fee, p.Reference(), &c, nil)
			h.must(err)
		})
		h.wallets[p.account] += p.captured - fee
	case 2:
		h.twice(func() { h.charged(p) })
		h.wallets[p.account] -= p.charge
	case 3:
		h.twice(func() { h.booked(p) })
	case 4:
		if h.random.IntN(3) > 0 { // it arrives
			p.done = 100
			return
		}
		h.failed(p)
		h.blocked[p.account] = true
	case 5:
		h.twice(func() { h.takenBack(p) })
		h.wallets[p.account] -= p.captured
	case 6:
		h.twice(func() { h.lost(p) })
	}
	p.done++
}

func (h *history) twice(step func()) {
	for range 1 + h.random.IntN(2) {
		step()
	}
}

func (h *history) compare() {
	h.Helper()
	h.wantClean()
	b, err := h.l.Balance(h.Context(), "k")
	if err != nil || b.Amount != h.key {
		h.Errorf("step %d: the key has %s, %v, want %s", h.step, b.Amount, err, h.key)
	}
	for account, want := range h.wallets {
		if b, err := h.l.Balance(h.Context(), account); err != nil || b.Amount-b.Owed != want || b.Amount < 0 || b.Owed > 0 && b.Available > 0 {
			h.Errorf("step %d: %s has %+v, %v, want %s", h.step, account, b, err, want)
		}
	}
}
