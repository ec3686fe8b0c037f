package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// storeFault makes a running gateway's ledger impossible to write, until it is ended.
type storeFault struct {
	name   string
	begin  func(t *testing.T, g *gateway.Gateway) (end func())
	reason string // a part of what /readyz says
}

// holdWriteLock is another process that holds the store's write lock, as a backup script or a shell of SQLite does.
func holdWriteLock(t *testing.T, g *gateway.Gateway) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(g.Home, "bardo.db")+"?_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		if _, err := conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
		_ = db.Close()
	}
	t.Cleanup(end)
	return end
}

// unwritable is a gateway whose store is about to fail, with answers under way.
type unwritable struct {
	g                *gateway.Gateway
	p                *fake.Server
	prepaid, metered gateway.NewKey
	answers          []*underWay
}

// underWay is a stream that has begun.
type underWay struct {
	key  string
	id   string
	body io.ReadCloser
	r    *gateway.Reader
}

// Each answer costs 10 x 1 + 20 x 2 = 50 millionths, and 20 percent on top.
const (
	unwrittenCost   = 60
	unwrittenAnswer = `"max_tokens":100`
)

func newUnwritable(t *testing.T) *unwritable {
	t.Helper()
	u := &unwritable{p: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}
	u.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	u.g = gateway.Run(t, gateway.Options{
		Config:    quick + "telemetry: {events: stdout}\n",
		Providers: []gateway.Provider{{ID: "own", Fake: u.p, Models: models("m", "")}},
	})
	u.prepaid = u.g.CreateKey(t, "--name", "prepaid", "--balance-usd", "10")
	u.metered = u.g.CreateKey(t, "--name", "metered")
	for _, k := range []string{u.prepaid.Key, u.metered.Key} { // so that the prepaid key has a block
		if got := u.g.Do(t, u.ask(true).with(k)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	eventually(t, "both are written", func() bool { return ledgerRows(t, u.g, `SELECT count(*) FROM request`) == 2 })
	return u
}

func (u *unwritable) ask(stream bool) ask {
	return ask{dialect: fake.OpenAI, model: "m", stream: stream, more: unwrittenAnswer}
}

// begin begins streams of both keys, and returns once each has content.
func (u *unwritable) begin(t *testing.T, n int) {
	t.Helper()
	u.p.Behave(fake.Behaviour{Tokens: 20, Gap: 50 * time.Millisecond, Usage: &fake.Usage{Input: 10, Output: 20}})
	for i := range n {
		k := u.prepaid.Key
		if i%3 == 2 {
			k = u.metered.Key
		}
		res, err := u.g.Open(within(t, 60*time.Second), u.ask(true).with(k)) //nolint:bodyclose // finish closes it
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusOK {
			t.Fatal(res.Status)
		}
		s := &underWay{key: k, id: res.Header.Get("X-Request-Id"), body: res.Body, r: gateway.NewReader(res.Body)}
		if _, err := s.r.Next(); err != nil {
			t.Fatal(err)
		}
		u.answers = append(u.answers, s)
	}
	u.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
}

// finish reads the streams to their ends, which must be whole.
func (u *unwritable) finish(t *testing.T) {
	t.Helper()
	for _, s := range u.answers {
		last := gateway.Event{}
		for {
			ev, err := s.r.Next()
			if err != nil {
				break
			}
			if ev.Comment == "" {
				last = ev
			}
		}
		_ = s.body.Close()
		if last.Data != "[DONE]" {
			t.Errorf("a stream under way ended with %q", last.Data)
		}
	}
}

// of counts the streams of a key.
func (u *unwritable) of(key string) (n int64) {
	for _, s := range u.answers {
		if s.key == key {
			n++
		}
	}
	return n
}

// refuses checks that nobody is served what has to be charged, and that what costs nothing goes on.
func (u *unwritable) refuses(t *testing.T, f storeFault) {
	t.Helper()
	calls := len(u.p.Calls())
	for _, k := range []string{u.prepaid.Key, u.metered.Key} {
		for _, stream := range []bool{false, true} {
			got := u.g.Do(t, u.ask(stream).with(k))
			mustFail(t, u.ask(stream), got, http.StatusServiceUnavailable, "gateway_unavailable")
			if n, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || n < 1 {
				t.Errorf("Retry-After %q", got.Header.Get("Retry-After"))
			}
		}
	}
	if n := len(u.p.Calls()); n != calls {
		t.Errorf("%d calls of the provider that nobody can be charged for", n-calls)
	}
	for _, path := range []string{"/v1/models", "/v1/balance", "/v1/usage", "/healthz"} {
		if got := u.g.Do(t, gateway.Call{Path: path, Key: u.prepaid.Key}); got.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	for name, status := range map[string]int{"client": u.ready(t, u.g.URL, f.reason), "admin": u.ready(t, u.g.Admin, f.reason)} {
		if status != http.StatusServiceUnavailable {
			t.Errorf("/readyz of the %s listener: %d", name, status)
		}
	}
}

// ready asks /readyz, which must give the reason when it fails.
func (u *unwritable) ready(t *testing.T, base, reason string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Timeout: polltest.Patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var r struct{ Status, Reason string }
	if err := json.NewDecoder(res.Body).Decode(&r); err != nil {
		t.Error(err)
	}
	if res.StatusCode != http.StatusOK && (r.Status != "unavailable" || !strings.Contains(r.Reason, reason)) {
		t.Errorf("%s/readyz says %+v, want the reason %q", base, r, reason)
	}
	return res.StatusCode
}

// auditOf is what `bardo audit --json` finds.
type auditOf struct {
	OK        bool `json:"ok"`
	Unwritten struct {
		Charges int         `json:"charges"`
		USD     json.Number `json:"usd"`
	} `json:"unwritten"`
}

func (u *unwritable) audit(t *testing.T) (a auditOf, code int) {
	t.Helper()
	r := u.g.Try(t, "audit", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &a); err != nil {
		t.Fatalf("audit: %v: %s%s", err, r.Stdout, r.Stderr)
	}
	return a, r.Code
}

// charged checks that each stream has exactly one charge, and the keys nothing else.
func (u *unwritable) charged(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	if left, want := balanceOf(t, g, u.prepaid.Key), 10_000_000-unwrittenCost*(1+u.of(u.prepaid.Key)); left != want {
		t.Errorf("%d are left, want %d", left, want)
	}
	for _, s := range u.answers {
		if b := billOf(t, g, s.key, s.id); b.Cost != "0.000060" {
			t.Errorf("request %s costs %s", s.id, b.Cost)
		}
	}
	for _, k := range []string{u.prepaid.Key, u.metered.Key} {
		var use struct {
			Data []struct {
				Name     string
				Requests int64
				Cost     json.Number `json:"cost_usd"`
			}
		}
		get(t, g, k, "/v1/usage?by=model", &use)
		n := 1 + u.of(k)
		if want := fmt.Sprintf("0.%06d", n*unwrittenCost); len(use.Data) == 0 || use.Data[0].Name != "m" || use.Data[0].Requests != n || string(use.Data[0].Cost) != want {
			t.Errorf("usage %+v, want %d requests for %s", use.Data, n, want)
		}
	}
	g.AssertSound(t)
}

func testUnwritable(t *testing.T, f storeFault) {
	t.Helper()
	u := newUnwritable(t)
	u.begin(t, 9)
	end := f.begin(t, u.g)
	u.finish(t)
	eventually(t, "/readyz fails", func() bool { return u.ready(t, u.g.URL, f.reason) == http.StatusServiceUnavailable })
	u.refuses(t, f)
	for _, s := range u.answers {
		if b := billOf(t, u.g, s.key, s.id); b.Cost != "0.000060" {
			t.Errorf("before it is written request %s costs %s", s.id, b.Cost)
		}
	}
	if m := u.g.Metrics(t); m["bardo_ledger_writable"] != 0 || m["bardo_ledger_unwritten_charges"] != float64(len(u.answers)) {
		t.Errorf("metrics: writable %v, unwritten charges %v", m["bardo_ledger_writable"], m["bardo_ledger_unwritten_charges"])
	}
	if a, code := u.audit(t); a.OK || code != 1 || a.Unwritten.Charges != len(u.answers) || string(a.Unwritten.USD) != fmt.Sprintf("0.%06d", unwrittenCost*len(u.answers)) {
		t.Errorf("audit: exit %d, %+v, want %d unwritten charges", code, a, len(u.answers))
	}
	end()
	eventually(t, "the store is written again", func() bool { return u.ready(t, u.g.URL, f.reason) == http.StatusOK })
	u.charged(t, u.g)
	if got := u.g.Do(t, u.ask(true).with(u.prepaid.Key)); got.Status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.Status, got.Body)
	}
	eventually(t, "the metrics say so", func() bool {
		m := u.g.Metrics(t)
		return m["bardo_ledger_writable"] == 1 && m["bardo_ledger_unwritten_charges"] == 0
	})
	for _, once := range []string{`"msg":"the ledger cannot be written`, `"msg":"the ledger is written again`, `"event":"ledger:unwritable"`, `"event":"ledger:writable"`} {
		if n := strings.Count(u.g.Log(), once); n != 1 {
			t.Errorf("the gateway wrote %s %d times", once, n)
		}
	}
}

// TestD82ALockThatAnotherProcessHoldsGivesNothingAway: another process keeps the store's write lock. Charges are in the charge log meanwhile, and
// everybody sees them.
func TestD82ALockThatAnotherProcessHoldsGivesNothingAway(t *testing.T) {
	t.Parallel()
	u := newUnwritable(t)
	u.begin(t, 9)
	end := holdWriteLock(t, u.g)
	u.finish(t)
	for _, k := range []string{u.prepaid.Key, u.metered.Key} {
		got := u.g.Do(t, u.ask(false).with(k))
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		u.answers = append(u.answers, &underWay{key: k, id: got.Header.Get("X-Request-Id")})
	}
	if status := u.ready(t, u.g.URL, ""); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	u.charged(t, u.g)
	if a, code := u.audit(t); !a.OK || code != 0 || a.Unwritten.Charges != len(u.answers) {
		t.Errorf("audit: exit %d, %+v, want %d charges in the log", code, a, len(u.answers))
	}
	if m := u.g.Metrics(t); m["bardo_ledger_writable"] != 1 || m["bardo_ledger_unwritten_charges"] != float64(len(u.answers)) {
		t.Errorf("metrics: writable %v, unwritten charges %v", m["bardo_ledger_writable"], m["bardo_ledger_unwritten_charges"])
	}
	end()
	eventually(t, "all are applied", func() bool { return u.g.Metrics(t)["bardo_ledger_unwritten_charges"] == 0 })
	u.charged(t, u.g)
}

// TestD82ChargesThatWaitOutliveAKill: the answers were delivered, the store could not be written, and the gateway is killed. The next one
// applies their charges, once.
func TestD82ChargesThatWaitOutliveAKill(t *testing.T) {
	t.Parallel()
	u := newUnwritable(t)
	u.begin(t, 6)
	end := holdWriteLock(t, u.g)
	u.finish(t)
	u.g.Kill()
	end()
	again := gateway.Run(t, gateway.Options{
		Config: quick, Home: u.g.Home, NoKey: true, Providers: []gateway.Provider{{ID: "own", Fake: u.p, Models: models("m", "")}},
	})
	u.charged(t, again)
}
