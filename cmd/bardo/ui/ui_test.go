package ui

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/cachetest"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/attempts"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

const operatorToken = "bardo_admin_0123456789abcdefghijklmnopqrstuvwxyz"

// hostile would be markup, script or an attribute if it were not escaped.
const hostile = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "`${7*7}{{7*7}}"

// lab is a dashboard with a ledger, caches, and keys of three owners.
type lab struct {
	t       *testing.T
	server  *httptest.Server
	ui      *Server
	books   *ledger.Ledger
	answers *cache.Store
	feed    event.Feed[record.Finished]
	pepper  *auth.Pepper
	now     time.Time

	unchecked atomic.Bool // answers are not validated against schemas
	newToken  atomic.Bool // the operator's token is operatorToken followed by "2"

	mu        sync.Mutex
	providers []control.Provider
	switched  []string
}

// keyStore adapts the ledger to auth.Store.
type keyStore struct{ *ledger.Ledger }

func (s keyStore) Key(ctx context.Context, id string) (auth.Row, bool, error) {
	k, ok, err := s.Ledger.Key(ctx, policy.Account(id))
	return auth.Row{Principal: k.Principal(), Hash: k.Hash, Revoked: k.Revoked()}, ok, err
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, answers: cache.New(cache.Options{}), now: time.Now()}
	var err error
	if l.books, err = ledger.Open(t.Context(), filepath.Join(t.TempDir(), "bardo.db"), ledger.Options{Gateway: true, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.books.Close() })
	pepper, err := auth.NewPepper(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if l.pepper, err = auth.ParsePepper(pepper); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.NewAPIKeys(keyStore{l.books}, l.pepper, auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	local := &api.Server{Ledger: l.books, Answers: l.answers, Semantic: semantic.New(0)}
	l.providers = []control.Provider{
		{Provider: "alpha", State: "healthy", Order: 1, Requests: 40},
		{Provider: "beta", State: "credential_refused", Reason: "401 from the operator's account", Order: 2},
		{Provider: "gamma", State: "disabled"},
	}
	l.ui = New(Options{
		Books: l.books, Keys: keys, CreateKey: l.createKey, Local: func() *api.Server { return local }, Finished: &l.feed,
		Providers: l.listProviders, Switch: l.switchProvider, Load: func() (int64, uint64) { return 3, 100 }, Log: slog.New(slog.DiscardHandler),
		Operator: IsToken(l.tokenNow), Checked: func() bool { return !l.unchecked.Load() }, Now: func() time.Time { l.mu.Lock(); defer l.mu.Unlock(); return l.now },
	})
	l.server = httptest.NewServer(l.ui)
	t.Cleanup(l.server.Close)
	return l
}

// tokenNow is the operator's current token.
func (l *lab) tokenNow() string {
	if l.newToken.Load() {
		return operatorToken + "2"
	}
	return operatorToken
}

func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

func (l *lab) listProviders() []control.Provider {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.providers)
}

func (l *lab) switchProvider(_ context.Context, name, verb string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.switched = append(l.switched, verb+" "+name)
	return nil
}

func (l *lab) createKey(ctx context.Context, k ledger.KeyRow, opening policy.Micro) (id, secret string, err error) {
	key, err := auth.NewKey(rand.Reader)
	if err == nil && k.Publishable {
		key, err = auth.NewSecret(rand.Reader, key.ID(), true)
	}
	if err != nil {
		return "", "", err
	}
	k.ID = policy.Account(key.ID())
	if k.Hash, err = l.pepper.Hash(key); err != nil {
		return "", "", err
	}
	return key.ID(), key.Reveal(), l.books.CreateKey(ctx, k, opening)
}

func (l *lab) key(k ledger.KeyRow, opening policy.Micro) (id policy.Account, secret string) {
	l.t.Helper()
	name, secret, err := l.createKey(l.t.Context(), k, opening)
	if err != nil {
		l.t.Fatal(err)
	}
	return policy.Account(name), secret
}

// request stores a request of a key.
func (l *lab) request(id string, account policy.Account, change func(*record.Request)) {
	l.t.Helper()
	r := record.Request{
		RequestID: id, CreatedAt: l.now.UTC(), Status: record.OK, HTTPStatus: 200, Dialect: "openai", RequestedModel: "model-" + id, Provider: "alpha", Model: policy.ModelID("served-" + id),
		AttemptLog: []record.Attempt{{Provider: "alpha", Model: "m", Outcome: "ok"}}, Cache: "miss", InputTokens: 10, OutputTokens: 20, CostUSD: 1234, PriceKnown: true,
	}
	if change != nil {
		change(&r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := l.books.Record(ledger.Charge{
		RequestID: id, Account: account, Amount: r.CostUSD, Provider: r.Provider, Model: r.Model, Status: r.Status, Record: text, At: l.now,
		Tokens: ledger.Tokens{Input: r.InputTokens, Output: r.OutputTokens},
	}); err != nil {
		l.t.Fatal(err)
	}
}

// browser is a client with cookies.
type browser struct {
	*http.Client

	l *lab
}

func (l *lab) browser() browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return browser{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, l}
}

// loggedIn returns a browser that is logged in.
func (l *lab) loggedIn(secret string) browser {
	l.t.Helper()
	b := l.browser()
	if got := b.post("/ui/login", url.Values{"secret": {secret}}); got.status != http.StatusSeeOther {
		l.t.Fatalf("log in: %d %s", got.status, got.body)
	}
	return b
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (b browser) do(r *http.Request) answer {
	b.l.t.Helper()
	resp, err := b.Do(r)
	if err != nil {
		b.l.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		b.l.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (b browser) get(path string) answer {
	b.l.t.Helper()
	r, err := http.NewRequestWithContext(b.l.t.Context(), http.MethodGet, b.l.server.URL+path, http.NoBody)
	if err != nil {
		b.l.t.Fatal(err)
	}
	return b.do(r)
}

func (b browser) post(path string, form url.Values, header ...string) answer {
	b.l.t.Helper()
	r, err := http.NewRequestWithContext(b.l.t.Context(), http.MethodPost, b.l.server.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.l.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

var csrfField = regexp.MustCompile(`name="csrf" value="([A-Z0-9]+)"`)

// csrf is the CSRF token of the browser's pages.
func (b browser) csrf() string {
	b.l.t.Helper()
	m := csrfField.FindStringSubmatch(b.get("/ui").body)
	if m == nil {
		b.l.t.Fatal("no token in the page")
	}
	return m[1]
}

// change posts a form with the CSRF token.
func (b browser) change(path string, form url.Values) answer {
	b.l.t.Helper()
	form.Set("csrf", b.csrf())
	return b.post(path, form)
}

// allPages returns the paths of all pages, including a request's.
func allPages(id string) []string {
	return []string{"/ui", "/ui?days=90", "/ui/live", "/ui/requests", "/ui/requests/" + id, "/ui/providers", "/ui/cache", "/ui/keys", "/ui/keys?all", "/ui/privacy", "/ui/playground"}
}

// TestB07AKeySeesItsOwnAlone: data of another key is on no page, under no path that names it, and in no stream; data of the project's other keys is.
func TestB07AKeySeesItsOwnAlone(t *testing.T) {
	l := newLab(t)
	for _, g := range []ledger.Group{{Kind: policy.OfOwner, ID: "acme"}, {Kind: policy.OfProject, ID: "web", Owner: "acme"}} {
		if err := l.books.CreateGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	alice, aliceSecret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro, Project: "web"}, 0)
	amy, amySecret := l.key(ledger.KeyRow{Name: "amy", Tier: policy.TierPro, Project: "web"}, 0)
	bob, bobSecret := l.key(ledger.KeyRow{Name: "bobby", Tier: policy.TierPro}, 0)
	for id, account := range map[string]policy.Account{"req_alice": alice, "req_amy": amy, "req_bob": bob, "req_nobody": ""} {
		l.request(id, account, func(r *record.Request) { r.Attestation = "token-" + id })
		cachetest.Finish(l.answers.Ticket(account, cachetest.Key(len(id)), cache.Format{Dialect: "openai"}, cachetest.Everything, time.Hour), "said-"+id, "stored-"+policy.ModelID(id))
	}
	for _, row := range []struct {
		name, secret string
		visible, not []string
		key          policy.Account // another key
	}{
		{"alice", aliceSecret, []string{"alice", "amy"}, []string{"bob", "nobody"}, bob},
		{"amy", amySecret, []string{"alice", "amy"}, []string{"bob", "nobody"}, bob},
		{"bob", bobSecret, []string{"bob"}, []string{"alice", "amy", "nobody"}, alice},
		{"the operator", operatorToken, []string{"alice", "amy", "bob", "nobody"}, nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := l.loggedIn(row.secret)
			for _, who := range row.visible {
				if got := b.get("/ui/requests/req_" + who); got.status != http.StatusOK || !strings.Contains(got.body, "served-req_"+who) {
					t.Errorf("its request %s: %d", who, got.status)
				}
				if got := b.get("/ui/requests"); !strings.Contains(got.body, "served-req_"+who) {
					t.Errorf("%s is not in the list", who)
				}
			}
			for _, who := range row.not {
				marks := []string{"req_" + who, "stored-req_" + who}
				if who != "nobody" {
					marks = append(marks, `>`+who, who+` ·`)
				}
				for _, page := range allPages("req_" + row.visible[0]) {
					got := b.get(page)
					for _, mark := range marks {
						if got.status != http.StatusOK || strings.Contains(got.body, mark) {
							t.Errorf("%s: %d, shows %q of %s", page, got.status, mark, who)
						}
					}
				}
				if got := b.get("/ui/requests/req_" + who); got.status != http.StatusNotFound || strings.Contains(got.body, "served-") {
					t.Errorf("the request of %s: %d", who, got.status)
				}
			}
			if row.key == "" {
				return
			}
			for _, page := range []string{"/ui?key=", "/ui/requests?key=", "/ui/cache?key="} {
				if got := b.get(page + string(row.key)); got.status != http.StatusNotFound {
					t.Errorf("%s of another key: %d", page, got.status)
				}
			}
			for _, form := range []url.Values{{"all": {"yes"}}, {"id": {cachetest.Key(7).ID()}}, {"request": {"req_" + row.not[0]}}} {
				form.Set("key", string(row.key))
				if got := b.change("/ui/cache/delete", form); got.status != http.StatusForbidden {
					t.Errorf("deletes another key's answers by %v: %d", form, got.status)
				}
			}
		})
	}
	if listing, err := l.answers.List(t.Context(), bob); err != nil || listing.Count != 1 {
		t.Errorf("bob has %d answers, %v", listing.Count, err)
	}
}

// TestB07OnlyTheOperatorChangesTheGateway: a key can neither switch providers nor create, limit or revoke keys, and nobody can without a session and its CSRF
// token.
func TestB07OnlyTheOperatorChangesTheGateway(t *testing.T) {
	l := newLab(t)
	id, secret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	changes := map[string]url.Values{
		"/ui/providers/alpha/disable":        {},
		"/ui/keys":                           {"name": {"mallory"}, "tier": {"pro"}},
		"/ui/keys/" + string(id) + "/revoke": {},
		"/ui/keys/" + string(id) + "/limits": {"day": {"5"}},
		"/ui/cache/delete":                   {"key": {string(id)}, "all": {"yes"}},
		"/ui/logout":                         {},
	}
	key, operator := l.loggedIn(secret), l.loggedIn(operatorToken)
	for path, form := range changes {
		if got := l.browser().post(path, form); got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/login" {
			t.Errorf("%s without a session: %d", path, got.status)
		}
		for _, token := range []string{"", "x", key.csrf()} {
			form.Set("csrf", token)
			if got := operator.post(path, form); got.status != http.StatusForbidden {
				t.Errorf("%s with the token %q of a form: %d", path, token, got.status)
			}
		}
		form.Set("csrf", operator.csrf())
		for _, from := range [][]string{{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
			if got := operator.post(path, form, from...); got.status != http.StatusForbidden {
				t.Errorf("%s from %v: %d", path, from, got.status)
			}
		}
		if !strings.HasPrefix(path, "/ui/cache") && path != "/ui/logout" {
			if got := key.change(path, form); got.status != http.StatusForbidden {
				t.Errorf("%s by a key: %d", path, got.status)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if got := operator.do(r); path != "/ui/keys" && got.status != http.StatusNotFound && got.status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, got.status)
		}
	}
	if len(l.switched) > 0 {
		t.Errorf("switched: %v", l.switched)
	}
	if keys, err := l.books.Keys(t.Context()); err != nil || len(keys) != 1 || keys[0].Revoked() || keys[0].SpendDay != 0 {
		t.Errorf("the keys are %+v, %v", keys, err)
	}
}

// TestB07AFailedRequestWasAnsweredByNobody: its page names the provider that was called last instead.
func TestB07AFailedRequestWasAnsweredByNobody(t *testing.T) {
	l := newLab(t)
	l.request("req_ok", "", func(*record.Request) {})
	l.request("req_failed", "", func(r *record.Request) { r.Status, r.HTTPStatus = record.Failed, http.StatusBadGateway })
	b := l.loggedIn(operatorToken)
	for id, want := range map[string]string{"req_ok": "<h2>Answered by</h2>", "req_failed": "<h2>Called last</h2>"} {
		if got := b.get("/ui/requests/" + id); !strings.Contains(got.body, want) {
			t.Errorf("%s: %d, no %s", id, got.status, want)
		}
	}
}

// TestB07WhatClientsChooseIsText: names of models, keys, providers, subsystems and all other external values are text on every page, not markup.
func TestB07WhatClientsChooseIsText(t *testing.T) {
	l := newLab(t)
	id, secret := l.key(ledger.KeyRow{Name: hostile, Tier: policy.TierPro}, 0)
	l.providers = append(l.providers, control.Provider{Provider: hostile, State: hostile, Reason: hostile, Order: 3})
	l.request("req_x", id, func(r *record.Request) {
		r.RequestedModel, r.Model, r.Provider, r.Subsystem, r.Task, r.Regime, r.Error, r.Pipeline, r.Cache, r.CacheEntry = hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile, hostile
		r.Status, r.Path, r.Schema, r.ServiceTier, r.Attestation = hostile, hostile, hostile, hostile, hostile
		r.Dialect, r.Degraded = hostile, []string{hostile}
		r.AttemptLog = []record.Attempt{{Provider: hostile, Model: hostile, Outcome: hostile, Reason: hostile, Next: hostile, NextWhy: hostile, Side: hostile}}
		r.Invoice = []record.Line{{Provider: hostile, Model: hostile, Layer: hostile, Kind: hostile, Source: hostile}}
		r.Savings = []policy.Saving{{Layer: hostile}}
		r.Verification, r.Escalation = &record.Verification{Result: hostile, Reason: hostile, By: &record.Model{Provider: hostile, Model: hostile}}, &record.Escalation{From: hostile, To: hostile, Reason: hostile}
	})
	for who, b := range map[string]browser{"a key": l.loggedIn(secret), "the operator": l.loggedIn(operatorToken)} {
		pages := append(allPages("req_x"), "/ui/requests?"+url.Values{"model": {hostile}, "status": {hostile}, "provider": {hostile}}.Encode(), "/ui/requests/"+url.PathEscape(hostile), "/ui/"+url.PathEscape(hostile))
		for _, page := range pages {
			got := b.get(page)
			for _, mark := range []string{"<script>alert", "<img src=x", "onerror=alert(2)>'"} {
				if strings.Contains(got.body, mark) {
					t.Errorf("%s: %s contains %s", who, page, mark)
				}
			}
			if got.status == http.StatusOK && !strings.HasSuffix(strings.TrimSpace(got.body), "</html>") {
				t.Errorf("%s: %s is cut: %d", who, page, got.status)
			}
		}
	}
	if got := l.browser().get("/ui/login?next=" + url.QueryEscape(hostile)); strings.Contains(got.body, "alert") {
		t.Error("the page to log in repeats the query")
	}
}

func TestB07EveryAnswerForbidsWhatPagesDoNotNeed(t *testing.T) {
	l := newLab(t)
	b := l.loggedIn(operatorToken)
	l.request("req_x", "", nil)
	inline := regexp.MustCompile(`(?i)<script(?:\s[^>]*)?>[^<]|<style|\sstyle=|\son[a-z]+=|javascript:|https?://`)
	for _, page := range append(allPages("req_x"), "/ui/login", "/ui/none", "/ui/requests/none") {
		got := b.get(page)
		csp := got.header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
			if !strings.Contains(csp, rule) {
				t.Errorf("%s: no %s in %q", page, rule, csp)
			}
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Content-Type-Options") != "nosniff" || got.header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", page, got.header)
		}
		if found := inline.FindString(got.body); found != "" {
			t.Errorf("%s has %q, which the policy forbids", page, found)
		}
		for _, m := range regexp.MustCompile(`(?:src|href)="([^"]*\.(?:css|js|svg))"`).FindAllStringSubmatch(got.body, -1) {
			if file := b.get(m[1]); file.status != http.StatusOK || !strings.Contains(file.header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d", m[1], file.status)
			}
		}
	}
}

// TestB07ThePlaygroundHasNoForm: no field has a name, so that neither a key nor a prompt gets into a URL or reaches the dashboard, with or without script; the
// script is a file that the Content-Security-Policy allows.
func TestB07ThePlaygroundHasNoForm(t *testing.T) {
	l := newLab(t)
	_, secret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	for who, secret := range map[string]string{"a key": secret, "the operator": operatorToken} {
		b := l.loggedIn(secret)
		got := b.get("/ui/playground")
		_, page, _ := strings.Cut(got.body, "<main")
		if got.status != http.StatusOK || !strings.Contains(page, `<option data-schema="RiskAssessment">risk</option>`) || !strings.Contains(page, `<option>operator</option>`) {
			t.Errorf("%s: %d %s", who, got.status, page)
		}
		if found := regexp.MustCompile(`\s(?:name|action|formaction|method)=`).FindString(page); found != "" {
			t.Errorf("%s: a field has%s", who, found)
		}
		m := regexp.MustCompile(`<script type="module" src="([^"]+)"></script>`).FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("%s: no script in %s", who, page)
		}
		if file := b.get(m[1]); file.status != http.StatusOK || !strings.HasPrefix(file.header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s: %d %v", m[1], file.status, file.header)
		}
	}
	if got := l.browser().get("/ui/playground"); got.status != http.StatusSeeOther {
		t.Errorf("without a session: %d", got.status)
	}
	l.unchecked.Store(true)
	if got := l.loggedIn(secret).get("/ui/playground"); strings.Contains(got.body, "data-schema") || !strings.Contains(got.body, `<option>risk</option>`) {
		t.Errorf("it names schemas that nothing is checked against: %s", got.body)
	}
}

// TestB07ThePlaygroundLinksToWhatItsViewerSees: not to requests of another project, nor to ones that do not exist.
func TestB07ThePlaygroundLinksToWhatItsViewerSees(t *testing.T) {
	l := newLab(t)
	alice, own := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	_, others := l.key(ledger.KeyRow{Name: "bob", Tier: policy.TierPro}, 0)
	l.request("req_1", alice, func(*record.Request) {})
	for _, row := range []struct {
		who, secret, id string
		want            int
	}{
		{"its key", own, "req_1", http.StatusOK},
		{"the operator", operatorToken, "req_1", http.StatusOK},
		{"another key", others, "req_1", http.StatusNoContent},
		{"a request that there is not", own, "req_2", http.StatusNoContent},
	} {
		b := l.loggedIn(row.secret)
		if got := b.get("/ui/playground/records/" + row.id); got.status != row.want || got.body != "" {
			t.Errorf("%s: %d %q, want %d", row.who, got.status, got.body, row.want)
		}
		if page := b.get("/ui/requests/" + row.id); (page.status == http.StatusOK) != (row.want == http.StatusOK) {
			t.Errorf("%s: the page is %d", row.who, page.status)
		}
	}
	if got := l.browser().get("/ui/playground/records/req_1"); got.status != http.StatusSeeOther {
		t.Errorf("without a session: %d", got.status)
	}
}

// TestB07ASessionEnds when its key is revoked, gets another secret, expires or is used from elsewhere, at logout, and with time.
func TestB07ASessionEnds(t *testing.T) {
	l := newLab(t)
	out := func(sentence string, b browser) {
		t.Helper()
		for _, page := range []string{"/ui", "/ui/keys", "/ui/requests"} {
			if got := b.get(page); got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/ui/login") {
				t.Errorf("%s: %s is %d", sentence, page, got.status)
			}
		}
		if got := b.get("/ui/live/events"); got.status != http.StatusUnauthorized {
			t.Errorf("%s: the stream is %d", sentence, got.status)
		}
	}
	update := func(id policy.Account, change func(*ledger.KeyRow)) {
		t.Helper()
		if err := l.books.UpdateKey(t.Context(), id, func(k *ledger.KeyRow) error { change(k); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for sentence, change := range map[string]func(*ledger.KeyRow){
		"revoked":        func(k *ledger.KeyRow) { k.RevokedAt = time.Now() },
		"another secret": func(k *ledger.KeyRow) { k.Hash = "x" },
		"expired":        func(k *ledger.KeyRow) { k.Expires = time.Now().Add(-time.Second) },
		"elsewhere":      func(k *ledger.KeyRow) { k.Networks = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} },
	} {
		id, secret := l.key(ledger.KeyRow{Name: sentence, Tier: policy.TierPro}, 0)
		b := l.loggedIn(secret)
		if got := b.get("/ui"); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
		update(id, change)
		out(sentence, b)
	}
	b := l.loggedIn(operatorToken)
	stolen := l.browser()
	at, err := url.Parse(l.server.URL + "/ui")
	if err != nil {
		t.Fatal(err)
	}
	stolen.Jar.SetCookies(at, b.Jar.Cookies(at))
	if got := b.change("/ui/logout", url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("log out: %d", got.status)
	}
	out("logged out", b)
	out("logged out, with the old cookie", stolen)
	b = l.loggedIn(operatorToken)
	stolen.Jar.SetCookies(at, b.Jar.Cookies(at))
	if got := b.post("/ui/login", url.Values{"secret": {operatorToken}}); got.status != http.StatusSeeOther {
		t.Errorf("log in anew: %d", got.status)
	}
	out("logged in anew, with the old cookie", stolen)
	b = l.loggedIn(operatorToken)
	l.newToken.Store(true)
	out("another token of the operator's", b)
	l.newToken.Store(false)
	out("the earlier token again", b)
	b = l.loggedIn(operatorToken)
	l.pass(sessionIdle)
	out("idle", b)
	b = l.loggedIn(operatorToken)
	for range sessionLife/sessionIdle*2 - 1 {
		l.pass(sessionIdle / 2)
		if got := b.get("/ui"); got.status != http.StatusOK {
			t.Fatalf("in use: %d", got.status)
		}
	}
	l.pass(sessionIdle / 2)
	out("old", b)
}

func TestB07WhoMayLogIn(t *testing.T) {
	l := newLab(t)
	_, good := l.key(ledger.KeyRow{Name: "a", Tier: policy.TierPro}, 0)
	_, reader := l.key(ledger.KeyRow{Name: "b", Tier: policy.TierPro, ReadOnly: true}, 0)
	revokedID, revoked := l.key(ledger.KeyRow{Name: "c", Tier: policy.TierPro}, 0)
	public, far := ledger.KeyRow{Name: "d", Tier: policy.TierPro, Prepaid: true, SpendDay: 1}, ledger.KeyRow{Name: "e", Tier: policy.TierPro, Networks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	public.Publishable, public.SpendMonth, public.Networks = true, 1, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	_, publicSecret := l.key(public, 5)
	_, elsewhere := l.key(far, 0)
	if err := l.books.RevokeKey(t.Context(), revokedID); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, secret string
		status       int
	}{
		{"a key", good, http.StatusSeeOther},
		{"a key with space around it", "  " + good + "\n", http.StatusSeeOther},
		{"a key that may only read", reader, http.StatusSeeOther},
		{"the operator's token", operatorToken, http.StatusSeeOther},
		{"nothing", "", http.StatusUnauthorized},
		{"a part of the token", operatorToken[:20], http.StatusUnauthorized},
		{"a wrong key", good[:len(good)-6] + "aaaaaa", http.StatusUnauthorized},
		{"a revoked key", revoked, http.StatusUnauthorized},
		{"a publishable key", publicSecret, http.StatusForbidden},
		{"a key for another network", elsewhere, http.StatusForbidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			l.ui.attempts = attempts.Limiter{}
			b := l.browser()
			got := b.post("/ui/login", url.Values{"secret": {row.secret}})
			if got.status != row.status {
				t.Errorf("%d %s", got.status, got.body)
			}
			if in := b.get("/ui").status == http.StatusOK; in != (row.status == http.StatusSeeOther) {
				t.Errorf("logged in: %v", in)
			}
			if row.secret != "" && strings.Contains(got.body, row.secret) {
				t.Error("the page repeats the secret")
			}
			if c := got.header.Get("Set-Cookie"); row.status == http.StatusSeeOther && (!strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || !strings.Contains(c, "Path=/ui")) {
				t.Errorf("the cookie is %q", c)
			}
		})
	}
	if c := l.browser().post("/ui/login", url.Values{"secret": {operatorToken}}, "X-Forwarded-Proto", "https").header.Get("Set-Cookie"); !strings.Contains(c, "Secure") {
		t.Errorf("over HTTPS the cookie is %q", c)
	}
}

func TestB07AttemptsToLogInAreLimited(t *testing.T) {
	l := newLab(t)
	refused := 0
	for range attempts.Burst + 5 {
		got := l.browser().post("/ui/login", url.Values{"secret": {"guess"}})
		if got.status == http.StatusTooManyRequests {
			refused++
			if got.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused != 5 {
		t.Errorf("%d of 5 were refused", refused)
	}
	if got := l.browser().post("/ui/login", url.Values{"secret": {operatorToken}}); got.status != http.StatusTooManyRequests {
		t.Errorf("the right one, too many: %d", got.status)
	}
	l.pass(attempts.Every)
	if got := l.browser().post("/ui/login", url.Values{"secret": {operatorToken}}); got.status != http.StatusSeeOther {
		t.Errorf("later: %d", got.status)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	var s sessions
	now := time.Now()
	first := s.begin(now, session{key: "a"})
	other := s.begin(now, session{key: "b"})
	for range maxPerKey {
		now = now.Add(time.Millisecond)
		s.begin(now, session{key: "a"})
	}
	if _, ok := s.find(now, first); ok {
		t.Error("the oldest session of a key is still there")
	}
	if _, ok := s.find(now, other); !ok {
		t.Error("a key ended another one's session")
	}
	if _, ok := s.find(now, ""); ok {
		t.Error("no token is one")
	}
}

// FuzzLocalPath: whatever a link contains, the redirect stays on the dashboard.
func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"/ui", "/ui/requests?key=a&status=5xx", "//evil.example", "/ui//evil.example", "https://evil.example/ui", `/ui\evil`, "/ui/../v1", "/ui?next=//x", "/uix", "/ui/%2e%2e/x", "/ui\n/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := localPath(s)
		at, err := url.Parse(got)
		if err != nil || at.Host != "" || at.Scheme != "" || at.Path != "/ui" && !strings.HasPrefix(at.Path, "/ui/") || strings.Contains(at.Path, "..") || strings.Contains(at.Path, "//") || strings.ContainsAny(got, "\\\r\n") {
			t.Errorf("%q leads to %q", s, got)
		}
	})
}

// TestB07AWrongAnswerIsRemoved by its entry, by the request that it answered, or with all others; a missing entry is reported.
func TestB07AWrongAnswerIsRemoved(t *testing.T) {
	l := newLab(t)
	id, secret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	fill := func() {
		for n := range 3 {
			cachetest.Finish(l.answers.Ticket(id, cachetest.Key(n), cache.Format{Dialect: "openai"}, cachetest.Everything, time.Hour), "x", "m")
		}
	}
	l.request("req_hit", id, func(r *record.Request) { r.Cache, r.CacheEntry = "hash", cachetest.Key(1).ID() })
	count := func() int {
		listing, err := l.answers.List(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return listing.Count
	}
	for _, secret := range []string{secret, operatorToken} {
		b := l.loggedIn(secret)
		fill()
		if got := b.get("/ui/cache?key=" + string(id)); !strings.Contains(got.body, cachetest.Key(1).ID()) {
			t.Error("the entry is not shown")
		}
		for _, row := range []struct {
			form url.Values
			to   string
			left int
		}{
			{url.Values{"request": {"req_hit"}}, "/ui/requests/req_hit?done=removed", 2},
			{url.Values{"request": {"req_hit"}}, "/ui/requests/req_hit?done=gone", 2},
			{url.Values{"id": {cachetest.Key(0).ID()}}, "/ui/cache?key=" + string(id) + "&done=removed", 1},
			{url.Values{"all": {"yes"}}, "/ui/cache?key=" + string(id) + "&done=cleared", 0},
		} {
			row.form.Set("key", string(id))
			if got := b.change("/ui/cache/delete", row.form); got.status != http.StatusSeeOther || got.header.Get("Location") != row.to || count() != row.left {
				t.Errorf("%v: %d to %s, %d are left", row.form, got.status, got.header.Get("Location"), count())
			}
		}
		if got := b.change("/ui/cache/delete", url.Values{"key": {string(id)}}); got.status != http.StatusBadRequest {
			t.Errorf("nothing to delete: %d", got.status)
		}
	}
	_, reader := l.key(ledger.KeyRow{Name: "reader", Tier: policy.TierPro, ReadOnly: true}, 0)
	b := l.loggedIn(reader)
	own, ok, err := l.books.Key(t.Context(), l.lastKey())
	if err != nil || !ok {
		t.Fatal(err)
	}
	if got := b.change("/ui/cache/delete", url.Values{"key": {string(own.ID)}, "all": {"yes"}}); got.status != http.StatusForbidden {
		t.Errorf("a key that may only read deletes: %d", got.status)
	}
}

// lastKey is the newest key.
func (l *lab) lastKey() policy.Account {
	l.t.Helper()
	keys, err := l.books.Keys(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return keys[len(keys)-1].ID
}

// TestB07KeysAreMadeLimitedAndRevoked: the secret is shown once and logs in; errors in the form are shown beside its fields.
func TestB07KeysAreMadeLimitedAndRevoked(t *testing.T) {
	l := newLab(t)
	b := l.loggedIn(operatorToken)
	got := b.change("/ui/keys", url.Values{"name": {"carol"}, "tier": {"golem"}, "balance": {"2.50"}, "day": {"1"}, "month": {"10.000001"}, "rpm": {"7"}})
	secret := regexp.MustCompile(`bardo_sk_[A-Za-z0-9_]+`).FindString(got.body)
	if got.status != http.StatusOK || secret == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if strings.Contains(b.get("/ui/keys").body, secret) {
		t.Error("the secret is shown again")
	}
	row, ok, err := l.books.Key(t.Context(), l.lastKey())
	if err != nil || !ok || row.Name != "carol" || row.Tier != policy.TierGolem || !row.Prepaid || row.SpendDay != policy.USD || row.SpendMonth != 10_000_001 || row.RPM != 7 {
		t.Errorf("the key is %+v, %v", row, err)
	}
	carol := l.loggedIn(secret)
	for _, form := range []url.Values{
		{"name": {""}, "tier": {"pro"}},
		{"name": {"x\ny"}, "tier": {"pro"}},
		{"name": {strings.Repeat("x", 101)}, "tier": {"pro"}},
		{"name": {"x"}, "tier": {"gold"}},
		{"name": {"x"}, "tier": {"pro"}, "balance": {"much"}},
		{"name": {"x"}, "tier": {"pro"}, "day": {"-1"}},
		{"name": {"x"}, "tier": {"pro"}, "rpm": {"1.5"}},
		{"name": {"x"}, "tier": {"pro"}, "project": {"none"}},
	} {
		if got := b.change("/ui/keys", form); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, `role="alert"`) {
			t.Errorf("%v: %d", form, got.status)
		}
	}
	at := "/ui/keys/" + string(row.ID)
	if got := b.change(at+"/limits", url.Values{"day": {""}, "month": {"3"}, "rpm": {"0"}}); got.status != http.StatusSeeOther {
		t.Errorf("limits: %d", got.status)
	}
	if row, _, _ = l.books.Key(t.Context(), row.ID); row.SpendDay != 0 || row.SpendMonth != 3*policy.USD || row.RPM != policy.Unlimited {
		t.Errorf("the limits are %+v", row)
	}
	if got := b.change(at+"/limits", url.Values{"day": {"x"}}); got.status != http.StatusBadRequest {
		t.Errorf("a bad limit: %d", got.status)
	}
	if got := b.change(at+"/revoke", url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("revoke: %d", got.status)
	}
	if got := carol.get("/ui"); got.status != http.StatusSeeOther {
		t.Errorf("with the revoked key: %d", got.status)
	}
	if got := b.change(at+"/limits", url.Values{"day": {"1"}}); got.status != http.StatusBadRequest {
		t.Errorf("limits of a revoked key: %d", got.status)
	}
	if got := b.change("/ui/keys/none/revoke", url.Values{}); got.status != http.StatusNotFound {
		t.Errorf("revoke an unknown key: %d", got.status)
	}
}

// TestB07ProvidersAreShownAndSwitched: problems of the operator's accounts are shown to the operator only.
func TestB07ProvidersAreShownAndSwitched(t *testing.T) {
	l := newLab(t)
	_, secret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	operator, key := l.loggedIn(operatorToken), l.loggedIn(secret)
	if got := operator.get("/ui/providers").body; !strings.Contains(got, "credential refused") || !strings.Contains(got, "401 from") || !strings.Contains(got, "1 down") {
		t.Errorf("the operator sees %s", got)
	}
	if got := key.get("/ui/providers").body; strings.Contains(got, "credential") || strings.Contains(got, "401") || !strings.Contains(got, "1 down") || strings.Contains(got, "Disable") {
		t.Errorf("a key sees %s", got)
	}
	if got := operator.change("/ui/providers/alpha/disable", url.Values{}); got.status != http.StatusSeeOther || !slices.Equal(l.switched, []string{"disable alpha"}) {
		t.Errorf("%d, switched %v", got.status, l.switched)
	}
}

// TestB07TheLiveStreamShowsWhatTheViewerMaySee, and ends with its session.
func TestB07TheLiveStreamShowsWhatTheViewerMaySee(t *testing.T) {
	l := newLab(t)
	alice, secret := l.key(ledger.KeyRow{Name: "alice", Tier: policy.TierPro}, 0)
	bob, _ := l.key(ledger.KeyRow{Name: "bob", Tier: policy.TierPro}, 0)
	b := l.loggedIn(secret)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.server.URL+"/ui/live/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	next := eventsOf(t, resp)
	if name, _ := next(); name != "hello" {
		t.Fatalf("the first event is %q", name)
	}
	for id, account := range map[string]policy.Account{"req_bob": bob, "req_anonymous": ""} {
		l.feed.Publish(record.Finished{ID: id, Account: account, Status: 200})
	}
	l.feed.Publish(record.Finished{ID: "req_alice", Account: alice, Status: 503, Code: "no_provider", RequestedModel: hostile, Cost: 12, At: time.Now()})
	for {
		name, data := next()
		if name == "stats" {
			continue
		}
		var got liveRow
		if err := json.Unmarshal([]byte(data), &got); err != nil {
			t.Fatal(err)
		}
		if name != "request" || got.ID != "req_alice" || got.Mood != "bad" || got.Verdict != "503 no_provider" || got.Requested != hostile || got.Cost != "$0.000012" {
			t.Errorf("%s %s", name, data)
		}
		break
	}
	if err := l.books.RevokeKey(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	for {
		if name, _ := next(); name == "" {
			return
		}
	}
}
