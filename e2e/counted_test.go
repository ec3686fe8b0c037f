package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// loudly is quick with the debug log, in which every request has a line.
const loudly = quick + "telemetry: {log_level: debug}\n"

// logged is the log's line about one request.
type logged struct {
	Msg, Request, Operation, Error string
	Status                         int
}

// loggedAs waits for a request's line in the log.
func loggedAs(t *testing.T, g *gateway.Gateway, id string) (l logged) {
	t.Helper()
	eventually(t, "the log's line of "+id, func() bool {
		for line := range strings.Lines(g.Log()) {
			l = logged{}
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "request" && l.Request == id {
				return true
			}
		}
		return false
	})
	return l
}

// counted is how a request has to be counted.
type counted struct {
	about     string
	call      gateway.Call
	status    int
	operation string
	watched   bool // `bardo watch` shows it
}

// check sends the request and looks at the metrics, the log and `bardo watch`.
func (c *counted) check(t *testing.T, g *gateway.Gateway, w *watching) {
	t.Helper()
	by := []string{fmt.Sprintf("gen_ai_operation_name=%q", c.operation)}
	total := []string{fmt.Sprintf(`status="%d"`, c.status)}
	before := g.Metrics(t)
	got := g.Do(t, c.call)
	if got.Status != c.status {
		t.Fatalf("%d: %s", got.Status, got.Body)
	}
	id := got.Header.Get("X-Request-Id")
	if l := loggedAs(t, g, id); l.Status != c.status || l.Operation != c.operation {
		t.Errorf("logged as %+v", l)
	}
	after := g.Metrics(t)
	if n := after.Sum("bardo_requests_total", total...) - before.Sum("bardo_requests_total", total...); n != 1 {
		t.Errorf("%v requests were counted with status %d", n, c.status)
	}
	const durations = "gen_ai_server_request_duration_seconds_count"
	if n := after.Sum(durations, by...) - before.Sum(durations, by...); n != 1 {
		t.Errorf("%v requests were counted as %s", n, c.operation)
	}
	if n := after.Sum("bardo_requests_total", `status="499"`) + after.Sum("bardo_requests_total", `code="client_closed"`); n != 0 {
		t.Errorf("%v clients are said to have disconnected", n)
	}
	if c.watched {
		w.sees(t, id, fmt.Sprintf(`"status":%d`, c.status), fmt.Sprintf(`"operation":%q`, c.operation), `"outcome":"ok"`)
	}
}

// TestEveryAnswerIsCountedAsWhatItWas: token counts, explanations, look-ups and what the cache answers are complete answers, and
// none of them is a completion of a model.
func TestEveryAnswerIsCountedAsWhatItWas(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	up := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: loudly, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: models("m", "")}, {ID: "anthropic", Fake: up},
	}})
	w := watch(t, g, "--json")
	awaitWatched(t, g, w)
	openai, claude, gemini := ask{dialect: fake.OpenAI, model: "m"}, ask{dialect: fake.Anthropic, model: "m"}, ask{dialect: fake.Gemini, model: "m"}
	at := func(c gateway.Call, path string) gateway.Call { c.Path = path; return c }
	counts := at(gateway.Call{Body: strings.Replace(claude.body(), `"max_tokens":100,`, "", 1)}, "/v1/messages/count_tokens")
	upstream := counts
	upstream.Body = strings.Replace(upstream.Body, `"m"`, `"claude-sonnet-4-5"`, 1)
	upstream.Header = []string{"anthropic-version: 2023-06-01"}
	deterministic := ask{dialect: fake.OpenAI, model: "m", more: `"temperature":0`}
	rows := []counted{
		{"a token count", counts, 200, "count_tokens", true},
		{"a token count of Responses", gateway.Call{Path: "/v1/responses/input_tokens", Body: `{"model":"m","input":"hi"}`}, 200, "count_tokens", true},
		{"a token count of Gemini", at(gemini.call(), "/v1beta/models/m:countTokens"), 200, "count_tokens", true},
		{"a token count by the provider", upstream, 200, "count_tokens", true},
		{"an explanation", openai.call("X-Bardo-Route: explain"), 200, "explain", true},
		{"an explanation in words", claude.call("X-Bardo-Route: explain", "Accept: text/plain"), 200, "explain", true},
		{"a completion", deterministic.call(), 200, "chat", true},
		{"the same, stored", deterministic.call(), 200, "chat", true},
		{"the same, stored, as a stream", ask{dialect: fake.OpenAI, model: "m", more: `"temperature":0`, stream: true}.call("X-Bardo-Replay: fast"), 200, "chat", true},
		{"the list of models", gateway.Call{Method: http.MethodGet, Path: "/v1/models"}, 200, "lookup", false},
		{"HEAD of the list of models", gateway.Call{Method: http.MethodHead, Path: "/v1/models"}, 200, "lookup", false},
		{"a balance", gateway.Call{Method: http.MethodGet, Path: "/v1/balance"}, 200, "lookup", false},
		{"a record that there is not", gateway.Call{Method: http.MethodGet, Path: "/v1/requests/req_none"}, 404, "lookup", false},
		{"a path that there is not", gateway.Call{Path: "/v1/nothing", Body: "{}"}, 404, "other", false},
	}
	for _, row := range rows {
		t.Run(row.about, func(t *testing.T) { row.check(t, g, w) })
	}
	t.Run("an explanation leaves no record", func(t *testing.T) {
		got := g.Do(t, openai.call("X-Bardo-Route: explain"))
		if r := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id")}); r.Status != http.StatusNotFound {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	})
}

// TestATokenCountCostsNothing: there is no charge, no usage and no record of it, by whomever it is made.
func TestATokenCountCostsNothing(t *testing.T) {
	t.Parallel()
	up := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "anthropic", Fake: up}}})
	k := g.CreateKey(t, "--name", "prepaid", "--balance-usd", "1")
	for _, header := range [][]string{{"anthropic-version: 2023-06-01"}, {"anthropic-version: 2023-06-01", "anthropic-beta: token-counting-2024-11-01"}} {
		got := g.Do(t, gateway.Call{
			Path: "/v1/messages/count_tokens", Key: k.Key, Header: header,
			Body: `{"model":"claude-sonnet-4-5","messages":[{"role":"user","content":"hi"}]}`,
		})
		if cost := got.Header.Get("X-Bardo-Cost"); got.Status != http.StatusOK || cost != "" && cost != "0.000000" {
			t.Errorf("%d, it costs %q: %s", got.Status, cost, got.Body)
		}
		if balance := got.Header.Get("X-Bardo-Balance"); balance != "" {
			t.Errorf("the balance is said to be %s", balance)
		}
		if r := g.Do(t, gateway.Call{Path: "/v1/requests/" + got.Header.Get("X-Request-Id"), Key: k.Key}); r.Status != http.StatusNotFound {
			t.Errorf("its record: %d %s", r.Status, r.Body)
		}
	}
	if n := len(up.Calls()); n != 2 {
		t.Fatalf("the provider counted %d times", n)
	}
	var use struct{ Data []used }
	get(t, g, k.Key, "/v1/usage", &use)
	if left := balanceOf(t, g, k.Key); left != 1_000_000 || len(use.Data) != 0 {
		t.Errorf("%d are left, usage %+v", left, use.Data)
	}
	if m := g.Metrics(t); m.Sum("bardo_tokens_total") != 0 || m.Sum("bardo_provider_cost_micro_usd_total") != 0 {
		t.Errorf("%v tokens are counted, for %v", m.Sum("bardo_tokens_total"), m.Sum("bardo_provider_cost_micro_usd_total"))
	}
	g.AssertSound(t)
}

// TestEveryPassedThroughAnswerIsCountedAsWhatItWas: files and batches go to a user's own key, and count with the status that came back.
func TestEveryPassedThroughAnswerIsCountedAsWhatItWas(t *testing.T) {
	t.Parallel()
	own := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: loudly + fmt.Sprintf("providers: {direct: {keys: [{provider: openai, api_key: %s, base_url: %q}]}}\n", own.Key, own.URL)})
	w := watch(t, g, "--json")
	awaitWatched(t, g, w)
	body, kind := uploadForm(t, []byte("{}\n"))
	for _, row := range []counted{
		{"an upload", gateway.Call{Path: "/v1/files", Body: body, Header: []string{kind}}, 200, "passthrough", true},
		{"a list", gateway.Call{Method: http.MethodGet, Path: "/v1/files"}, 200, "passthrough", true},
		{"a HEAD", gateway.Call{Method: http.MethodHead, Path: "/v1/files"}, 200, "passthrough", true},
	} {
		t.Run(row.about, func(t *testing.T) { row.check(t, g, w) })
	}
	t.Run("a refusal", func(t *testing.T) {
		uploaded := g.Do(t, gateway.Call{Path: "/v1/files", Body: body, Header: []string{kind}})
		file := keptAnswer(t, uploaded, "direct/openai")
		loggedAs(t, g, uploaded.Header.Get("X-Request-Id")) // and counted
		row := counted{"", gateway.Call{Path: "/v1/files/" + file.ID + "/nothing", Body: "{}"}, 404, "passthrough", true}
		row.check(t, g, w)
		if n := g.Metrics(t).Sum("bardo_requests_total", `status="404"`, `code="not_found"`); n != 1 {
			t.Errorf("%v requests were counted as not_found", n)
		}
	})
}

// TestADisconnectIsCountedAsOne: in the middle of an upload, and while a provider is asked for what it keeps, which says nothing of the
// provider's health.
func TestADisconnectIsCountedAsOne(t *testing.T) {
	t.Parallel()
	waiting := make(chan struct{}, 1)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/files") { // its models are asked for, too
			waiting <- struct{}{}
		}
		<-r.Context().Done()
	}))
	defer silent.Close()
	g := gateway.Run(t, gateway.Options{Config: loudly + fmt.Sprintf("providers: {direct: {keys: [{provider: openai, api_key: k, base_url: %q}]}}\n", silent.URL+"/v1")})
	disconnected := func(operation string) {
		t.Helper()
		eventually(t, "the end of the exchange", func() bool {
			m := g.Metrics(t)
			return m.Sum("bardo_requests_total", `status="499"`, `code="client_closed"`) > 0 &&
				m.Sum("gen_ai_server_request_duration_seconds_count", fmt.Sprintf("gen_ai_operation_name=%q", operation), `error_type="client_closed"`) == 1
		})
	}

	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", g.Key); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the request", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") == 1 })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	disconnected("chat")

	ctx, leave := context.WithCancel(soon(t))
	left := make(chan error, 1)
	go func() {
		_, err := g.Open(ctx, gateway.Call{Method: http.MethodGet, Path: "/v1/files"}) //nolint:bodyclose // there is none
		left <- err
	}()
	<-waiting
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	disconnected("passthrough")
	var states []struct {
		Provider string
		Requests int
	}
	if err := json.Unmarshal([]byte(g.Bardo(t, "providers", "--json")), &states); err != nil {
		t.Fatal(err)
	}
	if len(states) != 1 || states[0].Requests != 0 {
		t.Errorf("the provider's health counts %+v", states)
	}
}
