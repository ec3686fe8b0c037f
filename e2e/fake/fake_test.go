package fake_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/testca"
)

const (
	chatHi = `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	msgHi  = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}`
)

func send(ctx context.Context, t *testing.T, s *fake.Server, d fake.Dialect, path, body string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	if d == fake.OpenAI {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	} else {
		req.Header.Set("X-Api-Key", s.Key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	return http.DefaultTransport.RoundTrip(req)
}

func post(t *testing.T, s *fake.Server, d fake.Dialect, body string) (int, http.Header, string) {
	t.Helper()
	path := "/chat/completions"
	if d == fake.Anthropic {
		path = "/messages"
	}
	res, err := send(t.Context(), t, s, d, path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		got = append(got, "|"+err.Error()...)
	}
	return res.StatusCode, res.Header, string(got)
}

func TestRefusesWhatTheRealProvidersRefuse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		d    fake.Dialect
		body string
		want int
		text string
	}{
		{"a plain request", fake.OpenAI, chatHi, 200, ""},
		{"an unknown parameter", fake.OpenAI, `{"model":"m","bardo":1,"messages":[{"role":"user","content":"hi"}]}`, 400, `Unknown parameter: 'bardo'.`},
		{"no messages", fake.OpenAI, `{"model":"m","messages":[]}`, 400, "empty array"},
		{"an unknown role", fake.OpenAI, `{"model":"m","messages":[{"role":"robot","content":"hi"}]}`, 400, "Supported values are"},
		{"an orphan tool message", fake.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"tool","tool_call_id":"x","content":"1"}]}`, 400, "preceeding message with 'tool_calls'"},
		{"an unanswered call", fake.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"user","content":"?"}]}`, 400, "did not have response messages: x"},
		{"an answered call", fake.OpenAI, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}]}`, 200, ""},
		{"a temperature of 3", fake.OpenAI, `{"model":"m","temperature":3,"messages":[{"role":"user","content":"hi"}]}`, 400, "decimal above maximum value"},
		{"stream options without a stream", fake.OpenAI, `{"model":"m","stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, 400, "only allowed when 'stream'"},
		{"max_tokens for a reasoner", fake.OpenAI, `{"model":"gpt-5","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`, 400, "max_completion_tokens"},
		{"an unknown model", fake.OpenAI, `{"model":"nope","messages":[{"role":"user","content":"hi"}]}`, 404, "model_not_found"},
		{"broken JSON", fake.OpenAI, `{"model":`, 400, "could not parse the JSON body"},

		{"a plain request", fake.Anthropic, msgHi, 200, ""},
		{"no max_tokens", fake.Anthropic, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, 400, "max_tokens: Field required"},
		{"an unknown parameter", fake.Anthropic, `{"model":"m","max_tokens":1,"bardo":1,"messages":[{"role":"user","content":"hi"}]}`, 400, "bardo: Extra inputs are not permitted"},
		{"a parameter without its beta flag", fake.Anthropic, `{"model":"m","max_tokens":1,"context_management":{},"messages":[{"role":"user","content":"hi"}]}`, 400, "context_management: Extra inputs are not permitted"},
		{"a system message", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"system","content":"hi"}]}`, 400, "Unexpected role"},
		{"no messages", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[]}`, 400, "at least one message"},
		{"an orphan result", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]}`, 400, "unexpected `tool_use_id`"},
		{"an unanswered call", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":"b"}]}`, 400, "without `tool_result` blocks"},
		{"an answered call", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]}`, 200, ""},
		{"two user turns in a row", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`, 200, ""},
		{"an empty text block", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":""}]}]}`, 400, "text content blocks must be non-empty"},
		{"a temperature of 2", fake.Anthropic, `{"model":"m","max_tokens":1,"temperature":2,"messages":[{"role":"user","content":"hi"}]}`, 400, "temperature: range: 0..1"},
		{"a thinking budget over max_tokens", fake.Anthropic, `{"model":"m","max_tokens":1024,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[{"role":"user","content":"hi"}]}`, 400, "must be greater than `thinking.budget_tokens`"},
		{"thinking with a temperature", fake.Anthropic, `{"model":"m","max_tokens":4096,"temperature":0.5,"thinking":{"type":"enabled","budget_tokens":2048},"messages":[{"role":"user","content":"hi"}]}`, 400, "only be set to 1 when thinking"},
		{"a signature of someone else", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"zz"},{"type":"text","text":"x"}]},{"role":"user","content":"b"}]}`, 400, "Invalid `signature`"},
		{"five cache breakpoints", fake.Anthropic, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},`, 4) + `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]}]}`, 400, "A maximum of 4 blocks with cache_control"},
		{"an unknown model", fake.Anthropic, `{"model":"nope","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, 404, `"not_found_error","message":"model: nope"`},
	} {
		t.Run(string(c.d)+" "+c.name, func(t *testing.T) {
			t.Parallel()
			s := fake.Start(t, fake.Config{Dialect: c.d, Models: []string{"m", "gpt-5"}})
			status, _, body := post(t, s, c.d, c.body)
			if status != c.want || !strings.Contains(body, c.text) {
				t.Errorf("got %d %s, want %d with %q", status, body, c.want, c.text)
			}
		})
	}
}

func TestRefusesAWrongCredentialInItsOwnFormat(t *testing.T) {
	t.Parallel()
	for d, want := range map[fake.Dialect]string{fake.OpenAI: `"code": "invalid_api_key"`, fake.Anthropic: `"type":"authentication_error","message":"invalid x-api-key"`} { //nolint:exhaustive // Gemini is tested apart
		s := fake.Start(t, fake.Config{Dialect: d})
		s.Key = "wrong-key-of-someone"
		if status, _, body := post(t, s, d, msgHi); status != http.StatusUnauthorized || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %s", d, status, body)
		}
	}
}

// events splits a stream and checks that every data line is JSON (or the terminator) and agrees with its event name.
func events(t *testing.T, stream string) []string {
	t.Helper()
	var names []string
	for ev := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data := "", ""
		for line := range strings.SplitSeq(ev, "\n") {
			switch k, v, _ := strings.Cut(line, ": "); k {
			case "event":
				name = v
			case "data":
				data = v
			default:
				t.Fatalf("line %q", line)
			}
		}
		if data == "[DONE]" {
			names = append(names, data)
			continue
		}
		var o struct{ Type, Object string }
		if err := json.Unmarshal([]byte(data), &o); err != nil {
			t.Fatalf("event %q: %v", data, err)
		}
		if o.Type != name {
			t.Fatalf("event %q carries type %q", name, o.Type)
		}
		names = append(names, name+o.Object)
	}
	return names
}

func TestStreamsHaveTheOrderOfTheRealProviders(t *testing.T) {
	t.Parallel()
	say := fake.Behaviour{
		Text: "a b", Thoughts: []fake.Thought{{Text: "hm"}},
		ToolCalls: []fake.ToolCall{{Name: "f", Args: `{"x":1}`, Pieces: 2}, {Name: "g"}},
	}
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o.Behave(say)
	_, h, body := post(t, o, fake.OpenAI, `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)
	const chunk = "chat.completion.chunk"
	if got := events(t, body); len(got) != 11 || got[9] != chunk || got[10] != "[DONE]" {
		t.Errorf("openai: %v\n%s", got, body)
	}
	if n := strings.Count(body, `"choices":[],"usage":{"prompt_tokens":`); n != 1 {
		t.Errorf("openai: %d usage chunks", n)
	}
	if !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("X-Request-Id") == "" {
		t.Errorf("openai: headers %v", h)
	}
	if _, _, plain := post(t, o, fake.OpenAI, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`); strings.Contains(plain, "usage") {
		t.Errorf("openai: usage without include_usage: %s", plain)
	}

	a := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	a.Behave(say)
	_, h, body = post(t, a, fake.Anthropic, `{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
	want := "message_start content_block_start ping content_block_delta content_block_delta content_block_stop" + // thinking
		" content_block_start content_block_delta content_block_delta content_block_stop" + // text
		" content_block_start content_block_delta content_block_delta content_block_delta content_block_stop" + // f
		" content_block_start content_block_delta content_block_stop message_delta message_stop" // g
	if got := strings.Join(events(t, body), " "); got != want {
		t.Errorf("anthropic:\n got %s\nwant %s", got, want)
	}
	if h.Get("Request-Id") == "" || h.Get("Anthropic-Ratelimit-Requests-Limit") == "" {
		t.Errorf("anthropic: headers %v", h)
	}
}

func TestBreaksOffWhereItWasTold(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		s := fake.Start(t, fake.Config{Dialect: d})
		stream := strings.Replace(msgHi, `"m",`, `"m","stream":true,`, 1)
		for _, c := range []struct {
			name      string
			br        fake.Break
			body      string
			transport bool   // no status at all
			has, not  string // in what was read
		}{
			{"reset before headers", fake.Break{Kind: fake.Reset}, stream, true, "", ""},
			{"reset after headers", fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}, stream, false, "|", "tok0"},
			{"reset after two tokens", fake.Break{Kind: fake.Reset, At: fake.AfterTokens, Tokens: 2}, stream, false, "tok1", "tok2"},
			{"close after two tokens", fake.Break{Kind: fake.Close, At: fake.AfterTokens, Tokens: 2}, stream, false, "|unexpected EOF", "tok2"},
			{"error event first", fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}, stream, false, `{"error":{`, "tok0"},
			{"error event after a token", fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 1}, stream, false, `"error":{`, "tok1"},
			{"stop after a token", fake.Break{Kind: fake.Stop, At: fake.AfterTokens, Tokens: 1}, stream, false, "tok0", "|"},
			{"close in a body", fake.Break{Kind: fake.Close, At: fake.AfterTokens}, msgHi, false, "|unexpected EOF", ""},
			{"error object in a body", fake.Break{Kind: fake.ErrorEvent, At: fake.AfterHeaders}, msgHi, false, `"error":`, "tok0"},
		} {
			t.Run(string(d)+" "+c.name, func(t *testing.T) {
				s.Behave(fake.Behaviour{Tokens: 5, Break: c.br})
				path := map[fake.Dialect]string{fake.OpenAI: "/chat/completions", fake.Anthropic: "/messages"}[d] //nolint:exhaustive // Gemini is tested apart
				res, err := send(t.Context(), t, s, d, path, c.body)
				if c.transport {
					if err == nil {
						t.Fatal("an answer came")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				got, err := io.ReadAll(res.Body)
				if err != nil {
					got = append(got, "|"+err.Error()...)
				}
				has := c.has
				if d == fake.Anthropic && has == `{"error":{` {
					has = `{"type":"error","error":{`
				}
				if !strings.Contains(string(got), has) || c.not != "" && strings.Contains(string(got), c.not) {
					t.Errorf("read %q, want %q and not %q", got, has, c.not)
				}
			})
		}
	}
}

func TestSeesThatTheCallerLeft(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	s.Behave(fake.Behaviour{Tokens: 5, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 2}})
	ctx, cancel := context.WithCancel(t.Context())
	res, err := send(ctx, t, s, fake.Anthropic, "/messages", strings.Replace(msgHi, `"m",`, `"m","stream":true,`, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	cancel()
	within, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	rs, err := s.WaitCancelled(within, 1)
	if err != nil {
		t.Fatal(err)
	}
	if rs[0].Status != http.StatusOK || rs[0].Sent == 0 || rs[0].CancelledAt.IsZero() || !strings.Contains(string(rs[0].Body), `"hi"`) {
		t.Errorf("recorded %+v", rs[0])
	}
}

func TestTakesSystemMessagesInTheMiddle(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	for _, c := range []struct {
		messages, flags string
		want            int
	}{
		{`{"role":"user","content":"hi"},{"role":"system","content":"be brief"}`, "", http.StatusOK},
		{`{"role":"user","content":"hi"},{"role":"system","content":"be brief"}`, "no date", http.StatusBadRequest},
		{`{"role":"system","content":"be brief"}`, "", http.StatusBadRequest},
		{`{"role":"user","content":"hi"},{"role":"assistant","content":"hi"},{"role":"system","content":"be brief"}`, "", http.StatusBadRequest},
		{`{"role":"user","content":"hi"},{"role":"system","content":[{"type":"tool_removal"}]}`, "", http.StatusBadRequest},
		{`{"role":"user","content":"hi"},{"role":"system","content":[{"type":"tool_removal"}]}`, "mid-conversation-tool-changes-2026-07-01", http.StatusOK},
	} {
		body := `{"model":"m","max_tokens":9,"messages":[` + c.messages + `]}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/messages", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {s.Key}, "Anthropic-Version": {"2026-10-21"}, "Anthropic-Beta": {c.flags}}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s with flags %q: %d, want %d", c.messages, c.flags, res.StatusCode, c.want)
		}
	}
}

func TestCutsArgumentsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		s := fake.Start(t, fake.Config{Dialect: d})
		s.Behave(fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "f", Args: `{"a":"日本語🦊"}`, Pieces: 11}}})
		body := map[fake.Dialect]string{fake.OpenAI: chatHi, fake.Anthropic: msgHi}[d] //nolint:exhaustive // Gemini is tested apart
		_, _, got := post(t, s, d, strings.Replace(body, "{", `{"stream":true,`, 1))
		if strings.Contains(got, "\ufffd") || strings.Contains(got, `\ufffd`) || !strings.Contains(got, "🦊") {
			t.Errorf("%s: %s", d, got)
		}
	}
}

func TestOmitsThinkingAndTakesItsSignatureBack(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	s.Behave(fake.Behaviour{Thoughts: []fake.Thought{{Text: "hidden"}}})
	for _, stream := range []string{"false", "true"} {
		head := `{"model":"m","max_tokens":2000,"stream":` + stream + `,"thinking":{"type":"adaptive","display":"omitted"},"messages":[{"role":"user","content":"a"}`
		_, _, got := post(t, s, fake.Anthropic, head+`]}`)
		if strings.Contains(got, "hidden") || !strings.Contains(got, fake.Seal("hidden")) {
			t.Errorf("got %s", got)
		}
		for signature, want := range map[string]int{fake.Seal("hidden"): http.StatusOK, fake.Sign("hidden"): http.StatusBadRequest, "EqQC": http.StatusBadRequest} {
			back := `,{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"` + signature + `"}]},{"role":"user","content":"b"}]}`
			if status, _, got := post(t, s, fake.Anthropic, head+back); status != want {
				t.Errorf("%s came back: %d %s", signature, status, got)
			}
		}
	}
}

func TestReportsTheUsageItWasGiven(t *testing.T) {
	t.Parallel()
	u := &fake.Usage{Input: 10, Cached: 20, CacheWrite5m: 30, CacheWrite1h: 40, Output: 50, Reasoning: 15}
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o.Behave(fake.Behaviour{Usage: u})
	_, _, body := post(t, o, fake.OpenAI, chatHi)
	for _, want := range []string{`"prompt_tokens": 100`, `"total_tokens": 150`, `"cached_tokens": 20`, `"reasoning_tokens": 15`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	a := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	a.Behave(fake.Behaviour{Usage: u})
	stream := strings.Replace(msgHi, `"m",`, `"m","stream":true,`, 1)
	_, _, body = post(t, a, fake.Anthropic, stream)
	for want, n := range map[string]int{
		`"input_tokens":10,"cache_creation_input_tokens":70,"cache_read_input_tokens":20`: 2,
		`"ephemeral_5m_input_tokens":30,"ephemeral_1h_input_tokens":40`:                   1,
		`"output_tokens":50,"output_tokens_details":{"thinking_tokens":15}`:               1,
	} {
		if strings.Count(body, want) != n {
			t.Errorf("%s comes %d times in %s", want, strings.Count(body, want), body)
		}
	}
	u.OnlyAtEnd = true
	if _, _, body = post(t, a, fake.Anthropic, stream); strings.Count(body, `"input_tokens":10,`) != 1 || !strings.Contains(body, `"usage":{"input_tokens":0,`) {
		t.Errorf("usage at the start: %s", body)
	}
}

func TestWaitingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitGenerations(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsAndEncodings(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		s := fake.Start(t, fake.Config{Dialect: d})
		s.Queue(fake.Behaviour{Status: 429, RetryAfter: "7", Encoding: "gzip"}, fake.Behaviour{Status: 503, Encoding: "br", Message: "brotli says no"})
		status, h, body := post(t, s, d, msgHi)
		z, err := gzip.NewReader(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v in %q", d, err, body)
		}
		plain, err := io.ReadAll(z)
		if err != nil || status != 429 || h.Get("Retry-After") != "7" || !bytes.Contains(plain, []byte("rate")) && !bytes.Contains(plain, []byte("Rate")) {
			t.Errorf("%s: %d %v %s %v", d, status, h, plain, err)
		}
		// The text stands between the three bytes of the meta-block's head and the last one.
		if _, h, body = post(t, s, d, msgHi); h.Get("Content-Encoding") != "br" || body[len(body)-1] != 3 || !strings.Contains(body, "brotli says no") {
			t.Errorf("%s: %v %q", d, h, body)
		}
		if status, _, _ = post(t, s, d, msgHi); status != http.StatusOK {
			t.Errorf("%s: the queue did not end: %d", d, status)
		}
	}
}

func TestShapesDoNotChangeTheMeaning(t *testing.T) {
	t.Parallel()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		s := fake.Start(t, fake.Config{Dialect: d})
		stream := strings.Replace(msgHi, `"m",`, `"m","stream":true,`, 1)
		for _, sh := range []fake.Shape{{Cut: 3}, {LineEnd: "\r\n", NoSpace: true}, {LineEnd: "\r"}, {Unterminated: true}} {
			s.Behave(fake.Behaviour{Tokens: 3, Shape: sh})
			_, _, body := post(t, s, d, stream)
			if sh.LineEnd != "" {
				body = strings.ReplaceAll(body, sh.LineEnd, "\n")
			}
			if !sh.Unterminated && !strings.HasSuffix(body, "\n\n") || sh.Unterminated && strings.HasSuffix(body, "\n") {
				t.Errorf("%s %+v: ends with %q", d, sh, body[len(body)-20:])
			}
			body = strings.ReplaceAll(strings.ReplaceAll(body, "data:{", "data: {"), "event:", "event: ")
			if n := len(events(t, strings.ReplaceAll(strings.ReplaceAll(body, "event:  ", "event: "), "data:[", "data: ["))); n < 5 {
				t.Errorf("%s %+v: %d events", d, sh, n)
			}
		}
		s.Behave(fake.Behaviour{Tokens: 1, TokenSize: 5 << 20})
		if _, _, body := post(t, s, d, msgHi); len(body) < 5<<20 {
			t.Errorf("%s: huge body of %d bytes", d, len(body))
		}
	}
}

func TestTLSWithItsOwnAuthority(t *testing.T) {
	t.Parallel()
	ca := testca.New(t)
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI, CA: ca})
	if !strings.HasPrefix(s.URL, "https://127.0.0.1:") {
		t.Fatal(s.URL)
	}
	if res, err := send(t.Context(), t, s, fake.OpenAI, "/chat/completions", chatHi); err == nil {
		_ = res.Body.Close()
		t.Error("an authority that nobody trusts was accepted")
	}
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca.File)
	if err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatalf("%v: no certificate in %s", err, pem)
	}
	for _, h2 := range []bool{false, true} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: h2}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/models", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.Key)
		res, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || (res.ProtoMajor == 2) != h2 {
			t.Errorf("status %d over HTTP/%d", res.StatusCode, res.ProtoMajor)
		}
		tr.CloseIdleConnections()
	}
}

func BenchmarkBenchMode(b *testing.B) {
	s := fake.Start(b, fake.Config{Dialect: fake.OpenAI, Bench: &fake.Bench{}})
	for b.Loop() {
		req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+"/chat/completions", strings.NewReader(chatHi))
		if err != nil {
			b.Fatal(err)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

func TestAnswersAToolsResult(t *testing.T) {
	t.Parallel()
	for d, bodies := range map[fake.Dialect][2]string{ //nolint:exhaustive // Gemini is tested apart
		fake.OpenAI:    {chatHi, `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"x","content":"1"}]}`},
		fake.Anthropic: {msgHi, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":"1"}]}]}`},
	} {
		s := fake.Start(t, fake.Config{Dialect: d})
		s.Behave(fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "f"}}, Answered: &fake.Behaviour{Text: "It is sunny."}})
		for i, body := range bodies {
			if _, _, got := post(t, s, d, body); strings.Contains(got, "It is sunny.") != (i == 1) {
				t.Errorf("%s: request %d got %s", d, i, got)
			}
		}
	}
}

func TestRecovers(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	const after = 200 * time.Millisecond
	s.Behave(fake.Behaviour{Status: 429, Recovers: after})
	for began := time.Now(); ; {
		status, _, _ := post(t, s, fake.OpenAI, chatHi)
		switch waited := time.Since(began); {
		case status == 429 && waited < 10*time.Second:
			continue
		case status != 200 || waited < after:
			t.Errorf("status %d after %s", status, waited)
		}
		break
	}
}
