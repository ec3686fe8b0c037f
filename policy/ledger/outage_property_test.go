package ledger

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
)

// outageTrial runs requests on two gateways that share a store. Their commits fail now and then, and they are killed and restarted,
// also while commits fail. A request is delivered if Capture or Record accepted it.
type outageTrial struct {
	*testing.T
	random    *rand.Rand
	path      string
	gateways  [2]*Ledger
	faults    [2]*faulty
	open      [2][]*Hold
	deposited policy.Micro
	delivered map[string]policy.Micro // by request, prepaid
	recorded  map[string]policy.Micro // by request, metered
	step      int
}

// TestD82FailedCommitsAndRestartsLoseNoMoney: with any failures of commits and kills of gateways, each delivered answer has exactly
// one charge at the end, and all balances are right.
func TestD82FailedCommitsAndRestartsLoseNoMoney(t *testing.T) {
	for seed := range uint64(iterations(t, 4, 24)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := &outageTrial{
				T: t, random: rand.New(rand.NewPCG(seed, 2)), path: storePath(t),
				delivered: map[string]policy.Micro{}, recorded: map[string]policy.Micro{},
			}
			p.deposited = 1000 * usd
			withKey(t, tool(t, p.path), "k", p.deposited)
			for i := range p.gateways {
				p.start(i)
			}
			for p.step = range 250 {
				p.randomStep(p.random.IntN(len(p.gateways)))
			}
			p.end()
		})
	}
}

func (p *outageTrial) start(i int) {
	l := openWith(p, p.path, Options{Gateway: true, IdleReturn: time.Hour, Poll: 2 * time.Millisecond, Flush: 5 * time.Millisecond})
	f := &faulty{}
	if err := l.between(func(b *book) error { b.Hook = f.hook; return nil }); err != nil {
		p.Fatal(err)
	}
	p.gateways[i], p.faults[i], p.open[i] = l, f, nil
}

// randomStep does one random operation with a gateway.
func (p *outageTrial) randomStep(i int) {
	l, amount := p.gateways[i], policy.Micro(p.random.Int64N(int64(usd)))
	id := fmt.Sprint(p.step)
	switch n := p.random.IntN(40); {
	case n < 14:
		h, err := l.Reserve(p.Context(), "k", id, amount)
		if err == nil {
			p.open[i] = append(p.open[i], h)
		} else if !commit.IsUnwritable(err) {
			p.Fatalf("step %d: %v", p.step, err)
		}
	case n < 26 && len(p.open[i]) > 0:
		p.capture(i, amount)
	case n < 30:
		if err := l.Record(Charge{RequestID: id, Account: "m", Amount: amount}); err != nil {
			p.Fatalf("step %d: %v", p.step, err)
		}
		p.recorded[id] = amount
	case n < 34:
		causes := []error{errFull, sqlite3.Error{Code: sqlite3.ErrIoErr}, sqlite3.Error{Code: sqlite3.ErrReadonly}, errMine}
		p.faults[i].set(causes[p.random.IntN(len(causes))])
	case n < 38:
		p.faults[i].set(nil)
	case n == 38:
		crash(p, l, p.faults[i])
		p.start(i)
	default:
		p.faults[i].set(nil)
		if err := l.Close(); err != nil {
			p.Fatalf("step %d: %v", p.step, err)
		}
		p.start(i)
	}
}

// capture charges the oldest of a gateway's open holds, more than it holds now and then, or again.
func (p *outageTrial) capture(i int, amount policy.Micro) {
	h := p.open[i][0]
	p.open[i] = p.open[i][1:]
	for range 1 + p.random.IntN(5)/4 {
		r, err := p.gateways[i].Capture(p.Context(), h, Charge{Amount: amount})
		if err != nil || r.Charged != amount {
			p.Fatalf("step %d: %+v, %v, want %s charged", p.step, r, err, amount)
		}
	}
	p.gateways[i].Release(h)
	p.delivered[h.request] = amount
}

// end ends the failures, closes one gateway, kills the other, and compares the books with the delivered requests.
func (p *outageTrial) end() {
	for _, f := range p.faults {
		f.set(nil)
	}
	for _, l := range p.gateways {
		wantWritten(p, l)
	}
	if err := p.gateways[0].Close(); err != nil {
		p.Error(err)
	}
	crash(p, p.gateways[1], p.faults[1])
	cli := tool(p, p.path)
	wantClean(p, cli)
	left := p.deposited
	for id, amount := range p.delivered {
		wantChargedOnce(p, cli, acknowledged{"k", id, amount})
		left -= amount
	}
	wantBalance(p, cli, "k", Balance{Prepaid: true, Amount: left, Available: left})
	for id, amount := range p.recorded {
		if r, err := cli.Request(p.Context(), "m", id); err != nil || r.Charged != amount {
			p.Errorf("request %s: %+v, %v, want %s", id, r, err, amount)
		}
	}
	rows, err := cli.Usage(p.Context(), Filter{}, ByDay)
	var requests int64
	for _, u := range rows {
		requests += u.Requests
	}
	if want := int64(len(p.delivered) + len(p.recorded)); err != nil || requests != want {
		p.Errorf("%d requests in the sums, %v, want %d", requests, err, want)
	}
	p.Logf("%d delivered, %d recorded", len(p.delivered), len(p.recorded))
}
