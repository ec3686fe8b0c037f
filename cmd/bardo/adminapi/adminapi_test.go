package adminapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay/book"
)

const token = "bardo_admin_0123456789abcdefghijklmnopqrstuvwxyz"

// server is an admin API with its own ledger and cache. Every answer is validated against the description.
type server struct {
	*testing.T
	url   string
	books *ledger.Ledger
	cache *cache.Store
	log   *bytes.Buffer
	spec  *spec
	off   map[string]bool // disabled providers

	payments book.Place
	refused  atomic.Int64
}

func start(t *testing.T) *server {
	t.Helper()
	h := home.Dir(t.TempDir())
	books, err := ledger.Open(t.Context(), filepath.Join(string(h), "bardo.db"), ledger.Options{Gateway: true, AuditWait: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := books.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &server{T: t, books: books, cache: cache.New(cache.Options{}), log: &bytes.Buffer{}, spec: readSpec(t), off: map[string]bool{}}
	s.payments = book.InFile(filepath.Join(string(h), "payments.db"))
	service := adminapi.BooksOf(h, books)
	service.Wallet = adminapi.WalletIn(s.payments)
	web := httptest.NewServer(adminapi.Handler(adminapi.Options{
		Version: "test", Started: time.Now(), Token: func() string { return token }, Log: slog.New(slog.NewTextHandler(s.log, nil)),
		Books: service, Cache: adminapi.CacheOf(s.cache, books),
		Providers: s.providers, Switch: s.turn, Refused: func() { s.refused.Add(1) },
		Payments: adminapi.PaymentsListed(s.payments), Audit: adminapi.AuditOf(books, s.payments),
	}))
	t.Cleanup(web.Close)
	s.url = web.URL
	return s
}

func (s *server) providers() []control.Provider {
	state, order := "healthy", 1
	if s.off["direct/openai"] {
		state, order = "disabled", 0
	}
	return []control.Provider{{Provider: "direct/openai", State: state, Order: order}}
}

func (s *server) turn(_ context.Context, name, verb string) error {
	if name != "direct/openai" {
		return fmt.Errorf("there is no provider %q", name)
	}
	s.off[name] = verb == "disable"
	return nil
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request, with the token unless headers override it.
func (s *server) send(method, path, body string, headers ...string) answer {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Del(name)
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// do sends a request, requires a status, validates request and answer against the description, and returns the answer's members.
func (s *server) do(method, path, body string, want int, headers ...string) map[string]any {
	s.Helper()
	a := s.send(method, adminapi.Prefix+path, body, headers...)
	if a.status != want {
		s.Fatalf("%s %s %s: %d %s, want %d", method, path, body, a.status, a.body, want)
	}
	s.spec.check(s.T, method, path, body, a)
	var out map[string]any
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		s.Fatalf("%s %s: %s: %v", method, path, a.body, err)
	}
	return out
}

// refuses requires a status, and an error message that contains a text.
func (s *server) refuses(method, path, body string, status int, contains string, headers ...string) {
	s.Helper()
	out := s.do(method, path, body, status, headers...)
	e, _ := out["error"].(map[string]any)
	if message, _ := e["message"].(string); !strings.Contains(message, contains) {
		s.Errorf("%s %s %s: %v, want %q", method, path, body, e, contains)
	}
}

// created creates a key, and returns its id and secret.
func (s *server) created(body string, headers ...string) (id, secret string) {
	s.Helper()
	out := s.do(http.MethodPost, "/keys", body, http.StatusCreated, headers...)
	return out["id"].(string), out["key"].(string)
}

func data(out map[string]any) []any { return out["data"].([]any) }

func TestKeysOverHTTP(t *testing.T) {
	s := start(t)
	id, secret := s.created(`{"name":"Zoë ✓","tier":"golem","balance_usd":5,"limit_usd_day":2.5,"limit_usd_month":null,"rpm":30,"ip":["10.1.2.3/8"],"models":["m","claude-*"],
		"subsystems":["risk"],"origins":["https://App.example"],"policies":{"pii":"mask"},"expires_at":"2999-01-01T00:00:00Z"}`)
	k := s.do(http.MethodGet, "/keys/"+id, "", http.StatusOK)
	for name, want := range map[string]any{
		"name": "Zoë ✓", "tier": "golem", "balance_usd": 5.0, "limit_usd_day": 2.5, "limit_usd_month": nil, "rpm": 30.0, "ip": []any{"10.0.0.0/8"},
		"models": []any{"m", "claude-*"}, "origins": []any{"https://app.example"}, "policies": map[string]any{"pii": "mask"}, "revoked_at": nil,
	} {
		if fmt.Sprint(k[name]) != fmt.Sprint(want) {
			t.Errorf("%s is %v, want %v", name, k[name], want)
		}
	}
	k = s.do(http.MethodPatch, "/keys/"+id, `{"rpm":0,"ip":null,"models":["any"],"expires_at":null,"limit_usd_day":0,"policies":{"pii":null},"credit_usd":1}`, http.StatusOK)
	if fmt.Sprintln(k["rpm"], k["ip"], k["models"], k["expires_at"], k["limit_usd_day"], k["policies"], k["credit_usd"], k["name"]) != "0 [] [] <nil> <nil> map[] 1 Zoë ✓\n" {
		t.Errorf("changed: %v", k)
	}
	r := s.do(http.MethodPost, "/keys/"+id+"/rotate", `{"overlap_seconds":60}`, http.StatusOK)
	if r["key"] == secret || r["id"] != id {
		t.Errorf("rotated: %v", r["id"])
	}
	s.do(http.MethodPost, "/keys/"+id+"/rotate", "", http.StatusOK)
	if k = s.do(http.MethodPost, "/keys/"+id+"/revoke", "", http.StatusOK); k["revoked_at"] == nil {
		t.Errorf("revoked: %v", k)
	}
	s.do(http.MethodPost, "/keys/"+id+"/revoke", "{}", http.StatusOK)
	s.refuses(http.MethodPatch, "/keys/"+id, `{"rpm":1}`, http.StatusConflict, "revoked, which is for good")
	s.refuses(http.MethodPost, "/keys/"+id+"/rotate", "", http.StatusConflict, "revoked, which is for good")
	if all := s.do(http.MethodGet, "/keys", "", http.StatusOK); len(data(all)) != 1 || strings.Contains(fmt.Sprint(all), secret) {
		t.Errorf("listed: %v", all)
	}
}

func TestListsComeInPages(t *testing.T) {
	s := start(t)
	var ids []string
	for i := range 5 {
		id, _ := s.created(fmt.Sprintf(`{"name":"k%d"}`, i))
		ids = append(ids, id)
	}
	var seen []string
	for path, pages := "/keys?limit=2", 0; ; pages++ {
		page := s.do(http.MethodGet, path, "", http.StatusOK)
		for _, k := range data(page) {
			seen = append(seen, k.(map[string]any)["id"].(string))
		}
		if page["has_more"] == false {
			if pages != 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		path = "/keys?limit=2&after=" + seen[len(seen)-1]
	}
	if strings.Join(seen, " ") != strings.Join(ids, " ") {
		t.Errorf("listed %v, want %v", seen, ids)
	}
	s.refuses(http.MethodGet, "/keys?after=nobody", "", http.StatusBadRequest, "after")
	for _, limit := range []string{"0", "-1", "1001", "x", "+5", ""} {
		s.refuses(http.MethodGet, "/keys?limit="+limit, "", http.StatusBadRequest, "limit")
	}
}

// TestADepositIsNeverDoubled by a repeated request, whether the reference is in the body or the Idempotency-Key.
func TestADepositIsNeverDoubled(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a","balance_usd":1}`)
	at := "/keys/" + id + "/deposits"
	for i, again := range []bool{false, true, true} {
		r := s.do(http.MethodPost, at, `{"amount_usd":1.5,"ref":"invoice-1"}`, http.StatusOK)
		if r["balance_usd"] != 2.5 || r["repeated"] != again {
			t.Errorf("deposit %d: %v", i, r)
		}
	}
	for i, again := range []bool{false, true, true} {
		r := s.do(http.MethodPost, at, `{"amount_usd":2}`, http.StatusOK, "Idempotency-Key: abc")
		if r["balance_usd"] != 4.5 || r["repeated"] != again {
			t.Errorf("deposit %d by key: %v", i, r)
		}
	}
	s.refuses(http.MethodPost, at, `{"amount_usd":3,"ref":"invoice-1"}`, http.StatusConflict, "it brought 1.500000 USD")
	s.refuses(http.MethodPost, at, `{"amount_usd":3}`, http.StatusConflict, "it brought 2.000000 USD", "Idempotency-Key: abc")
	s.refuses(http.MethodPost, at, `{"amount_usd":3}`, http.StatusBadRequest, "ref is empty")
	if b := s.do(http.MethodGet, "/keys/"+id+"/balance", "", http.StatusOK); b["balance_usd"] != 4.5 {
		t.Errorf("balance: %v", b)
	}
	metered, _ := s.created(`{"name":"m"}`)
	s.refuses(http.MethodPost, "/keys/"+metered+"/deposits", `{"amount_usd":1,"ref":"r"}`, http.StatusConflict, "metered")
	if b := s.do(http.MethodGet, "/keys/"+metered+"/balance", "", http.StatusOK); b["balance_usd"] != nil {
		t.Errorf("balance of a metered key: %v", b)
	}
	if r, err := s.books.Audit(t.Context()); err != nil || !r.OK {
		t.Errorf("audit: %+v %v", r, err)
	}
}

// TestARepeatedCreationMakesOneKey: a second key would double an opening balance.
func TestARepeatedCreationMakesOneKey(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a","balance_usd":7}`, "Idempotency-Key: order-17")
	s.refuses(http.MethodPost, "/keys", `{"name":"a","balance_usd":7}`, http.StatusConflict, id, "Idempotency-Key: order-17")
	other, _ := s.created(`{"name":"a","balance_usd":7}`, "Idempotency-Key: order-18")
	if other == id {
		t.Error("two orders, one key")
	}
	if all := s.do(http.MethodGet, "/keys", "", http.StatusOK); len(data(all)) != 2 {
		t.Errorf("%v", all)
	}
	s.refuses(http.MethodPost, "/keys", `{"name":"a"}`, http.StatusBadRequest, "Idempotency-Key", "Idempotency-Key: "+strings.Repeat("x", 201))
}

func TestProjectsAndOwnersOverHTTP(t *testing.T) {
	s := start(t)
	s.do(http.MethodPost, "/owners", `{"id":"acme","name":"Acme","limit_usd_month":1000}`, http.StatusCreated)
	s.refuses(http.MethodPost, "/owners", `{"id":"acme"}`, http.StatusConflict, "taken")
	s.refuses(http.MethodPost, "/owners", `{"id":"b","owner":"acme"}`, http.StatusBadRequest, "owner")
	s.refuses(http.MethodPost, "/owners", `{"id":"../x"}`, http.StatusBadRequest, "an id has")
	s.refuses(http.MethodPost, "/projects", `{"id":"web"}`, http.StatusBadRequest, "owner")
	p := s.do(http.MethodPost, "/projects", `{"id":"web","owner":"acme","limit_usd_day":20}`, http.StatusCreated)
	if p["owner"] != "acme" || p["limit_usd_day"] != 20.0 || p["spent_usd_day"] != 0.0 {
		t.Errorf("%v", p)
	}
	if p = s.do(http.MethodPatch, "/projects/web", `{"limit_usd_day":null,"name":"Web"}`, http.StatusOK); p["limit_usd_day"] != nil || p["name"] != "Web" {
		t.Errorf("%v", p)
	}
	s.do(http.MethodPatch, "/owners/acme", `{"limit_usd_day":5}`, http.StatusOK)
	s.do(http.MethodGet, "/owners/acme", "", http.StatusOK)
	s.do(http.MethodGet, "/projects/web", "", http.StatusOK)
	s.refuses(http.MethodGet, "/projects/nowhere", "", http.StatusNotFound, "there is none")
	s.refuses(http.MethodPatch, "/owners/nobody", `{"name":"x"}`, http.StatusNotFound, "there is none")
	s.do(http.MethodGet, "/projects", "", http.StatusOK)
	s.do(http.MethodGet, "/owners", "", http.StatusOK)
	s.created(`{"name":"a","project":"web"}`)
	s.refuses(http.MethodPost, "/keys", `{"name":"a","project":"nowhere"}`, http.StatusBadRequest, "project")
}

func TestProvidersOverHTTP(t *testing.T) {
	s := start(t)
	state := func(out map[string]any) any { return data(out)[0].(map[string]any)["state"] }
	if got := state(s.do(http.MethodPost, "/providers/direct%2Fopenai/disable", "", http.StatusOK)); got != "disabled" {
		t.Errorf("disabled: %v", got)
	}
	if got := state(s.do(http.MethodGet, "/providers", "", http.StatusOK)); got != "disabled" {
		t.Errorf("listed: %v", got)
	}
	if got := state(s.do(http.MethodPost, "/providers/direct%2Fopenai/enable", "", http.StatusOK)); got != "healthy" {
		t.Errorf("enabled: %v", got)
	}
	s.refuses(http.MethodPost, "/providers/nobody/enable", "", http.StatusConflict, "no provider")
	s.refuses(http.MethodPost, "/providers/direct%2Fopenai/remove", "", http.StatusNotFound, "enabled or disabled")
}

func TestRequestsAndUsageOverHTTP(t *testing.T) {
	s := start(t)
	id, _ := s.created(`{"name":"a"}`)
	for i := range 3 {
		c := ledger.Charge{
			RequestID: fmt.Sprintf("req_%d", i), Account: policy.Account(id), Status: "ok", Model: "m", Provider: "p", At: time.Now().Add(time.Duration(i) * time.Millisecond),
			Record: fmt.Appendf(nil, `{"request_id":"req_%d","created_at":"2026-11-24T00:00:00Z","cost_usd":0.000060}`, i),
		}
		if err := s.books.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	out := s.do(http.MethodGet, "/requests?limit=2&key="+id+"&model=m&provider=p&status=ok&since=2026-01-01&until="+time.Now().UTC().Format(time.DateOnly), "", http.StatusOK)
	if len(data(out)) != 2 || out["has_more"] != true || data(out)[0].(map[string]any)["request_id"] != "req_2" {
		t.Errorf("%v", out)
	}
	if r := s.do(http.MethodGet, "/requests/req_1", "", http.StatusOK); r["key"] != id {
		t.Errorf("%v", r)
	}
	s.refuses(http.MethodGet, "/requests/req_9", "", http.StatusNotFound, "no such request")
	s.refuses(http.MethodGet, "/requests?key=nobody", "", http.StatusNotFound, "no such key")
	s.refuses(http.MethodGet, "/requests?since=yesterday", "", http.StatusBadRequest, "since")
	for _, by := range []string{"", "?by=model", "?by=provider", "?by=subsystem", "?by=day", "?by=key", "?by=project", "?by=golem", "?by=layer", "?key=" + id + "&since=2026-01-01"} {
		s.do(http.MethodGet, "/usage"+by, "", http.StatusOK)
	}
	s.do(http.MethodGet, "/usage?by=subsystem&project=web&golem=g", "", http.StatusOK)
	s.do(http.MethodGet, "/usage/staked", "", http.StatusOK)
	s.do(http.MethodGet, "/feedback?key="+id, "", http.StatusOK)
	s.refuses(http.MethodGet, "/feedback?key=nobody", "", http.StatusNotFound, "no such key")
	s.refuses(http.MethodGet, "/usage?by=name", "", http.StatusBadRequest, "by")
	s.refuses(http.MethodGet, "/usage?key=nobody", "", http.StatusNotFound, "no such key")
}

// TestOnlyTheBodyHasToArriveInTime: an operation may last longer than the body's deadline, with or without a body; a body that does not arrive in time is
// refused.
func TestOnlyTheBodyHasToArriveInTime(t *testing.T) {
	books, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "bardo.db"), ledger.Options{Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = books.Close() })
	const bodyTime = 500 * time.Millisecond
	web := httptest.NewServer(adminapi.Handler(adminapi.Options{
		Token: func() string { return token }, Log: slog.New(slog.DiscardHandler), BodyTime: bodyTime, Books: adminapi.BooksOf(home.Dir(t.TempDir()), books),
		Audit: func(ctx context.Context) (ledger.Report, error) {
			select {
			case <-ctx.Done():
				return ledger.Report{}, ctx.Err()
			case <-time.After(3 * bodyTime):
				return ledger.Report{OK: true}, nil
			}
		},
	}))
	t.Cleanup(web.Close)
	for _, body := range []string{"", "{}"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+adminapi.Prefix+"/audit", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		got, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = got.Body.Close(); got.StatusCode != http.StatusOK {
			t.Errorf("a slow audit, with body %q: %s", body, got.Status)
		}
	}
	slow, w := io.Pipe()
	defer w.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+adminapi.Prefix+"/keys", slow)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	got, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = got.Body.Close(); got.StatusCode != http.StatusRequestTimeout {
		t.Errorf("a body that does not arrive: %s", got.Status)
	}
}
