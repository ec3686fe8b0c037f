package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// rate sends feedback on a request.
func rate(t *testing.T, g *gateway.Gateway, key, id, body string, header ...string) gateway.Answer {
	t.Helper()
	return g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/requests/" + id + "/feedback", Key: key, Body: body, Header: header})
}

// TestFeedbackIsTheRequestsOwnCallers: the last word counts, whoever else asks finds no such request, and what is malformed is refused in the caller's format.
func TestFeedbackIsTheRequestsOwnCallers(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	own, other, reader := g.CreateKey(t, "--name", "own", "--balance-usd", "5"), g.CreateKey(t, "--name", "other"), g.CreateKey(t, "--name", "reader", "--read-only")
	var ids []string
	for i := range 2 {
		a := g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Key: own.Key, Header: []string{"X-Bardo-Tick-Type: risk_check", "X-Bardo-Regime: bear_high_vol"},
			Body: fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"tick %d"}]}`, i),
		})
		if a.Status != http.StatusOK {
			t.Fatal(a.Status, a.Body)
		}
		ids = append(ids, a.Header.Get("X-Request-Id"))
	}
	for _, body := range []string{`{"score":0.2,"reason":"too slow"}`, `{"score":1,"reason":"good \"after\" all"}`, `{"score":1,"reason":"good \"after\" all"}`} {
		a := rate(t, g, own.Key, ids[0], body)
		if a.Status != http.StatusOK || !strings.Contains(a.Body, `"request_id":"`+ids[0]+`"`) || !strings.Contains(a.Body, `"object":"request.feedback"`) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := rate(t, g, own.Key, ids[1], `{"score":0.5}`); a.Status != http.StatusOK {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	var r struct {
		Feedback struct {
			Score  json.Number
			Reason string
		}
		Task, Regime string
	}
	get(t, g, own.Key, "/v1/requests/"+ids[0], &r)
	if r.Feedback.Score != "1" || r.Feedback.Reason != `good "after" all` || r.Task != "risk_check" || r.Regime != "bear_high_vol" {
		t.Errorf("record %+v", r)
	}
	for _, c := range []struct {
		about, key, id, body, header string
		status                       int
		want                         string
	}{
		{"another key", other.Key, ids[0], `{"score":1}`, "", http.StatusNotFound, "there is no request"},
		{"a key that may only read", reader.Key, ids[0], `{"score":1}`, "", http.StatusForbidden, "read-only"},
		{"no such request", own.Key, "req_0", `{"score":1}`, "", http.StatusNotFound, "there is no request"},
		{"a score beyond 1", own.Key, ids[0], `{"score":1.5}`, "", http.StatusBadRequest, `"param":"score"`},
		{"two scores", own.Key, ids[0], `{"score":1,"score":0}`, "", http.StatusBadRequest, "twice"},
		{"an unknown member, in Anthropic's format", own.Key, ids[0], `{"score":1,"stars":5}`, "anthropic-version: 2023-06-01", http.StatusBadRequest, `"type":"error"`},
		{"no JSON", own.Key, ids[0], `score=1`, "", http.StatusBadRequest, "invalid_request"},
		{"a long body", own.Key, ids[0], `{"score":1,"reason":"` + strings.Repeat("a", 20_000) + `"}`, "", http.StatusRequestEntityTooLarge, "request_too_large"},
	} {
		var h []string
		if c.header != "" {
			h = append(h, c.header)
		}
		if a := rate(t, g, c.key, c.id, c.body, h...); a.Status != c.status || !strings.Contains(a.Body, c.want) {
			t.Errorf("%s: %d %s", c.about, a.Status, a.Body)
		}
	}
	if a := g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/requests/" + ids[0] + "/feedback", Key: own.Key}); a.Status != http.StatusBadRequest {
		t.Errorf("without a body: %d %s", a.Status, a.Body)
	}
	if a := g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/v1/requests/" + ids[0] + "/feedback", NoKey: true, Body: `{"score":1}`}); a.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", a.Status, a.Body)
	}
	const want = `[{"task":"risk_check","regime":"bear_high_vol","answers":2,"mean_score":0.75}]`
	var rows json.RawMessage
	if err := json.Unmarshal([]byte(g.Bardo(t, "feedback", "--key", own.ID, "--json")), &rows); err != nil || strings.Join(strings.Fields(string(rows)), "") != want {
		t.Errorf("bardo feedback: %s %v", rows, err)
	}
	if p.Saw("after all") || strings.Contains(g.Log(), "too slow") {
		t.Error("a reason went where it does not belong")
	}
	for _, name := range []string{"bardo.db", "bardo.db-wal"} { // its own log, and the store
		if b, err := os.ReadFile(filepath.Join(g.Home, name)); err != nil || bytes.Contains(b, []byte("too slow")) || bytes.Contains(b, []byte("after\" all")) || bytes.Contains(b, []byte(`"after" all`)) {
			t.Errorf("%s shows a reason: %v", name, err)
		}
	}
	g.AssertSound(t)
}

// TestEstimatesOfTokensFollowTheProvidersCounts: a model's estimate is corrected once some of its answers were counted, and stays labelled as one.
func TestEstimatesOfTokensFollowTheProvidersCounts(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: append(models("llama", ""), models("other", "")...)}}})
	body := func(model string, i int) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":10,"messages":[{"role":"user","content":"%d %s"}]}`, model, i, strings.Repeat("word and word ", 200))
	}
	count := func(model string) (n int) {
		t.Helper()
		a := g.Do(t, gateway.Call{Path: "/v1/messages/count_tokens", Body: body(model, 0), Header: []string{"anthropic-version: 2023-06-01"}})
		var c struct {
			N int `json:"input_tokens"`
		}
		a.JSON(t, &c)
		if a.Status != http.StatusOK || a.Header.Get("X-Bardo-Degraded") != "estimated" {
			t.Errorf("%d %s, degraded %q", a.Status, a.Body, a.Header.Get("X-Bardo-Degraded"))
		}
		return c.N
	}
	before, unknown := count("llama"), count("other")
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: before * 3 / 4, Output: 3}})
	for i := range 6 {
		a := g.Do(t, gateway.Call{Path: "/v1/messages", Body: body("llama", i), Header: []string{"anthropic-version: 2023-06-01"}})
		if a.Status != http.StatusOK {
			t.Fatal(a.Status, a.Body)
		}
	}
	if after := count("llama"); after < before*74/100 || after > before*76/100 {
		t.Errorf("%d tokens became %d", before, after)
	}
	if n := count("other"); n != unknown {
		t.Errorf("another model's %d tokens became %d", unknown, n)
	}
}
