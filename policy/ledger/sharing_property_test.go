package ledger

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"bardo.money/gateway/policy"
)

// pairTrial runs random operations on two gateways that share a store and are killed and replaced now and then, and on a model
// without gateways and blocks.
type pairTrial struct {
	*testing.T
	random   *rand.Rand
	path     string
	gateways [2]*Ledger
	cli      *Ledger
	keys     []*pairModel
	step     int
	requests map[string]policy.Micro // acknowledged charges
}

// pairModel is a prepaid key; each open hold belongs to a gateway.
type pairModel struct {
	id              policy.Account
	balance, credit policy.Micro
	blocked         bool
	open            [2]map[*Hold]policy.Micro
}

func (m *pairModel) held() (sum policy.Micro) {
	for _, holds := range m.open {
		for _, amount := range holds {
			sum += amount
		}
	}
	return sum
}

func (m *pairModel) available() policy.Micro { return m.balance + m.credit - m.held() }

func TestRandomOperationsAndDeathsOfTwoGatewaysKeepTheBooks(t *testing.T) {
	for seed := range uint64(iterations(t, 4, 24)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := &pairTrial{T: t, random: rand.New(rand.NewPCG(seed, 1)), path: storePath(t), requests: map[string]policy.Micro{}}
			p.cli = tool(t, p.path)
			for i, credit := range []policy.Micro{0, usd / 2} {
				m := &pairModel{id: policy.Account(fmt.Sprint("k", i)), balance: usd, credit: credit}
				if err := p.cli.CreateKey(t.Context(), KeyRow{ID: m.id, Prepaid: true, Credit: credit}, usd); err != nil {
					t.Fatal(err)
				}
				p.keys = append(p.keys, m)
			}
			for i := range p.gateways {
				p.start(i)
			}
			for p.step = range 300 {
				p.randomStep()
				p.compare()
			}
			p.end()
		})
	}
}

func (p *pairTrial) start(i int) {
	p.gateways[i] = sharing(p, p.path)
	for _, m := range p.keys {
		m.open[i] = map[*Hold]policy.Micro{}
	}
}

// randomStep does one random operation.
func (p *pairTrial) randomStep() {
	i, m := p.random.IntN(2), p.keys[p.random.IntN(len(p.keys))]
	l, amount := p.gateways[i], policy.Micro(p.random.Int64N(int64(usd)))
	switch n := p.random.IntN(40); {
	case n < 16:
		p.reserve(l, m, m.open[i], amount)
	case n < 26:
		p.capture(l, m, m.open[i], amount)
	case n < 29:
		for h := range m.open[i] {
			l.Release(h)
			delete(m.open[i], h)
			break
		}
	case n < 34:
		p.deposit(m, amount+1)
	case n < 38:
		l.returnIdle()
	case n < 39:
		kill(p, l)
		p.start(i)
	default:
		if err := l.Close(); err != nil {
			p.Fatal(err)
		}
		p.start(i)
	}
}

func (p *pairTrial) reserve(l *Ledger, m *pairModel, open map[*Hold]policy.Micro, amount policy.Micro) {
	before := m.available()
	h, err := l.Reserve(p.Context(), m.id, fmt.Sprint(m.id, "-", p.step), amount)
	if !m.blocked && before >= amount {
		if err != nil {
			p.Fatalf("step %d: %v, but %s are available to %s", p.step, err, before, m.id)
		}
		open[h] = amount
		return
	}
	var short *InsufficientError
	if !errors.As(err, &short) || short.Blocked != m.blocked || short.Available > before {
		p.Fatalf("step %d: %s was granted to %s with %s, or refused by %v", p.step, amount, m.id, before, err)
	}
}

func (p *pairTrial) capture(l *Ledger, m *pairModel, open map[*Hold]policy.Micro, amount policy.Micro) {
	for h := range open {
		delete(open, h)
		limit := m.available()
		want := Receipt{Charged: min(amount, limit)}
		want.Loss = amount - want.Charged
		r := capture(p, l, h, amount)
		r.Balance = 0 // it includes the other gateway's charges only within Options.Poll
		if r != want {
			p.Fatalf("step %d: %+v, want %+v", p.step, r, want)
		}
		p.requests[h.request] = want.Charged
		m.balance -= want.Charged
		if want.Loss > 0 {
			m.blocked = true
			p.awaitBlocked(m)
		}
		return
	}
}

// awaitBlocked waits until both gateways know that a key is blocked. A gateway that did not block it itself detects it at its next poll of the
// store, and serves the key from its block until then.
func (p *pairTrial) awaitBlocked(m *pairModel) {
	for _, l := range p.gateways {
		eventually(p, "each gateway knows that "+string(m.id)+" is blocked", func() bool {
			a := l.inMemory(m.id)
			if a == nil {
				return true
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			return !a.ready
		})
	}
}

func (p *pairTrial) deposit(m *pairModel, amount policy.Micro) {
	l := []*Ledger{p.gateways[0], p.gateways[1], p.cli}[p.random.IntN(3)]
	m.balance += amount
	m.blocked = false
	balance, err := l.Deposit(p.Context(), m.id, amount, fmt.Sprint(p.step))
	if err != nil || balance != m.balance {
		p.Errorf("step %d: deposit: %s, %v, want %s", p.step, balance, err, m.balance)
	}
}

func (p *pairTrial) compare() {
	for _, m := range p.keys {
		b, err := p.cli.Balance(p.Context(), m.id)
		if err != nil || b.Amount != m.balance || b.Blocked != m.blocked || b.Held < m.held() {
			p.Fatalf("step %d: %s has %+v, %v, want %+v", p.step, m.id, b, err, m)
		}
	}
}

// end kills both gateways. The next process that opens the store finds nothing held.
func (p *pairTrial) end() {
	wantClean(p, p.cli)
	for _, l := range p.gateways {
		kill(p, l)
	}
	wantClean(p, p.cli)
	for _, m := range p.keys {
		wantBalance(p, p.cli, m.id, Balance{
			Prepaid: true, Amount: m.balance, Credit: m.credit, Blocked: m.blocked, Available: m.balance + m.credit,
		})
	}
	for id, charged := range p.requests {
		r, err := p.cli.Request(p.Context(), policy.Account(id[:2]), id)
		if err != nil || r.Charged != charged {
			p.Errorf("request %s: %+v, %v, was acknowledged with %s", id, r, err, charged)
		}
	}
}
