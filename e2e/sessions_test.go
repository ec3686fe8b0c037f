package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/internal/proctest"
)

// sessionReply is a session as the gateway shows it.
type sessionReply struct {
	ID        string      `json:"id"`
	Key       string      `json:"key"`
	Parent    *string     `json:"parent"`
	Golem     *string     `json:"golem_id"`
	Models    []string    `json:"models"`
	Budget    json.Number `json:"budget_usd"`
	Left      json.Number `json:"left_usd"`
	Used      json.Number `json:"used_usd"`
	Held      json.Number `json:"held_usd"`
	Below     []string    `json:"sub_sessions"`
	ExpiresAt time.Time   `json:"expires_at"`
	Over      bool        `json:"over"`
}

// sessionLab is a gateway with two models at one provider. An answer costs 1,200 millionths.
type sessionLab struct {
	*gateway.Gateway

	p     *fake.Server
	owner gateway.NewKey
}

func runSessions(t *testing.T) *sessionLab {
	t.Helper()
	l := &sessionLab{p: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}
	l.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 500, Output: 500}})
	price := "{input: 1, output: 1}"
	l.Gateway = gateway.Run(t, gateway.Options{Config: quick, Home: proctest.Dir(t), Providers: []gateway.Provider{{
		ID: "own", Fake: l.p, Models: []gateway.Model{{ID: "m", Price: price}, {ID: "n", Price: price}},
	}}})
	l.owner = l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	return l
}

func (l *sessionLab) create(t *testing.T, key, body string) (s sessionReply) {
	t.Helper()
	got := l.Do(t, gateway.Call{Path: "/v1/sessions", Key: key, Body: body})
	if got.Status != http.StatusCreated {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	got.JSON(t, &s)
	if !strings.HasPrefix(s.Key, "bardo_ss_") || !strings.HasPrefix(s.ID, "ses_") {
		t.Fatalf("%+v", s)
	}
	return s
}

func (l *sessionLab) show(t *testing.T, key, id string) (s sessionReply) {
	t.Helper()
	get(t, l.Gateway, key, "/v1/sessions/"+id, &s)
	if s.Key != "" {
		t.Error("the key is shown again")
	}
	return s
}

// say sends a request that reserves about the largest cost that max_tokens allow.
func (l *sessionLab) say(t *testing.T, key, model string, tokens int, header ...string) gateway.Answer {
	t.Helper()
	c := ask{dialect: fake.OpenAI, model: model, more: fmt.Sprintf(`"max_tokens":%d`, tokens)}.call(header...)
	c.Key = key
	return l.Do(t, c)
}

// TestC16ASessionLimitsWhatItsRequestsUseAndSpend, with its own key and with the hint.
func TestC16ASessionLimitsWhatItsRequestsUseAndSpend(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	s := l.create(t, l.owner.Key, `{"golem_id":"g7","models":["m"],"budget_usd":0.01,"expires_in":"1h"}`)
	if s.Budget != "0.010000" || s.Left != s.Budget || *s.Golem != "g7" || time.Until(s.ExpiresAt) > time.Hour {
		t.Errorf("%+v", s)
	}
	a := ask{dialect: fake.OpenAI}
	if got := l.say(t, s.Key, "m", 1000); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "0.001200" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := l.say(t, l.owner.Key, "m", 1000, "X-Bardo-Session-Id: "+s.ID); got.Status != http.StatusOK {
		t.Errorf("with the hint: %d %s", got.Status, got.Body)
	}
	polltest.Until(t, "what the requests held is free again", func() bool { return l.show(t, s.Key, s.ID).Held == "0.000000" }) // behind their answers
	if now := l.show(t, s.Key, s.ID); now.Used != "0.002400" || now.Left != "0.007600" {
		t.Errorf("%+v", now)
	}
	if left := balanceOf(t, l.Gateway, l.owner.Key); left != 5_000_000-2400 {
		t.Errorf("the account has %d", left)
	}
	calls := len(l.p.Generations())
	mustFail(t, a, l.say(t, s.Key, "m", 20_000), http.StatusTooManyRequests, "budget_exceeded")
	mustFail(t, a, l.say(t, s.Key, "n", 10), http.StatusForbidden, "key_restricted")
	mustFail(t, a, l.say(t, l.owner.Key, "n", 10, "X-Bardo-Session-Id: "+s.ID), http.StatusForbidden, "key_restricted")
	other := l.CreateKey(t, "--name", "other", "--balance-usd", "5")
	mustFail(t, a, l.say(t, other.Key, "m", 10, "X-Bardo-Session-Id: "+s.ID), http.StatusNotFound, "not_found")
	mustFail(t, a, l.say(t, s.Key+"x", "m", 10), http.StatusUnauthorized, "invalid_api_key")
	for _, path := range []string{"/v1/balance", "/v1/usage", "/v1/requests/req_1", "/v1/cache"} {
		mustFail(t, a, l.Do(t, gateway.Call{Path: path, Key: s.Key}), http.StatusForbidden, "key_restricted")
	}
	if n := len(l.p.Generations()); n != calls {
		t.Errorf("%d refused requests reached the provider", n-calls)
	}
	if got := l.say(t, l.owner.Key, "n", 10, "X-Bardo-Session-Id: a-name-of-the-clients"); got.Status != http.StatusOK {
		t.Errorf("an id of another form: %d %s", got.Status, got.Body)
	}
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/sessions/" + s.ID, Key: l.owner.Key}); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	mustFail(t, a, l.say(t, s.Key, "m", 10), http.StatusUnauthorized, "invalid_api_key")
	mustFail(t, a, l.say(t, l.owner.Key, "m", 10, "X-Bardo-Session-Id: "+s.ID), http.StatusForbidden, "key_restricted")
	l.AssertSound(t)
}

// TestK70FiveRequestsAndASessionsBudgetForOne: the reservation refuses four.
func TestK70FiveRequestsAndASessionsBudgetForOne(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	l.p.Behave(fake.Behaviour{HeaderDelay: 500 * time.Millisecond, Usage: &fake.Usage{Input: 500, Output: 500}})
	s := l.create(t, l.owner.Key, `{"budget_usd":0.002}`)
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range 5 {
		wg.Go(func() {
			got := l.say(t, s.Key, "m", 1000)
			mu.Lock()
			defer mu.Unlock()
			statuses[got.Status]++
		})
	}
	wg.Wait()
	if statuses[http.StatusOK] != 1 || statuses[http.StatusTooManyRequests] != 4 {
		t.Errorf("statuses %v", statuses)
	}
}

// TestC16SubAgentsHaveAShareOfTheirParentsBudget, over a restart, and a closed one gives back what it did not spend.
func TestC16SubAgentsHaveAShareOfTheirParentsBudget(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	a := ask{dialect: fake.OpenAI}
	top := l.create(t, l.owner.Key, `{"budget_usd":0.01,"golem_id":"g7"}`)
	for _, body := range []string{`{}`, `{"budget_usd":0.02}`} {
		mustFail(t, a, l.Do(t, gateway.Call{Path: "/v1/sessions", Key: top.Key, Body: body}), http.StatusBadRequest, "invalid_request")
	}
	sub := l.create(t, top.Key, `{"budget_usd":0.006,"models":["m"]}`)
	if sub.Parent == nil || *sub.Parent != top.ID || *sub.Golem != "g7" {
		t.Errorf("%+v", sub)
	}
	if got := l.say(t, sub.Key, "m", 1000); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	mustFail(t, a, l.say(t, top.Key, "m", 5000), http.StatusTooManyRequests, "budget_exceeded")
	mustFail(t, a, l.Do(t, gateway.Call{Path: "/v1/sessions/" + top.ID, Key: sub.Key}), http.StatusNotFound, "not_found")
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.Start(t.Context(), gateway.Options{Config: quick, Home: l.Home, NoKey: true, Providers: []gateway.Provider{{
		ID: "own", Fake: l.p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 1}"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Stop(); err != nil {
			t.Error(err)
		}
	}()
	l.Gateway = g
	if now := l.show(t, top.Key, top.ID); now.Used != "0.006000" || now.Left != "0.004000" || len(now.Below) != 1 {
		t.Errorf("after a restart %+v", now)
	}
	l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/sessions/" + sub.ID, Key: top.Key})
	if now := l.show(t, top.Key, top.ID); now.Used != "0.001200" || now.Left != "0.008800" {
		t.Errorf("after the sub-session was closed %+v", now)
	}
}

// TestC16AnAgentStoresItsState in checkpoints and a scratchpad, which nobody else reads.
func TestC16AnAgentStoresItsState(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	a := ask{dialect: fake.OpenAI}
	s := l.create(t, l.owner.Key, `{}`)
	at := "/v1/sessions/" + s.ID
	const state = `{ "tick" : 7, "note":"keep  my spaces" }`
	made := l.Do(t, gateway.Call{Path: at + "/checkpoints", Key: s.Key, Body: state})
	var c struct{ ID string }
	if made.JSON(t, &c); made.Status != http.StatusCreated || c.ID == "" {
		t.Fatalf("%d %s", made.Status, made.Body)
	}
	if got := l.Do(t, gateway.Call{Path: at + "/checkpoints/" + c.ID, Key: s.Key}); got.Body != state {
		t.Errorf("restored as %d %s", got.Status, got.Body)
	}
	if got := l.Do(t, gateway.Call{Path: at + "/checkpoints", Key: s.Key}); !strings.Contains(got.Body, c.ID) || strings.Contains(got.Body, "spaces") {
		t.Errorf("the list is %s", got.Body)
	}
	put := func(value string, status int, header ...string) gateway.Answer {
		t.Helper()
		got := l.Do(t, gateway.Call{Method: http.MethodPut, Path: at + "/scratchpad/plan", Key: s.Key, Body: value, Header: header})
		if got.Status != status {
			t.Errorf("%s %v: %d %s, want %d", value, header, got.Status, got.Body, status)
		}
		return got
	}
	first := put(`"a"`, http.StatusOK, "If-None-Match: *")
	put(`"b"`, http.StatusConflict, "If-None-Match: *")
	second := put(`"b"`, http.StatusOK, "If-Match: "+first.Header.Get("Etag"))
	put(`"c"`, http.StatusConflict, "If-Match: "+first.Header.Get("Etag"))
	put(`{`, http.StatusBadRequest)
	if got := l.Do(t, gateway.Call{Path: at + "/scratchpad/plan", Key: s.Key}); got.Body != `"b"` || got.Header.Get("Etag") != second.Header.Get("Etag") {
		t.Errorf("%s %v", got.Body, got.Header)
	}
	if got := l.Do(t, gateway.Call{Path: at + "/scratchpad", Key: s.Key}); !strings.Contains(got.Body, `{"key":"plan","version":2,"bytes":3}`) {
		t.Errorf("the list is %s", got.Body)
	}
	put(`"`+strings.Repeat("x", 65<<10)+`"`, http.StatusRequestEntityTooLarge)
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: at + "/scratchpad/plan", Key: s.Key}); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	mustFail(t, a, l.Do(t, gateway.Call{Path: at + "/scratchpad/plan", Key: s.Key}), http.StatusNotFound, "not_found")
	other, beside := l.CreateKey(t, "--name", "other"), l.create(t, l.owner.Key, `{}`)
	for _, key := range []string{other.Key, beside.Key} {
		for _, path := range []string{at, at + "/checkpoints/" + c.ID, at + "/scratchpad"} {
			mustFail(t, a, l.Do(t, gateway.Call{Path: path, Key: key}), http.StatusNotFound, "not_found")
		}
	}
	for _, body := range []string{`{"budget_usd":-1}`, `{"budget_usd":"x"}`, `{"models":"m"}`, `{"expires_in":"9000h"}`, `{"parent":7}`, `{"models":[1]}`, `{"budget":1}`, `{"budget_USD":1}`, `[`, `{"parent":"ses_x"}`} {
		if got := l.Do(t, gateway.Call{Path: "/v1/sessions", Key: l.owner.Key, Body: body}); got.Status != http.StatusBadRequest && got.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
}

// TestC16ATranscriptIsCompactedByAnOrdinaryRequest, which counts in the session's budget.
func TestC16ATranscriptIsCompactedByAnOrdinaryRequest(t *testing.T) {
	t.Parallel()
	l := runSessions(t)
	l.p.Behave(fake.Behaviour{Text: "They agreed on 7.", Usage: &fake.Usage{Input: 500, Output: 500}})
	s := l.create(t, l.owner.Key, `{"budget_usd":0.05}`)
	c := gateway.Call{Path: "/v1/sessions/" + s.ID + "/compact", Key: s.Key, Body: `{"model":"m","max_tokens":200,"messages":[{"role":"user","content":"shall it be 7?"},{"role":"assistant","content":"yes"}]}`}
	got := l.Do(t, c)
	if said := text(t, ask{dialect: fake.OpenAI}, got); said != "They agreed on 7." || got.Header.Get("X-Bardo-Subsystem") != "session_compact" {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
	last, ok := l.p.Last()
	if !ok || !strings.Contains(string(last.Body), "shall it be 7?") || !strings.Contains(string(last.Body), "Summarise the transcript") || strings.Contains(string(last.Body), "CuratorEvaluation") {
		t.Errorf("the provider got %s", last.Body)
	}
	if now := l.show(t, s.Key, s.ID); now.Used != "0.001200" {
		t.Errorf("%+v", now)
	}
	a := ask{dialect: fake.OpenAI}
	for _, c.Body = range []string{`{"messages":"x"}`, `{"messages":[],"model":7}`, `{"messages":[],"stream":true}`, `{"messages":[],"Messages":[]}`} {
		mustFail(t, a, l.Do(t, c), http.StatusBadRequest, "invalid_request")
	}
	c.Path = "/v1/sessions/ses_0/compact"
	c.Body = `{"messages":[]}`
	mustFail(t, a, l.Do(t, c), http.StatusNotFound, "not_found")
}
