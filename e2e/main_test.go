// Package e2e tests the gateway as its users meet it: the bardo program with its Envoy, called over HTTP, in front of
// fake providers. What is checked here was promised to users; how it is done inside is not looked at.
package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

func TestMain(m *testing.M) {
	code := gateway.Main(m)
	postgrestest.StopShared()
	os.Exit(code)
}

// quick is the configuration of most tests: no rate limit, and time-outs that nothing reaches, however slow the machine.
const quick = `
limits: {rpm: 0}
routing: {ping_interval: 1h, timeouts: {connect: 20s, first_token: 50s, first_token_reasoning: 50s, idle: 50s}}
`

// hasty is quick with time-outs that a test can wait for. Whatever is to be answered must come within them, on a busy machine too.
const hasty = `
limits: {rpm: 0}
routing: {ping_interval: 1h, timeouts: {connect: 5s, first_token: 3s, first_token_reasoning: 3s, idle: 3s}}
`

// soon is the context of one wait for something that must happen.
func soon(t testing.TB) context.Context {
	t.Helper()
	return within(t, polltest.Patience)
}

// within is the context of a wait that has its bound for a reason of its own.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// dayTest is more time than any test of daily sums takes.
const dayTest = 2 * time.Minute

// withinOneDay is the UTC date. It returns early enough for the test to end on that day: shortly before midnight it waits for the next day.
func withinOneDay(t testing.TB) string {
	t.Helper()
	now := time.Now()
	if left := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now); left < dayTest {
		select {
		case <-time.After(left):
		case <-t.Context().Done():
		}
	}
	return time.Now().UTC().Format(time.DateOnly)
}

// ask is a request in a client's dialect.
type ask struct {
	dialect fake.Dialect
	model   string
	stream  bool
	more    string // further members, e.g. `"temperature":1`
	say     string // the user's text; "": "hi"
	tokens  int    // limit of the answer; 0: none, or 100 for Anthropic's format, which needs one
}

func (a ask) body() string {
	say := a.say
	if say == "" {
		say = "hi"
	}
	if a.dialect == fake.Gemini {
		more := a.more
		if more != "" {
			more = "," + more
		}
		return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%q}]}]%s}`, say, more)
	}
	b := fmt.Sprintf(`{"model":%q,`, a.model)
	if a.dialect == fake.Anthropic {
		b += fmt.Sprintf(`"max_tokens":%d,`, cmp.Or(a.tokens, 100))
	} else if a.tokens > 0 {
		b += fmt.Sprintf(`"max_tokens":%d,`, a.tokens)
	}
	if a.stream {
		b += `"stream":true,`
	}
	if a.more != "" {
		b += a.more + ","
	}
	return b + fmt.Sprintf(`"messages":[{"role":"user","content":%q}]}`, say)
}

func (a ask) call(header ...string) gateway.Call {
	c := gateway.Call{Path: "/v1/chat/completions", Body: a.body(), Header: header}
	if a.dialect == fake.Gemini {
		c.Path = geminiPath(a.model, a.stream)
	}
	if a.dialect == fake.Anthropic {
		c.Path, c.Header = "/v1/messages", append([]string{"anthropic-version: 2023-06-01"}, header...)
	}
	return c
}

// text is what an answer says, read as the client of its dialect would. Anything that such a client could not read fails
// the test.
func text(t testing.TB, a ask, got gateway.Answer) string {
	t.Helper()
	switch {
	case a.dialect == fake.Gemini:
		return readGemini(t, got, a.stream).text
	case a.stream && a.dialect == fake.OpenAI:
		return openAIStream(t, got)
	case a.stream:
		return anthropicStream(t, got)
	case a.dialect == fake.OpenAI:
		var m struct {
			Choices []struct{ Message struct{ Content string } }
		}
		got.JSON(t, &m)
		if len(m.Choices) == 0 {
			t.Fatalf("no choices in %s", got.Body)
		}
		return m.Choices[0].Message.Content
	default:
		var m struct{ Content []struct{ Type, Text string } }
		got.JSON(t, &m)
		var s strings.Builder
		for _, c := range m.Content {
			s.WriteString(c.Text)
		}
		return s.String()
	}
}

// openAIStream reads chunks up to [DONE], which must come, once and last.
func openAIStream(t testing.TB, got gateway.Answer) string {
	t.Helper()
	var s strings.Builder
	done := false
	for _, ev := range got.Events(t) {
		if done {
			t.Errorf("%+v after [DONE]", ev)
		}
		if ev.Comment != "" {
			continue
		}
		if done = ev.Data == "[DONE]"; done {
			continue
		}
		var c struct {
			Object  string
			Choices []struct{ Delta struct{ Content string } }
		}
		if err := json.Unmarshal([]byte(ev.Data), &c); err != nil || c.Object != "chat.completion.chunk" {
			t.Fatalf("chunk %q: %v", ev.Data, err)
		}
		for _, ch := range c.Choices {
			s.WriteString(ch.Delta.Content)
		}
	}
	if !done {
		t.Errorf("no [DONE] in %q", got.Body)
	}
	return s.String()
}

// anthropicStream reads events; every block starts before its deltas and stops once, and message_stop comes last.
func anthropicStream(t testing.TB, got gateway.Answer) string {
	t.Helper()
	var s strings.Builder
	open, last := -1, ""
	for _, ev := range got.Events(t) {
		if ev.Comment != "" {
			continue
		}
		var e struct {
			Type  string
			Index int
			Delta struct{ Text string }
		}
		if err := json.Unmarshal([]byte(ev.Data), &e); err != nil || e.Type != ev.Name {
			t.Fatalf("event %+v: %v", ev, err)
		}
		if (last == "") != (e.Type == "message_start") || last == "message_stop" {
			t.Errorf("%s after %q", e.Type, last)
		}
		switch e.Type {
		case "content_block_start":
			open = e.Index
		case "content_block_delta", "content_block_stop":
			if open != e.Index {
				t.Errorf("%s of block %d while %d is open", e.Type, e.Index, open)
			}
			if e.Type == "content_block_stop" {
				open = -1
			}
		}
		s.WriteString(e.Delta.Text)
		last = e.Type
	}
	if last != "message_stop" {
		t.Errorf("ended with %q: %s", last, got.Body)
	}
	return s.String()
}

// apiError is an error body of either dialect.
type apiError struct {
	Type  string
	Error struct {
		Type    string
		Code    string
		Message string
	}
}

// mustFail checks a JSON error in the caller's format.
func mustFail(t testing.TB, a ask, got gateway.Answer, status int, code string) {
	t.Helper()
	if a.dialect == fake.Gemini {
		geminiFails(t, got, status, code)
		return
	}
	var e apiError
	if got.Status != status {
		t.Fatalf("status %d, want %d: %s", got.Status, status, got.Body)
	}
	if ct := got.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/json") {
		t.Errorf("content-type %q of an error", ct)
	}
	got.JSON(t, &e)
	if e.Error.Message == "" || e.Error.Type == "" || e.Error.Code != code {
		t.Errorf("got %s, want code %q", got.Body, code)
	}
	if (e.Type == "error") != (a.dialect == fake.Anthropic) {
		t.Errorf("the error is not in the caller's format: %s", got.Body)
	}
}

// record is GET /v1/requests/{id}.
type record struct {
	RequestID    string `json:"request_id"`
	Status       string
	Provider     string
	Model        string
	Attempts     int
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	Reasoning    int `json:"reasoning_tokens"`
	CostUSD      any `json:"cost_usd"`
	Attestation  string
	HTTPStatus   int    `json:"http_status"`
	Error        string `json:"error"`
	Degraded     []string
}

// recordOf waits for a request's record: keys without a balance are written behind.
func recordOf(t testing.TB, g *gateway.Gateway, got gateway.Answer) record {
	t.Helper()
	id := got.Header.Get("X-Request-Id")
	if id == "" {
		t.Fatalf("no X-Request-Id in %v", got.Header)
	}
	var r record
	eventually(t, "the record of "+id, func() bool {
		a := g.Do(t, gateway.Call{Path: "/v1/requests/" + id})
		if a.Status != http.StatusOK {
			return false
		}
		a.JSON(t, &r)
		return true
	})
	if r.RequestID != id {
		t.Errorf("record of %q says %q", id, r.RequestID)
	}
	return r
}

// eventually polls a condition that nothing announces.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	polltest.Until(t, what, ok)
}

// models gives a custom provider one model.
func models(id, upstream string) []gateway.Model {
	return []gateway.Model{{ID: id, Upstream: upstream, Price: "{input: 1, output: 2}"}}
}
