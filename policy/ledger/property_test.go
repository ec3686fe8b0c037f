package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// model is a prepaid key without blocks and processes.
type model struct {
	id              policy.Account
	balance, credit policy.Micro
	blocked         bool
	open            []openHold // in no order
}

type openHold struct {
	*Hold
	amount policy.Micro
}

func (m *model) held() (sum policy.Micro) {
	for _, h := range m.open {
		sum += h.amount
	}
	return sum
}

func (m *model) available() policy.Micro { return m.balance + m.credit - m.held() }

// take removes one of the open holds.
func (m *model) take(i int) openHold {
	h, last := m.open[i], len(m.open)-1
	m.open[i] = m.open[last]
	m.open = m.open[:last]
	return h
}

// trial runs random operations on a ledger and its models.
type trial struct {
	*testing.T
	random *rand.Rand
	l, cli *Ledger
	step   int
}

func TestRandomOperationsKeepTheBooks(t *testing.T) {
	for seed := range uint64(iterations(t, 4, 32)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			path := storePath(t)
			p := &trial{
				T: t, random: rand.New(rand.NewPCG(seed, 0)),
				l: gateway(t, path), cli: tool(t, path),
			}
			var keys []*model
			for i, credit := range []policy.Micro{0, usd / 2} {
				id := policy.Account(fmt.Sprint("k", i))
				if err := p.l.CreateKey(t.Context(), KeyRow{ID: id, Prepaid: true, Credit: credit}, usd); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, &model{id: id, balance: usd, credit: credit})
			}
			for p.step = range 400 {
				for _, m := range keys {
					p.randomStep(m)
					p.compare(m)
				}
			}
			wantClean(t, p.l)
			wantClean(t, p.cli)
		})
	}
}

// randomStep does one random operation.
func (p *trial) randomStep(m *model) {
	amount := policy.Micro(p.random.Int64N(int64(usd)))
	switch n := p.random.IntN(10); {
	case n < 4:
		p.reserve(m, amount)
	case n < 7 && len(m.open) > 0:
		p.capture(m, m.take(p.random.IntN(len(m.open))), amount)
	case n == 7 && len(m.open) > 0:
		p.l.Release(m.take(p.random.IntN(len(m.open))).Hold)
	case n == 8:
		p.deposit(m, amount+1)
	case n == 9:
		p.returnIdle(m)
	}
}

func (p *trial) reserve(m *model, amount policy.Micro) {
	before := m.available()
	h, err := p.l.Reserve(p.Context(), m.id, fmt.Sprint(m.id, "-", p.step), amount)
	if !m.blocked && before >= amount {
		if err != nil {
			p.Fatalf("step %d: %v, but %s are available to %+v", p.step, err, before, m)
		}
		m.open = append(m.open, openHold{h, amount})
		return
	}
	var short *InsufficientError
	if !errors.As(err, &short) {
		p.Fatalf("step %d: %s was granted to %+v, or refused by %v", p.step, amount, m, err)
	}
	if want := (InsufficientError{Account: m.id, Needed: amount, Available: before, Blocked: m.blocked}); *short != want {
		p.Errorf("step %d: %+v, want %+v", p.step, *short, want)
	}
}

func (p *trial) capture(m *model, h openHold, amount policy.Micro) {
	limit := m.available() // its own hold is not among the open ones any more
	want := Receipt{Charged: min(amount, limit)}
	want.Balance, want.Loss = m.balance-want.Charged, amount-want.Charged
	if r := capture(p, p.l, h.Hold, amount); r != want {
		p.Errorf("step %d: %+v, want %+v", p.step, r, want)
	}
	m.balance -= want.Charged
	m.blocked = m.blocked || want.Loss > 0
}

func (p *trial) deposit(m *model, amount policy.Micro) {
	l := []*Ledger{p.l, p.cli}[p.random.IntN(2)]
	m.balance += amount
	m.blocked = false
	balance, err := l.Deposit(p.Context(), m.id, amount, fmt.Sprint(p.step))
	if err != nil || balance != m.balance {
		p.Errorf("step %d: deposit: %s, %v, want %s", p.step, balance, err, m.balance)
	}
	poll(p, p.l)
}

// poll makes a gateway look for changes by other processes immediately.
func poll(t testing.TB, l *Ledger) {
	t.Helper()
	if err := l.between(func(*book) error { l.writer.PollChanges(); return nil }); err != nil {
		t.Fatal(err)
	}
}

// returnIdle returns the free part of a key's block, as the janitor does when the key was idle.
func (p *trial) returnIdle(m *model) {
	a := p.l.account(m.id)
	amount := a.takeIdle(time.Now().Add(time.Hour))
	if amount == 0 {
		return
	}
	s := idleBlock{a, amount}
	s.end(p.l.do(func(b *book) error { return b.returnIdleBlocks([]idleBlock{s}) }, nil))
}

func (p *trial) compare(m *model) {
	wantBalance(p, p.l, m.id, Balance{
		Prepaid: true, Amount: m.balance, Held: m.held(), Credit: m.credit, Blocked: m.blocked, Available: m.available(),
	})
	wantBlockMatchesMemory(p, p.l, m.id)
	if p.Failed() {
		p.Fatalf("step %d", p.step)
	}
}
