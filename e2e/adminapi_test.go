package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// operator calls the admin API of a gateway, with the token of its state.
type operator struct {
	*testing.T
	at, token string
}

func operatorOf(t *testing.T, g *gateway.Gateway) *operator {
	t.Helper()
	file := filepath.Join(g.Home, "admin-token")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the token's file: %v %v", info.Mode(), err)
	}
	return &operator{t, g.Admin, strings.TrimSpace(string(b))}
}

// call sends a request, and returns the status and the body.
func (o *operator) call(method, path, body string, headers ...string) (status int, answer string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, o.at+"/admin/v1"+path, strings.NewReader(body))
	if err != nil {
		o.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		o.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// must is call with a status that is wanted; the answer is decoded into out, unless that is nil.
func (o *operator) must(want int, method, path, body string, out any, headers ...string) {
	o.Helper()
	status, answer := o.call(method, path, body, headers...)
	if status != want {
		o.Fatalf("%s %s %s: %d %s, want %d", method, path, body, status, answer, want)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(answer), out); err != nil {
		o.Fatalf("%s %s: %s: %v", method, path, answer, err)
	}
}

// adminKey is a key as the admin API shows it.
type adminKey struct {
	ID, Key, Name string
	Balance       json.Number `json:"balance_usd"`
}

// TestAKeyOfTheAdminAPIPays: made by HTTP, it pays for a call, which is found with its cost; revoked, it gets 401. What the commands show is the same.
func TestAKeyOfTheAdminAPIPays(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}}) // (10 x 1 + 20 x 2) x 1.2 millionths
	o := operatorOf(t, g)
	var k adminKey
	o.must(http.StatusCreated, http.MethodPost, "/keys", `{"name":"by http","balance_usd":0.000010}`, &k)
	mustFail(t, both[0], g.Do(t, both[0].with(k.Key)), http.StatusPaymentRequired, "insufficient_balance")
	for range 2 {
		o.must(http.StatusOK, http.MethodPost, "/keys/"+k.ID+"/deposits", `{"amount_usd":0.99,"ref":"invoice"}`, nil)
	}
	got := g.Do(t, both[0].with(k.Key))
	if got.Status != http.StatusOK || len(p.Generations()) != 1 {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	id := got.Header.Get("X-Request-Id")
	eventually(t, "the record of the request", func() bool {
		status, _ := o.call(http.MethodGet, "/requests/"+id, "")
		return status == http.StatusOK
	})
	var record struct {
		Key  string
		Cost json.Number `json:"cost_usd"`
	}
	o.must(http.StatusOK, http.MethodGet, "/requests/"+id, "", &record)
	if record.Key != k.ID || record.Cost != "0.000060" {
		_, body := o.call(http.MethodGet, "/requests/"+id, "")
		t.Errorf("the record is %s", body)
	}
	eventually(t, "the charge", func() bool {
		var b adminKey
		o.must(http.StatusOK, http.MethodGet, "/keys/"+k.ID+"/balance", "", &b)
		return b.Balance == "0.989950"
	})
	checkBalanceCommand(t, g, k.ID, "0.989950")
	var used struct{ Data []struct{ Name string } }
	o.must(http.StatusOK, http.MethodGet, "/usage?by=provider&key="+k.ID, "", &used)
	if !slices.ContainsFunc(used.Data, func(d struct{ Name string }) bool { return d.Name == "own" }) || len(used.Data) > 2 {
		t.Errorf("usage: %+v", used) // the request that was refused had no provider
	}
	var listed struct{ Data []struct{ Key string } }
	o.must(http.StatusOK, http.MethodGet, "/requests?key="+k.ID, "", &listed)
	if len(listed.Data) != 1 || listed.Data[0].Key != k.ID {
		t.Errorf("requests: %+v", listed)
	}
	o.must(http.StatusOK, http.MethodPost, "/keys/"+k.ID+"/revoke", "", nil)
	eventually(t, "the end of the key", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusUnauthorized })
	if out := g.Bardo(t, "keys", "list"); !strings.Contains(out, k.ID) || !strings.Contains(out, "revoked") {
		t.Errorf("keys list: %s", out)
	}
	g.AssertSound(t)
	for _, hidden := range []string{k.Key, o.token, "by http", "invoice"} {
		if strings.Contains(g.Log(), hidden) {
			t.Errorf("the log has %q", hidden)
		}
	}
	if log := g.Log(); !strings.Contains(log, "revokeKey") || !strings.Contains(log, "deposit") {
		t.Errorf("the log has no line of a change:\n%s", log)
	}
}

// TestTheAdminAPIWantsItsToken: another one, none, a client's key, or a page that a browser shows gets nothing; health and metrics stay open.
func TestTheAdminAPIWantsItsToken(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	o := operatorOf(t, g)
	other, _ := one(t, quick)
	for _, token := range []string{"", "x", o.token + "x", g.Key, operatorOf(t, other).token} {
		wrong := &operator{t, o.at, token}
		paths := []string{"/keys", "/openapi.json", "/keys?token=" + o.token}
		if token != "" {
			paths = paths[:1] // after ten wrong ones, the address has to wait
		}
		for _, path := range paths {
			if status, body := wrong.call(http.MethodGet, path, ""); status != http.StatusUnauthorized || strings.Contains(body, o.token) {
				t.Errorf("%q %s: %d %s", token, path, status, body)
			}
		}
		if token != "" {
			continue
		}
		if status, body := wrong.call(http.MethodPost, "/keys", `{"name":"x"}`); status != http.StatusUnauthorized {
			t.Errorf("%q: %d %s", token, status, body)
		}
	}
	o.must(http.StatusForbidden, http.MethodGet, "/keys", "", nil, "Host: evil.example:9090")
	o.must(http.StatusForbidden, http.MethodGet, "/keys", "", nil, "Origin: https://evil.example")
	o.must(http.StatusForbidden, http.MethodPost, "/keys", `{"name":"x"}`, nil, "Sec-Fetch-Site: cross-site")
	if status, body := (&operator{t, g.URL, o.token}).call(http.MethodGet, "/keys", ""); status == http.StatusOK {
		t.Errorf("the clients' listener has it: %d %s", status, body)
	}
	if g.Metrics(t)["bardo_ledger_writable"] != 1 {
		t.Error("metrics need a token")
	}
	var all struct{ Data []adminKey }
	o.must(http.StatusOK, http.MethodGet, "/keys", "", &all)
	if len(all.Data) != 1 {
		t.Errorf("%+v", all)
	}
}

// TestAConfiguredAdminToken counts in place of the file's.
func TestAConfiguredAdminToken(t *testing.T) {
	t.Parallel()
	const token = "an-operators-own-token-of-enough-length"
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config: "listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0, admin_token: env:OPERATOR_TOKEN}\n", Env: []string{"OPERATOR_TOKEN=" + token},
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}},
	})
	o := operatorOf(t, g)
	if status, _ := o.call(http.MethodGet, "/keys", ""); status != http.StatusUnauthorized {
		t.Errorf("the file's token: %d", status)
	}
	o.token = token
	o.must(http.StatusOK, http.MethodGet, "/keys", "", nil)
	if strings.Contains(g.Log(), token) || strings.Contains(g.Bardo(t, "config", "print"), token) {
		t.Error("the token is shown")
	}
}

// TestTheCommandsAskTheGateway: what it has in memory alone, they show; without a gateway they do the same by themselves.
func TestTheCommandsAskTheGateway(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	k := g.CreateKey(t, "--name", "a", "--balance-usd", "5")
	g.Bardo(t, "deposit", k.ID, "--usd", "1", "--ref", "r")
	eventually(t, "the lines of changes", func() bool {
		return strings.Contains(g.Log(), `"via":"socket"`) && strings.Contains(g.Log(), "createKey")
	})
	other := g.CreateKey(t, "--name", "b", "--balance-usd", "5")
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.with(other.Key)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	reports := [][]string{
		{"export", "requests", "--key", other.ID},
		{"export", "requests", "--format", "json", "--records"},
		{"export", "journal", "--format", "json"},
		{"feedback", "--json"},
		{"plan", "--actual", "1", "--key", other.ID, "--json"},
		{"wallet", "--json"},
	}
	var said []string
	eventually(t, "the charge is booked", func() bool { return strings.Count(g.Bardo(t, reports[2]...), "charge") > 0 })
	for _, r := range reports {
		said = append(said, g.Bardo(t, r...))
	}
	before := len(strings.Split(g.Log(), "admin change"))
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for i, r := range reports {
		if got := g.Bardo(t, r...); got != said[i] || strings.TrimSpace(got) == "" {
			t.Errorf("bardo %v says %s without a gateway, and with it %s", r, got, said[i])
		}
	}
	g.Bardo(t, "deposit", k.ID, "--usd", "2", "--ref", "s")
	g.Bardo(t, "owners", "create", "acme")
	g.Bardo(t, "projects", "create", "web", "--owner", "acme")
	g.Bardo(t, "keys", "update", k.ID, "--project", "web")
	checkBalanceCommand(t, g, k.ID, "8.000000")
	if after := len(strings.Split(g.Log(), "admin change")); after != before {
		t.Error("a gateway that was stopped has logged a change")
	}
}

// TestADepositOfManyCountsOnce: the same request many times at once, over HTTP and by the command, moves money once.
func TestADepositOfManyCountsOnce(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *gateway.Gateway, _ *fake.Server) {
		t.Helper()
		o := operatorOf(t, g)
		var k adminKey
		o.must(http.StatusCreated, http.MethodPost, "/keys", `{"name":"a","balance_usd":1}`, &k)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if status, body := o.call(http.MethodPost, "/keys/"+k.ID+"/deposits", `{"amount_usd":3}`, "Idempotency-Key: one"); status != http.StatusOK {
					t.Errorf("%d %s", status, body)
				}
			})
		}
		all.Wait()
		var made sync.Map
		for range 10 {
			all.Go(func() {
				status, body := o.call(http.MethodPost, "/keys", `{"name":"b","balance_usd":1}`, "Idempotency-Key: two")
				made.Store(fmt.Sprint(status, body), status)
			})
		}
		all.Wait()
		n := 0
		for _, status := range made.Range {
			if status == http.StatusCreated {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d keys were made", n)
		}
		var b adminKey
		o.must(http.StatusOK, http.MethodGet, "/keys/"+k.ID+"/balance", "", &b)
		if b.Balance != "4.000000" {
			t.Errorf("balance %s", b.Balance)
		}
		g.AssertSound(t)
	})
}

// TestARevokedKeyStopsARush: while many requests of a key run, it is revoked; soon none is served, and the books hold.
func TestARevokedKeyStopsARush(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	o := operatorOf(t, g)
	var k adminKey
	o.must(http.StatusCreated, http.MethodPost, "/keys", `{"name":"a","balance_usd":5,"rpm":0}`, &k)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all sync.WaitGroup
	refused := make(chan struct{}, 8)
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				switch a := g.Do(t, both[0].with(k.Key)); a.Status {
				case http.StatusOK:
				case http.StatusUnauthorized:
					refused <- struct{}{}
					return
				default:
					t.Errorf("%d %s", a.Status, a.Body)
					return
				}
			}
		})
	}
	o.must(http.StatusOK, http.MethodPost, "/keys/"+k.ID+"/revoke", "", nil)
	for range 8 {
		select {
		case <-refused:
		case <-time.After(30 * time.Second):
			t.Fatal("a revoked key is still served")
		}
	}
	stop()
	all.Wait()
	g.AssertSound(t)
}

// TestTheAdminAPISwitchesProvidersAndClearsTheCache of the gateway that runs.
func TestTheAdminAPISwitchesProvidersAndClearsTheCache(t *testing.T) {
	t.Parallel()
	a, b := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "pipeline: {hash: all}\n", Providers: []gateway.Provider{
		{ID: "a", Fake: a, Models: models("m", "")}, {ID: "b", Fake: b, Models: models("m", "")},
	}})
	o := operatorOf(t, g)
	o.must(http.StatusOK, http.MethodPost, "/providers/a/disable", "", nil)
	var all struct {
		Data []struct{ Provider, State string }
	}
	o.must(http.StatusOK, http.MethodGet, "/providers", "", &all)
	if len(all.Data) != 2 || all.Data[0].State != "disabled" {
		t.Errorf("%+v", all)
	}
	ask := gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"m","temperature":0,"messages":[{"role":"user","content":"x"}]}`}
	if got := g.Do(t, ask); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "b" {
		t.Errorf("%d %s", got.Status, got.Header.Get("X-Bardo-Provider"))
	}
	o.must(http.StatusOK, http.MethodPost, "/providers/a/enable", "", nil)
	if out := g.Bardo(t, "providers"); strings.Contains(out, "disabled") {
		t.Errorf("bardo providers: %s", out)
	}
	hit := func() bool { return g.Do(t, ask).Header.Get("X-Bardo-Cache") == "hash" }
	eventually(t, "a stored answer", hit)
	var c struct{ Deleted, Entries int }
	o.must(http.StatusOK, http.MethodGet, "/cache", "", &c)
	if c.Entries != 1 {
		t.Errorf("%+v", c)
	}
	o.must(http.StatusOK, http.MethodPost, "/cache/flush", `{"dry_run":true}`, &c)
	if c.Deleted != 1 || !hit() {
		t.Errorf("a dry run: %+v", c)
	}
	o.must(http.StatusOK, http.MethodPost, "/cache/flush", "", &c)
	if c.Deleted != 1 || hit() {
		t.Errorf("a flush: %+v", c)
	}
}

// TestTheAdminAPIOfPairs: of two that share a ledger, each has the keys that the other makes, and its own token.
func TestTheAdminAPIOfPairs(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	s := gateway.RunPairs(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}}, newAuthority(t), "gw-1", "gw-2")
	for _, pair := range s.Pairs {
		if err := pair.Serves(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, two, plane := operatorOf(t, s.Pairs[0].Gateway), operatorOf(t, s.Pairs[1].Gateway), operatorOf(t, s.Plane)
	if status, _ := (&operator{t, two.at, one.token}).call(http.MethodGet, "/keys", ""); status != http.StatusUnauthorized {
		t.Errorf("the other machine's token: %d", status)
	}
	var k adminKey
	one.must(http.StatusCreated, http.MethodPost, "/keys", `{"name":"shared","balance_usd":1}`, &k)
	eventually(t, "the key at the other pair", func() bool { return s.Pairs[1].Do(t, both[0].with(k.Key)).Status == http.StatusOK })
	two.must(http.StatusOK, http.MethodPost, "/keys/"+k.ID+"/revoke", "", nil)
	eventually(t, "its end at the first one", func() bool { return s.Pairs[0].Do(t, both[0].with(k.Key)).Status == http.StatusUnauthorized })

	if status, body := one.call(http.MethodPost, "/providers/own/disable", ""); status != http.StatusConflict || !strings.Contains(body, "control plane") {
		t.Errorf("a sidecar: %d %s", status, body)
	}
	if status, body := plane.call(http.MethodGet, "/keys", ""); status != http.StatusNotImplemented {
		t.Errorf("the control plane has keys: %d %s", status, body)
	}
	plane.must(http.StatusOK, http.MethodPost, "/providers/own/disable", "", nil)
	eventually(t, "the order at a sidecar", func() bool {
		_, body := one.call(http.MethodGet, "/providers", "")
		return strings.Contains(body, `"disabled"`)
	})
}
