package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // reads the ledger behind the gateway's back

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// How many requests the pairs answer, and how often every part is killed meanwhile, at least: in every run of the tests, and in a soak
// (make soak).
const (
	pairRequests, pairRounds         = 600, 1
	soakPairRequests, soakPairRounds = 10_000, 10
)

// TestPairsKilledUnderLoad kills sidecars, Envoys and the control plane, one at a time, over and over, while clients go to the other pair
// when one is down. No request is lost but on the pair that was killed; every answer whose end was seen has exactly one charge, no
// request has two, nothing stays held, and the balances are what was deposited and not charged.
func TestPairsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	l := newPairLoad(t)
	l.wanted, l.rounds = pairRequests, pairRounds
	if os.Getenv("BARDO_SOAK") != "" {
		l.wanted, l.rounds = soakPairRequests, soakPairRounds
	}
	const clients = 8
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			for n := c; l.goOn(t) && l.serve(t, c, n); n++ {
			}
		})
	}
	l.killInTurn(t)
	running.Wait()
	l.check(t)
	t.Logf("%d complete answers, %d tries that broke on a killed pair, %d clients that left, %d kills, seed %d",
		len(l.complete), l.broken.Load(), l.left.Load(), l.kills, l.seed)
}

// pairLoad is what is known of the pairs and of what they answered.
type pairLoad struct {
	*gateway.Split
	seed         uint64
	moments      *rand.Rand
	wanted       int
	rounds       int64
	kills        int
	keys         []gateway.NewKey
	broken, left atomic.Int64
	killed       atomic.Int64 // how often every part was killed

	mu       sync.Mutex
	complete map[string]struct{} // ids of the answers whose last byte was seen
	down     map[*gateway.Pair][]span
}

// span is a time in which a pair is not whole; it has no end while it lasts.
type span struct{ from, to time.Time }

const pairBalance = 1_000_000

func newPairLoad(t *testing.T) *pairLoad {
	t.Helper()
	l := &pairLoad{seed: rand.Uint64(), complete: map[string]struct{}{}, down: map[*gateway.Pair][]span{}}
	l.moments = rand.New(rand.NewPCG(l.seed, 0))
	o := gateway.Options{Config: "limits: {rpm: 0}\n"}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d})
		p.Behave(fake.Behaviour{Gap: 10 * time.Millisecond, Usage: &fake.Usage{Input: 10, Output: 20}})
		alone := gateway.Model{ID: "alone-" + string(d), Price: "{input: 1000, output: 2000}"}
		backed := gateway.Model{ID: "backed", Price: "{input: 1000, output: 2000}"}
		o.Providers = append(o.Providers, gateway.Provider{ID: "the-" + string(d), Fake: p, Format: string(d), Models: []gateway.Model{alone, backed}})
	}
	l.Split = gateway.RunPairs(t, o, newAuthority(t), "gw-a", "gw-b")
	for range 2 {
		l.keys = append(l.keys, l.CreateKey(t, "--name", "load", "--balance-usd", fmt.Sprint(pairBalance)))
	}
	return l
}

// goOn reports whether there is more to do.
func (l *pairLoad) goOn(t *testing.T) bool {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	return !t.Failed() && (len(l.complete) < l.wanted || l.killed.Load() < l.rounds)
}

// serve has the n-th request of a client answered: by its pair, or by the other one where that is down. It returns false when nobody
// could.
func (l *pairLoad) serve(t *testing.T, client, n int) bool {
	t.Helper()
	const tries = 6 // one pair comes back while the other goes, at most a few times
	for i := range tries {
		p := l.Pairs[(client+i)%len(l.Pairs)]
		began := time.Now()
		err := l.send(t, p, client, n)
		if err == nil {
			return true
		}
		if !l.excused(p, began, time.Now()) {
			t.Errorf("pair %s runs, and %v", p.Name, err)
			return false
		}
		l.broken.Add(1)
	}
	t.Errorf("a request found no pair in %d tries", tries)
	return false
}

// send makes one try. The error says how it broke off.
func (l *pairLoad) send(t *testing.T, p *gateway.Pair, client, n int) error {
	t.Helper()
	a := ask{dialect: fake.OpenAI, stream: n%2 == 0, more: `"max_completion_tokens":100`}
	if client/2%2 == 0 {
		a.dialect, a.more = fake.Anthropic, ""
	}
	a.model = [...]string{"alone-openai", "alone-anthropic", "backed"}[n%3]
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	res, err := p.Open(ctx, a.with(l.keys[client%len(l.keys)].Key))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if n%17 == 0 && res.StatusCode == http.StatusOK { // a client that leaves
		_, _ = io.ReadFull(res.Body, make([]byte, 200)) // shorter or cut: it leaves all the same
		l.left.Add(1)
		return nil
	}
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || !whole(a, res, body, err) {
		return fmt.Errorf("status %d: %.300s: %w", res.StatusCode, body, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.complete[res.Header.Get("X-Request-Id")] = struct{}{}
	return nil
}

// excused reports whether a pair was not whole at some moment of a try.
func (l *pairLoad) excused(p *gateway.Pair, began, ended time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.down[p] {
		if !s.from.After(ended) && (s.to.IsZero() || !s.to.Before(began)) {
			return true
		}
	}
	return false
}

// killInTurn kills one part after the other until there is enough, each when all are whole again.
func (l *pairLoad) killInTurn(t *testing.T) {
	t.Helper()
	a, b := l.Pairs[0], l.Pairs[1]
	turns := []func(){
		func() { l.killPart(t, a, a.Sidecar) },
		func() { l.killPart(t, b, b.Envoy) },
		func() { l.killPlane(t) },
		func() { l.killPart(t, b, b.Sidecar) },
		func() { l.killPart(t, a, a.Envoy) },
		func() { l.killPlane(t) },
	}
	for i := 0; l.goOn(t); i++ {
		l.pause(300 * time.Millisecond)
		turns[i%len(turns)]()
		l.kills++
		if i%len(turns) == len(turns)-1 {
			l.killed.Add(1)
		}
	}
}

func (l *pairLoad) pause(most time.Duration) {
	moment := time.NewTimer(most/4 + time.Duration(l.moments.Int64N(int64(most))))
	<-moment.C
}

// killPart kills half of a pair, and waits until the pair serves again. Meanwhile requests there may fail.
func (l *pairLoad) killPart(t *testing.T, p *gateway.Pair, part *gateway.Part) {
	t.Helper()
	l.mu.Lock()
	l.down[p] = append(l.down[p], span{from: time.Now()})
	l.mu.Unlock()
	part.Kill()
	l.pause(100 * time.Millisecond)
	if err := part.Start(); err != nil {
		t.Error(err)
		return
	}
	if err := p.Serves(within(t, 60*time.Second)); err != nil {
		t.Errorf("pair %s after its %d. kill: %v", p.Name, l.kills, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &l.down[p][len(l.down[p])-1]
	last.to = time.Now()
	t.Logf("pair %s was not whole for %s", p.Name, last.to.Sub(last.from))
}

// killPlane kills the control plane. No request may notice.
func (l *pairLoad) killPlane(t *testing.T) {
	t.Helper()
	l.ControlPlane.Kill()
	l.pause(100 * time.Millisecond)
	if err := l.ControlPlane.Start(); err != nil {
		t.Error(err)
		return
	}
	if err := l.LocatePlane(t.Context()); err != nil {
		t.Errorf("the control plane after %d kills: %v", l.kills, err)
	}
}

// check proves the books, once nothing is under way.
func (l *pairLoad) check(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+l.Store+"?_busy_timeout=5000&_query_only=on")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	eventually(t, "the end of what was under way", func() bool {
		var held int64
		return db.QueryRowContext(t.Context(), `SELECT sum(held) FROM balance`).Scan(&held) == nil && held == 0
	})
	l.AssertSound(t)
	spent := checkCharges(t, db, l.complete)
	for _, k := range l.keys {
		var b keyBalance
		if err := json.Unmarshal([]byte(l.Bardo(t, "balance", k.ID, "--json", "-c", l.File)), &b); err != nil {
			t.Fatal(err)
		}
		if b.check(t, k.ID, pairBalance*1_000_000-spent[k.ID]); spent[k.ID] == 0 {
			t.Errorf("key %s spent nothing", k.ID)
		}
	}
}
