package ledger

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
)

// journalTrial runs requests on a gateway that loses power, or is killed, at any step of its charge log and its commits, repeatedly
// on the same store.
type journalTrial struct {
	*testing.T
	random    *rand.Rand
	path      string
	options   Options
	l         *Ledger
	disk      *lossyDisk
	deposited policy.Micro
	ids       int

	sure  map[string]policy.Micro // must be charged: the answer's end was sent, and the charge was on disk or only the process ended
	maybe map[string]policy.Micro // may be charged: the charge was in the unsynced window, or the answer's end was not sent
	this  map[string]journaled    // of the current gateway
}

// journaled is a request whose charge the current gateway has acknowledged.
type journaled struct {
	amount policy.Micro
	key    policy.Account
	log    *chargelog.Log
	end    chargelog.Position
}

func newJournalTrial(t *testing.T, seed uint64, o Options) *journalTrial {
	t.Helper()
	p := &journalTrial{
		T: t, random: rand.New(rand.NewPCG(seed, 3)), path: storePath(t), deposited: 1000 * usd,
		sure: map[string]policy.Micro{}, maybe: map[string]policy.Micro{},
	}
	o.Gateway, o.IdleReturn, o.Flush, o.Poll, o.Retention = true, time.Hour, time.Hour, time.Hour, -1
	o.Sync = time.Hour
	o.charges.Segment = 2 << 10 // the files are reused after a few charges
	p.options = o
	withKey(t, tool(t, p.path), "k", p.deposited)
	return p
}

// start starts a gateway on the store. Nothing is synced or applied unless the trial does it.
func (p *journalTrial) start() {
	p.disk = &lossyDisk{}
	p.options.charges.Wrap = p.disk.wrap
	p.l = openWith(p, p.path, p.options)
	if err := p.l.between(func(b *book) error { b.Hook = p.disk.commit; return nil }); err != nil {
		p.Fatal(err)
	}
	p.this = map[string]journaled{}
}

// request is one request of a prepaid or a metered key.
func (p *journalTrial) request() {
	p.ids++
	id, amount := fmt.Sprint("r", p.ids), policy.Micro(1+p.random.Int64N(int64(usd)/10))
	key := policy.Account("k")
	var err error
	if p.random.IntN(4) == 0 {
		key = "m"
		err = p.l.Record(Charge{RequestID: id, Account: key, Amount: amount, Record: make([]byte, p.random.IntN(700))})
	} else {
		var h *Hold
		if h, err = p.l.Reserve(p.Context(), key, id, amount+policy.Micro(p.random.Int64N(100))); commit.IsUnwritable(err) {
			return
		}
		if err == nil {
			_, err = p.l.Capture(p.Context(), h, Charge{Amount: amount, Record: make([]byte, p.random.IntN(700))})
		}
	}
	if err != nil {
		p.Fatalf("request %s: %v", id, err)
	}
	log := p.l.writer.Log()
	j := journaled{amount: amount, key: key, log: log, end: log.End()}
	if p.l.Writable() != nil { // the charge is only in memory: the answer is completed, and the outage is reported
		j.end = 1 << 62
	}
	p.this[id] = j
}

// randomStep does one random operation.
func (p *journalTrial) randomStep() {
	switch n := p.random.IntN(10); {
	case n < 7:
		p.request()
	case n == 7:
		_ = p.l.writer.Log().Sync()
	case n == 8:
		_ = p.l.do(func(*book) error { return nil }, nil) // applies
	}
}

// end ends the gateway by a kill, after which the system has all writes, or by a power failure. Then it checks the store with the next
// program.
func (p *journalTrial) end(power bool) {
	p.disk.powerOff()
	for id, j := range p.this {
		if !power && j.end < 1<<62 || j.end <= j.log.Synced() {
			p.sure[id] = j.amount
		} else {
			p.maybe[id] = j.amount
		}
	}
	kill(p, p.l)
	if power {
		p.disk.loseUnsynced(p, p.random)
	}
	p.check()
}

// check compares the books with the acknowledged charges.
func (p *journalTrial) check() {
	p.Helper()
	cli := tool(p, p.path)
	defer func() {
		if err := cli.Close(); err != nil {
			p.Error(err)
		}
	}()
	wantClean(p, cli)
	rows, err := cli.Requests(p.Context(), RequestFilter{Limit: math.MaxInt})
	if err != nil {
		p.Fatal(err)
	}
	left, charged := p.deposited, map[string]bool{}
	for _, r := range rows {
		if charged[r.RequestID] {
			p.Errorf("request %s is charged twice", r.RequestID)
		}
		charged[r.RequestID] = true
		amount, known := p.sure[r.RequestID]
		if !known {
			amount, known = p.maybe[r.RequestID]
		}
		if !known || r.Charged != amount {
			p.Errorf("request %s: %s, want %s", r.RequestID, r.Charged, amount)
		}
		if r.Account == "k" {
			left -= amount
		}
	}
	for id := range p.sure {
		if !charged[id] {
			p.Errorf("request %s is not charged", id)
		}
	}
	wantBalance(p, cli, "k", Balance{Prepaid: true, Amount: left, Available: left})
	if p.Failed() {
		p.FailNow()
	}
}

// TestD83RandomCrashesLoseNoMoreThanTheWindow: gateways are killed, and lose power, at random steps. A kill loses no acknowledged charge;
// a power failure loses only unsynced ones; nothing is charged twice, and nothing stays held.
func TestD83RandomCrashesLoseNoMoreThanTheWindow(t *testing.T) {
	rounds := iterations(t, 12, 200)
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			p := newJournalTrial(t, seed, Options{Durable: seed == 3})
			for range rounds {
				p.start()
				p.disk.diesAt(p.disk.taken() + 1 + p.random.IntN(60))
				for range 30 {
					p.randomStep()
				}
				p.end(p.random.IntN(2) == 0)
			}
			t.Logf("%d charges were sure, %d in the window", len(p.sure), len(p.maybe))
		})
	}
}

// TestD83ACrashAtEveryStep runs the same few requests, with a power failure or a kill at each write, sync and commit.
func TestD83ACrashAtEveryStep(t *testing.T) {
	for _, power := range []bool{false, true} {
		t.Run(fmt.Sprintf("power=%v", power), func(t *testing.T) {
			t.Parallel()
			p := newJournalTrial(t, 9, Options{})
			for step := 1; ; step += stride(t, 1) {
				p.random = rand.New(rand.NewPCG(5, 5))
				p.start()
				begun := p.disk.taken()
				p.disk.diesAt(begun + step)
				for range 24 {
					p.randomStep()
				}
				over := p.disk.taken() < begun+step
				p.end(power)
				if over {
					t.Logf("%d steps", step)
					return
				}
			}
		})
	}
}

// TestD83AFullDiskAtEveryStep: some steps fail, from each one on, and the gateway continues afterwards. No charge is lost.
func TestD83AFullDiskAtEveryStep(t *testing.T) {
	for _, failures := range []int{1, 8} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			p := newJournalTrial(t, 10, Options{})
			for step := 1; ; step += stride(t, 3) {
				p.random = rand.New(rand.NewPCG(6, 6))
				p.start()
				begun := p.disk.taken()
				p.disk.isFullAt(begun+step, begun+step+failures-1)
				for range 24 {
					p.randomStep()
				}
				over := p.disk.taken() < begun+step
				wantSafe(p, p.l)
				for id, j := range p.this {
					j.end = 0
					p.this[id] = j
				}
				p.end(false)
				if over {
					return
				}
			}
		})
	}
}

// wantSafe waits until all charges of a gateway are in its log or in the store.
func wantSafe(t testing.TB, l *Ledger) {
	t.Helper()
	eventually(t, "charges are safe", func() bool { return l.Writable() == nil && l.Unwritten().InMemory.Charges == 0 })
}
