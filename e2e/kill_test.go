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
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mattn/go-sqlite3" // reads the ledger behind the gateway's back

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// How often the gateway is killed: in every run of the tests, and in a soak (make soak).
const (
	kills     = 20
	soakKills = 200
)

// TestKilledUnderLoad kills the gateway at a random moment, over and over on the same state. Every answer whose end was seen
// has exactly one charge, no request has two, nothing stays held, and the balances are what was deposited and not charged.
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := kills
	if os.Getenv("BARDO_SOAK") != "" {
		rounds = soakKills
	}
	killAgainAndAgain(t, newSoak(t), rounds)
}

func killAgainAndAgain(t *testing.T, s *soak, rounds int) {
	t.Helper()
	done := 0
	for i := 0; i < rounds || i < 4*rounds && !s.loaded(rounds); i++ { // a busy machine needs more of them
		done = i + 1
		g := s.start(t)
		if i == 0 {
			s.createKeys(t, g)
		}
		s.check(t, g, true)
		s.loadAndKill(t, g)
		if i%2 == 0 { // else the next gateway finds everything as the killed one has left it
			s.check(t, g, false)
		}
		if t.Failed() {
			t.Fatalf("after %d kills, seed %d", i+1, s.seed)
		}
	}
	g := s.start(t)
	s.check(t, g, true)
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	s.check(t, g, false)
	t.Logf("%d kills: %d complete answers, %d cut, %d refused for lack of money, seed %d", done, len(s.complete), s.cut, s.refused, s.seed)
	if !s.loaded(rounds) {
		t.Error("there was too little load to prove anything")
	}
}

// loaded reports whether the kills hit enough of everything to prove something.
func (s *soak) loaded(rounds int) bool {
	return len(s.complete) >= 5*rounds && s.cut >= rounds && s.refused > 0
}

// soak is what is known of the state that the gateways share.
type soak struct {
	options  gateway.Options
	database string // the URL of a ledger in PostgreSQL
	seed     uint64
	moments  *rand.Rand
	keys     []gateway.NewKey

	mu        sync.Mutex
	deposited map[string]int64    // by key id, in millionths
	complete  map[string]struct{} // ids of the answers whose last byte was seen
	answered  chan struct{}       // closed by the first whole answer since the last start
	cut       int                 // answers that broke off
	refused   int                 // for lack of money
	starved   bool                // the poor key was refused since its last deposit
	deposits  int
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	home := proctest.Dir(t)
	s := &soak{seed: rand.Uint64(), deposited: map[string]int64{}, complete: map[string]struct{}{}}
	s.moments = rand.New(rand.NewPCG(s.seed, 0))
	s.options = gateway.Options{Config: "limits: {rpm: 0}\n", Home: home, NoKey: true}
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d})
		p.Behave(fake.Behaviour{Gap: 3 * time.Millisecond, Usage: &fake.Usage{Input: 10, Output: 20}})
		alone := gateway.Model{ID: "alone-" + string(d), Price: "{input: 1000, output: 2000}"}
		backed := gateway.Model{ID: "backed", Price: "{input: 1000, output: 2000}"}
		s.options.Providers = append(s.options.Providers, gateway.Provider{ID: "the-" + string(d), Fake: p, Format: string(d), Models: []gateway.Model{alone, backed}})
	}
	return s
}

// start runs a gateway on the state. It is killed if the test ends before it does.
func (s *soak) start(t *testing.T) *gateway.Gateway {
	t.Helper()
	g, err := gateway.Start(t.Context(), s.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-g.Exited():
		default:
			g.Kill()
			t.Logf("the gateway wrote:\n%s", g.Log())
		}
	})
	return g
}

// createKeys makes two rich keys, and one that lives from hand to mouth.
func (s *soak) createKeys(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	for _, usd := range []int64{1_000_000, 1_000_000, 1} {
		k := g.CreateKey(t, "--name", "soak", "--balance-usd", fmt.Sprint(usd))
		s.keys = append(s.keys, k)
		s.deposited[k.ID] = usd * 1_000_000
	}
}

// loadAndKill sends requests from several clients, and a deposit from a second process, until it kills the gateway: at a random
// moment after a first whole answer, however long a busy machine takes for that one.
func (s *soak) loadAndKill(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	const clients = 8
	answered := make(chan struct{})
	s.note(func() { s.answered = answered })
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			n := c
			for s.send(t, g, c, n) {
				n++
			}
		})
	}
	wg.Go(func() { s.deposit(t, g) })
	select {
	case <-answered:
		<-time.After(time.Duration(s.moments.Int64N(int64(500 * time.Millisecond))))
	case <-within(t, time.Minute).Done():
		t.Error("no answer came in a minute")
	}
	g.Kill()
	wg.Wait()
}

// deposit pays something into the poor key, with the command, while the gateway runs or after it was killed: more once it was
// refused, so that it stays poor however little it can ask.
func (s *soak) deposit(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	poor := s.keys[len(s.keys)-1].ID
	s.deposits++
	amount := int64(10_000)
	s.note(func() {
		if s.starved {
			amount, s.starved = 500_000, false
		}
	})
	usd := fmt.Sprintf("0.%06d", amount)
	if r := g.Try(t, "deposit", poor, "--usd", usd, "--ref", fmt.Sprintf("round-%d", s.deposits)); r.Code != 0 {
		t.Errorf("deposit: exit %d\n%s", r.Code, r.Stderr)
		return
	}
	s.note(func() { s.deposited[poor] += amount })
}

// send makes the n-th request of a client and notes what came of it. It returns false once the gateway is gone.
func (s *soak) send(t *testing.T, g *gateway.Gateway, client, n int) bool {
	t.Helper()
	a := ask{dialect: fake.OpenAI, stream: n%2 == 0, more: `"max_completion_tokens":100`}
	if client%2 == 0 {
		a.dialect, a.more = fake.Anthropic, ""
	}
	a.model = [...]string{"alone-openai", "alone-anthropic", "backed"}[n%3]
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	res, err := g.Open(ctx, a.with(s.keys[client%len(s.keys)].Key))
	if err != nil {
		return s.gone(t, g, err)
	}
	defer func() { _ = res.Body.Close() }()
	if n%7 == 0 { // a client that leaves
		_, _ = io.ReadFull(res.Body, make([]byte, 200)) // shorter or cut: it leaves all the same
		return true
	}
	body, err := io.ReadAll(res.Body)
	switch {
	case res.StatusCode == http.StatusOK && whole(a, res, body, err):
		s.note(func() {
			s.complete[res.Header.Get("X-Request-Id")] = struct{}{}
			if s.answered != nil {
				close(s.answered)
				s.answered = nil
			}
		})
	case res.StatusCode == http.StatusOK:
		s.note(func() { s.cut++ })
		return s.gone(t, g, fmt.Errorf("an answer broke off: %w after %q", err, body))
	case res.StatusCode == http.StatusPaymentRequired:
		s.note(func() { s.refused, s.starved = s.refused+1, true })
	default:
		return s.gone(t, g, fmt.Errorf("status %d: %s", res.StatusCode, body))
	}
	return true
}

func (s *soak) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// whole reports whether a client would take the answer for complete.
func whole(a ask, res *http.Response, body []byte, err error) bool {
	switch {
	case !a.stream:
		return err == nil && int64(len(body)) == res.ContentLength && json.Valid(body)
	case a.dialect == fake.OpenAI:
		return strings.Contains(string(body), "data: [DONE]")
	default:
		return strings.Contains(string(body), `{"type":"message_stop"`)
	}
}

// gone returns false: what went wrong did so because the gateway was killed. If it was not, that is an error.
func (s *soak) gone(t *testing.T, g *gateway.Gateway, err error) bool {
	t.Helper()
	select {
	case <-g.Exited():
	case <-soon(t).Done():
		t.Errorf("the gateway runs, and %v", err)
	}
	return false
}

// check proves the books, with the gateway running and idle, or gone.
func (s *soak) check(t *testing.T, g *gateway.Gateway, running bool) {
	t.Helper()
	g.AssertSound(t)
	db := s.store(t)
	defer func() { _ = db.Close() }()
	var held int64
	if err := db.QueryRowContext(t.Context(), `SELECT sum(held) FROM balance`).Scan(&held); err != nil || held != 0 {
		t.Errorf("%d millionths are held in the store: %v", held, err)
	}
	spent := checkCharges(t, db, s.complete)
	for _, k := range s.keys {
		var b keyBalance
		if running {
			get(t, g, k.Key, "/v1/balance", &b)
		} else if err := json.Unmarshal([]byte(g.Bardo(t, "balance", k.ID, "--json")), &b); err != nil {
			t.Fatal(err)
		}
		b.check(t, k.ID, s.deposited[k.ID]-spent[k.ID])
	}
}

// keyBalance is a key's balance, as the API and the command line print it.
type keyBalance struct {
	Balance json.Number `json:"balance_usd"`
	Held    json.Number `json:"held_usd"`
}

// check wants a balance, in millionths, of which nothing is held.
func (b *keyBalance) check(t *testing.T, key string, want int64) {
	t.Helper()
	if micro(t, b.Balance) != want || b.Held != "0.000000" {
		t.Errorf("key %s has %+v, want a balance of %d millionths and nothing held", key, b, want)
	}
}

// checkCharges checks that each request that was answered completely has one charge, and none has more. It returns what each key spent.
func checkCharges(t *testing.T, db *sql.DB, complete map[string]struct{}) (spent map[string]int64) {
	t.Helper()
	charges, spent := readCharges(t, db)
	for id := range complete {
		if charges[id] != 1 {
			t.Errorf("request %s was answered completely and has %d charges", id, charges[id])
		}
	}
	for id, n := range charges {
		if n > 1 {
			t.Errorf("request %s has %d charges", id, n)
		}
	}
	return spent
}

// store opens the ledger's file. It comes after the audit, which lets the gateway's own code be the
// first to see what a killed one has left.
func (s *soak) store(t *testing.T) *sql.DB {
	t.Helper()
	if s.database != "" {
		return openPostgres(t, s.database)
	}
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(s.options.Home, "bardo.db")+"?_busy_timeout=5000&_query_only=on")
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// readCharges counts the charges of each request, and sums up those of each key.
func readCharges(t *testing.T, db *sql.DB) (byRequest map[string]int, byKey map[string]int64) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT j.ref, a.name, -e.amount FROM journal j
JOIN entry e ON e.journal = j.id JOIN account a ON a.id = e.account JOIN "key" k ON k.id = a.name WHERE j.kind = 'charge'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	byRequest, byKey = map[string]int{}, map[string]int64{}
	for rows.Next() {
		var id, key string
		var amount int64
		if err := rows.Scan(&id, &key, &amount); err != nil {
			t.Fatal(err)
		}
		byRequest[id]++
		byKey[key] += amount
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return byRequest, byKey
}
