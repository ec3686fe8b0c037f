package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// realtimeLab is a gateway before OpenAI.
type realtimeLab struct {
	*gateway.Gateway
	openai *fake.Server
}

func runRealtimeLab(t *testing.T, more ...string) *realtimeLab {
	t.Helper()
	return runRealtimeLabWith(t, free+"\n"+strings.Join(more, ""))
}

// runRealtimeLabWith runs a lab with a configuration, except for its provider.
func runRealtimeLabWith(t *testing.T, config string) *realtimeLab {
	t.Helper()
	l := &realtimeLab{openai: fake.Start(t, fake.Config{Dialect: fake.OpenAI, Models: []string{"gpt-4o", "gpt-realtime", "gpt-realtime-mini"}})}
	l.Gateway = gateway.Run(t, gateway.Options{Config: config + fmt.Sprintf(`
providers:
  openai: {api_key: %s, base_url: %q}
`, l.openai.Key, l.openai.URL)})
	return l
}

// realtimeSession is a client's session.
type realtimeSession struct {
	*websocket.Conn

	t    testing.TB
	head http.Header
}

// realtimeEvent is an event of the server, as far as tests read it.
type realtimeEvent struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Code    string `json:"code"`
		Message string `json:"message"`
		EventID string `json:"event_id"`
	} `json:"error"`
	Response struct {
		ID     string         `json:"id"`
		Status string         `json:"status"`
		Usage  *realtimeUsage `json:"usage"`
	} `json:"response"`

	raw string
}

type realtimeUsage struct {
	Input   int64 `json:"input_tokens"`
	Output  int64 `json:"output_tokens"`
	Details struct {
		Text   int64 `json:"text_tokens"`
		Audio  int64 `json:"audio_tokens"`
		Cached struct {
			Text  int64 `json:"text_tokens"`
			Audio int64 `json:"audio_tokens"`
		} `json:"cached_tokens_details"`
	} `json:"input_token_details"`
	Spoken struct {
		Text  int64 `json:"text_tokens"`
		Audio int64 `json:"audio_tokens"`
	} `json:"output_token_details"`
}

// cost is what the list prices of gpt-realtime make of a usage, in millionths of a dollar, rounded up: text 4, cached 0.40, audio 32, cached 0.40; output
// 16, spoken 64.
func (u *realtimeUsage) cost() int64 {
	d := &u.Details
	tenths := 40*(d.Text-d.Cached.Text) + 4*d.Cached.Text + 320*(d.Audio-d.Cached.Audio) + 4*d.Cached.Audio + 160*u.Spoken.Text + 640*u.Spoken.Audio
	return (tenths + 9) / 10
}

// handshake opens a session; it is nil if that fails. The answer is that of the handshake.
func (l *realtimeLab) handshake(t testing.TB, path, key string, header ...string) (*websocket.Conn, gateway.Answer) {
	t.Helper()
	o := &websocket.DialOptions{HTTPHeader: http.Header{}, CompressionMode: websocket.CompressionDisabled, Subprotocols: []string{"realtime"}}
	if key != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+key)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		o.HTTPHeader.Set(name, value)
		if name == "Sec-WebSocket-Protocol" {
			o.Subprotocols = strings.Split(value, ", ")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, strings.Replace(l.URL, "http", "ws", 1)+path, o)
	if resp == nil {
		t.Fatal(err)
	}
	got := gateway.Answer{Status: resp.StatusCode, Header: resp.Header, Err: err}
	if err != nil {
		defer func() { _ = resp.Body.Close() }()
		body, _ := io.ReadAll(resp.Body) // what the library kept of it
		got.Body = string(body)
		return nil, got
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	return c, got
}

// open opens a session with gpt-realtime, and returns after session.created.
func (l *realtimeLab) open(t testing.TB, key string, header ...string) *realtimeSession {
	t.Helper()
	c, got := l.handshake(t, callRealtime, key, header...)
	if c == nil {
		t.Fatalf("%v: %s", got.Err, got.Body)
	}
	c.SetReadLimit(64 << 20)
	s := &realtimeSession{Conn: c, t: t, head: got.Header}
	s.await("session.created")
	return s
}

// send sends events.
func (s *realtimeSession) send(events ...string) {
	s.t.Helper()
	for _, e := range events {
		ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
		if err := s.Write(ctx, websocket.MessageText, []byte(e)); err != nil {
			s.t.Fatalf("sending %.100s: %v", e, err)
		}
		cancel()
	}
}

// next reads an event.
func (s *realtimeSession) next() (e realtimeEvent, err error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer cancel()
	_, b, err := s.Read(ctx)
	if err != nil {
		return e, err
	}
	e.raw = string(b)
	return e, json.Unmarshal(b, &e)
}

// await sends events, and reads until one of a type.
func (s *realtimeSession) await(kind string, events ...string) realtimeEvent {
	s.t.Helper()
	s.send(events...)
	for {
		e, err := s.next()
		if err != nil {
			s.t.Fatalf("before %s: %v", kind, err)
		}
		if e.Type == kind {
			return e
		}
	}
}

// closing reads until the session is closed, and returns the last error event and the close.
func (s *realtimeSession) closing() (last realtimeEvent, code websocket.StatusCode, reason string) {
	s.t.Helper()
	for {
		e, err := s.next()
		if err != nil {
			code = websocket.CloseStatus(err)
			return last, code, err.Error()
		}
		if e.Type == "error" {
			last = e
		}
	}
}

const (
	askRealtime  = `{"type":"response.create"}`
	turnsByHand  = `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`
	sayRealtime  = `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"Good day, how are you?"}]}}`
	callRealtime = "/v1/realtime?model=gpt-realtime"
)

// settled returns a key's balance once nothing of it is held.
func (l *realtimeLab) settled(t testing.TB, key string) int64 {
	t.Helper()
	eventually(t, "the release of what is held", func() bool { return fundsOf(t, l.Gateway, key).Held == "0.000000" })
	return balanceOf(t, l.Gateway, key)
}

// speak is an event with milliseconds of audio: a tone, or silence.
func speak(ms int, tone byte) string {
	pcm := []byte(strings.Repeat(string([]byte{tone}), ms*48))
	return fmt.Sprintf(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(pcm))
}

// TestB25RealtimeSessionsPassUnchangedAndAreCharged: events pass as they came in both directions, and each response costs what the catalog says of the usage
// in response.done, with a record of its own.
func TestB25RealtimeSessionsPassUnchangedAndAreCharged(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	s := l.open(t, key)
	if s.Subprotocol() != "realtime" || s.head.Get("X-Request-Id") == "" || s.head.Get("X-Bardo-Model") != "gpt-realtime" {
		t.Errorf("the handshake has %q, %v", s.Subprotocol(), s.head)
	}
	odd := `{ "event_id":"e1", "type" : "conversation.item.create","item":{"content":[{"text":"caf\u00e9 <&>","type":"input_text"}],"role":"user","type":"message"}, "x_new": 1.50 }`
	s.send(odd)
	if got := s.await("conversation.item.done"); !strings.Contains(got.raw, `caf\u00e9 `) {
		t.Errorf("the item came back as %s", got.raw)
	}
	var want int64
	s.send(askRealtime)
	want += s.await("response.done").Response.Usage.cost()
	s.send(sayRealtime, askRealtime) // with cached tokens
	want += s.await("response.done").Response.Usage.cost()
	s.send(speak(500, 7), speak(300, 0)) // the provider begins
	e := s.await("response.done")
	want += e.Response.Usage.cost()
	if e.Response.Usage.Details.Audio == 0 || e.Response.Usage.Details.Cached.Text == 0 {
		t.Errorf("the usage is %+v", e.Response.Usage)
	}
	if err := s.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	if paid := 5_000_000 - l.settled(t, key); paid != want {
		t.Errorf("paid %d, want %d", paid, want)
	}
	if !l.openai.Saw(odd + "\n") {
		t.Error("the provider did not get the event as it was sent")
	}
	b := billOf(t, l.Gateway, key, s.head.Get("X-Request-Id")+".3")
	if u := e.Response.Usage; micro(t, b.Cost) != u.cost() || b.Status != "ok" || b.Model != "gpt-realtime" || b.Provider != "openai" || b.UsageEstimated || !b.PriceKnown ||
		int64(b.InputTokens) != u.Input || int64(b.OutputTokens) != u.Output {
		t.Errorf("the record of the third response is %+v", b)
	}
	calls := l.openai.Calls()
	if c := calls[len(calls)-1]; c.Key() != l.openai.Key || c.RawQuery != "model=gpt-realtime" || c.Header.Get("X-Request-Id") != "" || c.Header.Get("X-Bardo-Internal-Exchange") != "" {
		t.Errorf("the provider got %s, %v", c.RawQuery, c.Header)
	}
	l.AssertSound(t)
}

// TestRealtimeHandshakesAreRefused: before the connection is upgraded, in the format of OpenAI's errors.
func TestRealtimeHandshakesAreRefused(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	poor := l.CreateKey(t, "--name", "poor", "--balance-usd", "0").Key
	rich := l.CreateKey(t, "--name", "rich", "--balance-usd", "5").Key
	for _, row := range []struct {
		name, path, key string
		header          []string
		status          int
		code            string
	}{
		{"a wrong key", callRealtime, "sk-bardo-wrong", nil, 401, "invalid_api_key"},
		{"no key", callRealtime, "", nil, 401, "invalid_api_key"},
		{"a wrong key as a subprotocol", callRealtime, "", []string{"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-wrong"}, 401, "invalid_api_key"},
		{"no money", callRealtime, poor, nil, 402, "insufficient_balance"},
		{"an unknown model", "/v1/realtime?model=nobody-x", rich, nil, 404, "model_not_found"},
		{"a model for conversations", "/v1/realtime?model=gpt-4o", rich, nil, 400, "invalid_request"},
		{"no model", "/v1/realtime", rich, nil, 400, "invalid_request"},
		{"two models", "/v1/realtime?model=gpt-realtime&model=gpt-4o", rich, nil, 400, "invalid_request"},
		{"a call", callRealtime + "&call_id=rtc_1", rich, nil, 400, "invalid_request"},
		{"a private request", callRealtime, rich, []string{"X-Bardo-Security-Class: private"}, 503, "no_private_provider"},
		{"a confidential request", callRealtime, rich, []string{"X-Bardo-Security-Class: confidential"}, 503, "no_private_provider"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, got := l.handshake(t, row.path, row.key, row.header...)
			var e realtimeEvent
			if err := json.Unmarshal([]byte(got.Body), &e); err != nil || got.Status != row.status || e.Error.Code != row.code || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%d %s %v", got.Status, got.Body, got.Header)
			}
		})
	}
	if calls := l.openai.Calls(); len(calls) > 0 {
		t.Errorf("the provider got %d requests", len(calls))
	}
	for _, c := range []gateway.Call{
		{Path: callRealtime}, {Path: callRealtime, Header: []string{"upgrade: websocket"}}, {Path: "/v1/realtime", Method: http.MethodPost, Body: "{}"},
	} {
		if got := l.Do(t, c); got.Status != 400 && got.Status != 405 || !strings.Contains(got.Body, `"error"`) {
			t.Errorf("%+v: %d %s", c, got.Status, got.Body)
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/models", "/ui", "/mcp", "/healthz"} { // no other route is upgraded
		if _, got := l.handshake(t, path, rich); got.Status != http.StatusForbidden {
			t.Errorf("%s: %d", path, got.Status)
		}
	}
	l.AssertSound(t)
}

// TestRealtimeBrowsersSendTheirKeyAsASubprotocol: they cannot set headers. The key is not sent on, nor returned.
func TestRealtimeBrowsersSendTheirKeyAsASubprotocol(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	s := l.open(t, "", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key."+key, "Origin: https://app.example")
	s.send(askRealtime)
	cost := s.await("response.done").Response.Usage.cost()
	_ = s.CloseNow()
	if paid := 5_000_000 - l.settled(t, key); paid != cost {
		t.Errorf("paid %d, want %d", paid, cost)
	}
	calls := l.openai.Calls()
	if h := calls[0].Header; strings.Contains(fmt.Sprint(h), key) || strings.Contains(fmt.Sprint(s.head), key) || h.Get("Origin") != "" {
		t.Errorf("the provider got %v, the client %v", h, s.head)
	}
}

// TestRealtimeParallelSessions: each with its own conversation, and all charged exactly.
func TestRealtimeParallelSessions(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "100").Key
	const sessions = 50
	var mu sync.Mutex
	var want int64
	var all sync.WaitGroup
	for range sessions {
		all.Go(func() {
			s := l.open(t, key)
			for range 2 {
				s.send(sayRealtime, askRealtime)
				cost := s.await("response.done").Response.Usage.cost()
				mu.Lock()
				want += cost
				mu.Unlock()
			}
			_ = s.Close(websocket.StatusNormalClosure, "")
		})
	}
	all.Wait()
	if paid := 100_000_000 - l.settled(t, key); paid != want {
		t.Errorf("paid %d, want %d", paid, want)
	}
	l.AssertSound(t)
}

// TestRealtimeSessionsEndWithTheBalance: the client gets an error event and a close, nothing more is asked of the provider, and what was used is charged.
func TestRealtimeSessionsEndWithTheBalance(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	l.openai.BehaveOn("/realtime", fake.Behaviour{Tokens: 500})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "0.42").Key // the first reservation is 0.393216
	s := l.open(t, key)
	s.send(askRealtime)
	cost := s.await("response.done").Response.Usage.cost()
	last, code, reason := s.closing()
	if last.Error.Code != "insufficient_balance" || code != websocket.StatusPolicyViolation || !strings.Contains(reason, "insufficient_balance") {
		t.Errorf("the session ended with %s, %d %s", last.raw, code, reason)
	}
	if paid := 420_000 - l.settled(t, key); paid != cost || cost < 30_000 {
		t.Errorf("paid %d, want %d", paid, cost)
	}
	l.AssertSound(t)
}

// TestRealtimeInputIsPaidFor: a key whose money does not cover what the conversation has grown to is refused before the provider has it.
func TestRealtimeInputIsPaidFor(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "0.42").Key
	s := l.open(t, key)
	long := `{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("word ", 2000) + `"}]}}`
	s.send(long)
	if last, code, _ := s.closing(); last.Error.Code != "insufficient_balance" || code != websocket.StatusPolicyViolation {
		t.Errorf("the session ended with %s, %d", last.raw, code)
	}
	if paid := 420_000 - l.settled(t, key); paid != 0 || l.openai.Saw("word word") {
		t.Errorf("paid %d, and the provider has the event: %v", paid, l.openai.Saw("word word"))
	}
}

// TestRealtimeClientsThatLeaveArePaidFor: by the usage that the provider reports when the response is cancelled, or by an estimate of what arrived.
func TestRealtimeClientsThatLeaveArePaidFor(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]fake.Behaviour{
		"reported":  {Tokens: 500, Gap: 20 * time.Millisecond},
		"estimated": {Tokens: 500, Gap: 20 * time.Millisecond, Usage: &fake.Usage{Missing: true}},
		"broken":    {Tokens: 10, Gap: 20 * time.Millisecond, Break: fake.Break{Kind: fake.Close}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := runRealtimeLab(t)
			l.openai.BehaveOn("/realtime", b)
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
			s := l.open(t, key)
			s.send(sayRealtime, askRealtime)
			for range 5 {
				s.await("response.output_audio.delta")
			}
			status := "cancelled"
			if name == "broken" {
				status = "cut"
				if last, code, _ := s.closing(); last.Error.Code != "upstream_error" || code != websocket.StatusInternalError {
					t.Errorf("the session ended with %s, %d", last.raw, code)
				}
			} else {
				_ = s.CloseNow()
			}
			paid := 5_000_000 - l.settled(t, key)
			if bill := billOf(t, l.Gateway, key, s.head.Get("X-Request-Id")+".1"); bill.Status != status || bill.UsageEstimated != (name != "reported") || bill.OutputTokens < 10 || micro(t, bill.Cost) != paid || paid < 5*(64+16) || paid > 50_000 {
				t.Errorf("paid %d by %+v", paid, bill)
			}
			l.AssertSound(t)
		})
	}
}

// TestRealtimeSlowReadersHoldTheProviderBack: the gateway does not store what a client does not read.
func TestRealtimeSlowReadersHoldTheProviderBack(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	const words, size = 400, 200 << 10 // 80 MiB
	l.openai.BehaveOn("/realtime", fake.Behaviour{Tokens: words, TokenSize: size})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "500").Key
	s := l.open(t, key)
	s.send(askRealtime)
	s.await("response.created")
	before := l.Metrics(t).Sum("process_resident_memory_bytes")
	other := l.open(t, key) // serves others meanwhile
	other.send(`{"type":"input_audio_buffer.clear"}`)
	other.await("input_audio_buffer.cleared")
	if now := l.Metrics(t).Sum("process_resident_memory_bytes"); now > before+60<<20 {
		t.Errorf("memory grew from %.0f to %.0f bytes", before, now)
	}
	n := 0
	for {
		e, err := s.next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "response.output_audio_transcript.delta" {
			n++
		}
		if e.Type == "response.done" {
			break
		}
	}
	if n != words {
		t.Errorf("%d pieces arrived, want %d", n, words)
	}
}

// TestRealtimeSessionsEndWhenTheGatewayStops: with 1001, after responses in progress.
func TestRealtimeSessionsEndWhenTheGatewayStops(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	l.openai.BehaveOn("/realtime", fake.Behaviour{Tokens: 20, Gap: 40 * time.Millisecond})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	idle, busy := l.open(t, key), l.open(t, key)
	busy.send(askRealtime)
	busy.await("response.output_audio.delta")
	if err := l.Terminate(); err != nil {
		t.Fatal(err)
	}
	busy.await("response.done")
	for _, s := range []*realtimeSession{idle, busy} {
		if last, code, _ := s.closing(); code != websocket.StatusGoingAway || last.Error.Code != "gateway_unavailable" {
			t.Errorf("the session ended with %s, %d", last.raw, code)
		}
	}
	<-l.Exited()
	if code := l.ExitCode(); code != 0 {
		t.Errorf("the gateway exited with %d", code)
	}
}

// TestRealtimeSessionsEndWithTheirKey: a revoked key has no open sessions.
func TestRealtimeSessionsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	k := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	s := l.open(t, k.Key)
	l.Bardo(t, "keys", "revoke", k.ID)
	if last, code, _ := s.closing(); last.Error.Code != "invalid_api_key" || code != websocket.StatusPolicyViolation {
		t.Errorf("the session ended with %s, %d", last.raw, code)
	}
}

// TestRealtimeSessionsFollowTheirKey: new limits of a key hold for its open sessions, and other changes end them.
func TestRealtimeSessionsFollowTheirKey(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	k := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	s := l.open(t, k.Key)
	s.await("response.done", askRealtime)
	l.Bardo(t, "keys", "update", k.ID, "--rpm", "1")
	eventually(t, "the new limit", func() bool {
		s.send(askRealtime)
		for {
			e, err := s.next()
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == "response.done" || e.Type == "error" {
				return e.Error.Code == "rate_limit_exceeded"
			}
		}
	})
	l.Bardo(t, "keys", "update", k.ID, "--model", "gpt-4o")
	if last, code, _ := s.closing(); last.Error.Code != "key_restricted" || code != websocket.StatusPolicyViolation {
		t.Errorf("the session ended with %s, %d", last.raw, code)
	}
	l.settled(t, k.Key)
	l.AssertSound(t)
}

// TestRealtimeMessagesCountAsBodies: sessions and requests share the memory of bodies. A message without room ends its session, and the others go on.
func TestRealtimeMessagesCountAsBodies(t *testing.T) {
	t.Parallel()
	l := runRealtimeLabWith(t, strings.Replace(free, "{rpm: 0}", "{rpm: 0, max_inflight_body_bytes: 1048576, max_body_bytes: 900000}", 1))
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	event := func(n int) string {
		return `{"type":"input_audio_buffer.append","audio":"` + strings.Repeat("AAAA", n/4) + `"}`
	}
	holder := l.open(t, key)
	holder.send(turnsByHand)
	w, err := holder.Writer(t.Context(), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	begun := event(700_000)
	if _, err := io.WriteString(w, begun[:650_000]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the memory of a message that has begun", func() bool { return bodyBytes(t, l.Gateway) > 600_000 })
	other := l.open(t, key) // short messages need no memory of others
	other.send(speak(200, 7), event(600_000))
	if last, code, _ := other.closing(); last.Error.Code != "overloaded" || code != websocket.StatusTryAgainLater {
		t.Errorf("the session ended with %s, %d", last.raw, code)
	}
	if got := l.Chat(t, `{"model":"gpt-4o","messages":[{"role":"user","content":"`+strings.Repeat("word ", 120_000)+`"}]}`, "Authorization: Bearer "+key); got.Status != http.StatusServiceUnavailable {
		t.Errorf("a request got %d %s", got.Status, got.Body)
	}
	if _, err := io.WriteString(w, begun[650_000:]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	holder.await("response.done", askRealtime)
	if held := bodyBytes(t, l.Gateway); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	holder.send(event(900_000))
	if last, code, _ := holder.closing(); last.Error.Code != "request_too_large" || code != websocket.StatusMessageTooBig {
		t.Errorf("the session ended with %s, %d", last.raw, code)
	}
	l.settled(t, key)
	l.AssertSound(t)
}

// TestRealtimeEventsAreRefused: the provider does not get them, and the session goes on.
func TestRealtimeEventsAreRefused(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	s := l.open(t, l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key)
	s.send(`{"type":"session.update","event_id":"e7","session":{"type":"realtime","audio":{"input":{"transcription":{"model":"whisper-1"}}}}}`)
	if e := s.await("error"); e.Error.EventID != "e7" || e.Error.Code != "invalid_request" || e.Error.Type != "invalid_request_error" || l.openai.Saw("whisper-1") {
		t.Errorf("%s", e.raw)
	}
	s.send(turnsByHand)
	s.await("session.updated")
	s.send(speak(200, 7), speak(200, 0), `{"type":"input_audio_buffer.clear"}`) // no response begins
	s.await("input_audio_buffer.cleared")
	if err := s.Write(t.Context(), websocket.MessageBinary, []byte{1}); err != nil {
		t.Fatal(err)
	}
	if _, code, _ := s.closing(); code != websocket.StatusUnsupportedData {
		t.Errorf("a binary message ended the session with %d", code)
	}
}

// TestRealtimeIsRefusedWhereRequestsMustBeProtected: no uninspected or unchanged way leads around a policy. The error says which policy it is, and what to do.
func TestRealtimeIsRefusedWhereRequestsMustBeProtected(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t, `
pipeline:
  guardrails:
    - {name: dlp, url: "http://127.0.0.1:1/x", when: [request], keys: [inspected]}
    - {name: out, url: "http://127.0.0.1:1/x", when: [response], keys: [answers]}
    - {name: seen, url: "http://127.0.0.1:1/x", when: [request, response], shadow: true, keys: [recorded]}
  firewall:
    rules:
      - {id: few, allow: [price], keys: [fenced]}
      - {id: seen, allow: [price], keys: [recorded], shadow: true}
      - {id: flagged, allow: [price], keys: [recorded], on_violation: flag}
`)
	for _, row := range []struct {
		key    string
		flags  []string // of its key
		header string
		status int
		code   string
		hint   string // "": the session is opened
	}{
		{"masked", []string{"--pii", "mask"}, "", 403, "key_restricted", "personal data has to be masked (pipeline.pii.policy, the key's --pii"},
		{"blocked", []string{"--pii", "block"}, "", 403, "key_restricted", "personal data has to be refused (pipeline.pii.policy"},
		{"injection", []string{"--injection", "block"}, "", 403, "key_restricted", "the key's --injection"},
		{"quarantine", []string{"--injection", "quarantine"}, "", 403, "key_restricted", "the key's --injection"},
		{"inspected", nil, "", 403, "key_restricted", "the guardrail dlp has to inspect them (pipeline.guardrails)"},
		{"answers", nil, "", 403, "key_restricted", "the guardrail out has to inspect them (pipeline.guardrails)"},
		{"fenced", nil, "", 403, "key_restricted", "rules for tools have to be enforced (pipeline.firewall"},
		{"confidential", nil, "X-Bardo-Security-Class: confidential", 503, "no_private_provider", "X-Bardo-Security-Class"},
		{"tier", nil, "X-Bardo-Privacy-Tier: private", 503, "no_private_provider", "X-Bardo-Privacy-Tier"},
		{"recorded", []string{"--pii", "detect", "--injection", "flag"}, "", 101, "", ""},
	} {
		t.Run(row.key, func(t *testing.T) {
			key := l.CreateKey(t, append([]string{"--name", row.key, "--balance-usd", "5"}, row.flags...)...).Key
			var header []string
			if row.header != "" {
				header = append(header, row.header)
			}
			c, got := l.handshake(t, callRealtime, key, header...)
			if row.hint == "" {
				if c == nil {
					t.Errorf("%d %s", got.Status, got.Body)
				}
				return
			}
			var e realtimeEvent
			if err := json.Unmarshal([]byte(got.Body), &e); err != nil || got.Status != row.status || e.Error.Code != row.code || e.Error.Type == "" || got.Header.Get("X-Request-Id") == "" {
				t.Errorf("%d %s %v", got.Status, got.Body, got.Header)
			}
			if !strings.Contains(e.Error.Message, row.hint) || !strings.Contains(strings.ToLower(e.Error.Message), "call another endpoint") {
				t.Errorf("the error has no hint %q: %s", row.hint, e.Error.Message)
			}
			if paid := 5_000_000 - l.settled(t, key); paid != 0 {
				t.Errorf("paid %d", paid)
			}
		})
	}
	if calls := l.openai.Calls(); len(calls) != 1 {
		t.Errorf("the provider got %d handshakes, want that of the recorded key", len(calls))
	}
}

// TestRealtimeIsRefusedWhereTheConfigurationProtects: the policies of the file are those of keys without their own.
func TestRealtimeIsRefusedWhereTheConfigurationProtects(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ config, hint string }{
		"mask":  {"pipeline: {pii: {policy: mask}}\n", "pipeline.pii.policy"},
		"block": {"pipeline: {injection: {documents: block}}\n", "pipeline.injection"},
		"rules": {"pipeline: {firewall: {rules: [{id: none, allow: []}]}}\n", "pipeline.firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := runRealtimeLab(t, row.config)
			_, got := l.handshake(t, callRealtime, l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key)
			if got.Status != http.StatusForbidden || !strings.Contains(got.Body, `"key_restricted"`) || !strings.Contains(got.Body, row.hint) || len(l.openai.Calls()) > 0 {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
}

// realtimePair are two providers of gpt-realtime, in this order; both are private.
func realtimePair(t *testing.T) (configured []gateway.Provider, providers [2]*fake.Server) {
	t.Helper()
	for i, id := range [...]string{"one", "two"} {
		providers[i] = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: id})
		configured = append(configured, gateway.Provider{ID: id, Fake: providers[i], More: "private: true", Models: []gateway.Model{{
			ID: "gpt-realtime", Price: "{input: 4, cached_input: 0.4, output: 16, audio_input: 32, cached_audio: 0.4, audio_output: 64}",
			More: "context: 32000, max_output: 4096, capabilities: [realtime]",
		}}})
	}
	return configured, providers
}

// TestRealtimeIsRefusedToPrivateRequests: also where a private provider has realtime sessions.
func TestRealtimeIsRefusedToPrivateRequests(t *testing.T) {
	t.Parallel()
	configured, providers := realtimePair(t)
	l := &realtimeLab{Gateway: gateway.Run(t, gateway.Options{Config: free, Providers: configured})}
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	_, got := l.handshake(t, callRealtime, key, "X-Bardo-Security-Class: private")
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"no_private_provider"`) || !strings.Contains(got.Body, "send neither X-Bardo-Security-Class") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if len(providers[0].Calls())+len(providers[1].Calls()) > 0 {
		t.Error("a provider got the handshake")
	}
	l.open(t, key)
}

// TestRealtimeSplitFailsOver: with a control plane and a pair, a provider that refuses the handshake, or cannot be reached, is replaced, and has failed.
func TestRealtimeSplitFailsOver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"refused", "unreachable", "both"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configured, providers := realtimePair(t)
			if name == "unreachable" {
				configured[0].BaseURL, configured[0].Key = "http://"+gateway.FreeAddress(t), "k"
			}
			split := gateway.RunSplit(t, gateway.Options{Config: free + "routing: {ping_interval: 1h}\n", Providers: configured})
			l := &realtimeLab{Gateway: split.Gateway}
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
			if name == "unreachable" {
				s := l.open(t, key)
				if by := s.head.Get("X-Bardo-Provider"); by != "two" {
					t.Errorf("served by %q", by)
				}
				return
			}
			providers[0].BehaveOn("/realtime", fake.Behaviour{Status: 503})
			if name == "both" {
				providers[1].BehaveOn("/realtime", fake.Behaviour{Status: 503})
				_, got := l.handshake(t, callRealtime, key)
				if got.Status != http.StatusBadGateway && got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, `"error"`) {
					t.Errorf("%d %s", got.Status, got.Body)
				}
				if paid := 5_000_000 - l.settled(t, key); paid != 0 {
					t.Errorf("paid %d", paid)
				}
				return
			}
			var id string
			for range 6 { // as many as make a provider fail
				s := l.open(t, key)
				if by := s.head.Get("X-Bardo-Provider"); by != "two" {
					t.Fatalf("served by %q", by)
				}
				s.send(askRealtime)
				s.await("response.done")
				_ = s.Close(websocket.StatusNormalClosure, "")
				id = s.head.Get("X-Request-Id")
			}
			b := billOf(t, l.Gateway, key, id+".1")
			if b.Provider != "two" || b.Status != "ok" {
				t.Errorf("%+v", b)
			}
			if l.Metrics(t).Sum("bardo_attempts_total", `provider="one"`) == 0 {
				t.Error("no failed attempt is counted")
			}
			l.settled(t, key)
			split.AssertSound(t)
		})
	}
}

// TestRealtimeProvidersThatBreakHaveFailed: in their health, which avoids them after some of it, and in the record of the response. The client gets 1011 and an
// error event; what was used is charged.
func TestRealtimeProvidersThatBreakHaveFailed(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]fake.BreakKind{"without a close": fake.Close, "with 1011": fake.ErrorEvent} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			configured, providers := realtimePair(t)
			l := &realtimeLab{Gateway: gateway.Run(t, gateway.Options{Config: free + "routing: {ping_interval: 1h}\n", Providers: configured})}
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
			providers[0].BehaveOn("/realtime", fake.Behaviour{Tokens: 10, Break: fake.Break{Kind: kind}})
			var paid int64
			for range 20 {
				s := l.open(t, key)
				if s.head.Get("X-Bardo-Provider") == "two" {
					break
				}
				s.send(askRealtime)
				if last, code, _ := s.closing(); last.Error.Code != "upstream_error" || last.Error.Type == "" || code != websocket.StatusInternalError {
					t.Fatalf("the session ended with %s, %d", last.raw, code)
				}
				b := billOf(t, l.Gateway, key, s.head.Get("X-Request-Id")+".1")
				if b.Status != "cut" || b.Attempts != 1 || micro(t, b.Cost) == 0 {
					t.Fatalf("the record is %+v", b)
				}
				paid += micro(t, b.Cost)
			}
			if s := l.open(t, key); s.head.Get("X-Bardo-Provider") != "two" {
				t.Error("the provider counts as healthy")
			}
			if now := micro(t, *fundsOf(t, l.Gateway, key).Balance); now != 50_000_000-paid || paid == 0 {
				t.Errorf("the balance is %d after %d", now, paid)
			}
		})
	}
}

// TestRealtimeSessionsThatAreLeftReleaseEverything: 200 clients go away without a close, at different moments, and nothing of them remains.
func TestRealtimeSessionsThatAreLeftReleaseEverything(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	l.openai.BehaveOn("/realtime", fake.Behaviour{Tokens: 5, Gap: 5 * time.Millisecond})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1000").Key
	first := l.open(t, key)
	first.await("response.done", askRealtime)
	_ = first.Close(websocket.StatusNormalClosure, "")
	before := l.Metrics(t).Sum("go_goroutines")
	const sessions, parallel = 200, 20
	var all sync.WaitGroup
	for first := range parallel {
		all.Go(func() {
			for i := first; i < sessions; i += parallel {
				s := l.open(t, key)
				for n, event := range []string{sayRealtime, askRealtime, speak(100, 7), speak(100, 0), askRealtime} {
					if n < i%6 {
						s.send(event)
					}
				}
				if i%7 == 0 {
					s.await("response.created", askRealtime)
				}
				_ = s.CloseNow()
			}
		})
	}
	all.Wait()
	l.settled(t, key)
	eventually(t, "the end of all goroutines", func() bool { return l.Metrics(t).Sum("go_goroutines") < before+40 })
	l.AssertSound(t)
}

// TestRealtimeOutputLimitsLowerReservations: a limit of the session, once the provider has confirmed it, and one of a response.
func TestRealtimeOutputLimitsLowerReservations(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	l.openai.BehaveOn("/realtime", fake.Behaviour{Tokens: 20, Gap: 20 * time.Millisecond})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	held := func(want string) {
		t.Helper()
		eventually(t, "$"+want+" to be held", func() bool { return string(fundsOf(t, l.Gateway, key).Held) == want })
	}
	s := l.open(t, key)
	held("0.393216") // 4096 tokens of input at $32, and of output at $64
	s.send(`{"type":"session.update","session":{"type":"realtime","max_output_tokens":100}}`)
	s.await("session.updated")
	held("0.137472")
	s.send(`{"type":"response.create","response":{"conversation":"none","max_output_tokens":"inf"}}`)
	s.await("response.created")
	held("0.530688") // it, and the next one
	s.await("response.done")
	held("0.137472")
	s.send(`{"type":"session.update","session":{"type":"realtime","max_output_tokens":"inf"}}`)
	s.await("session.updated")
	held("0.393216")
	s.send(turnsByHand)
	s.await("session.updated")
	s.send(`{"type":"response.create","response":{"max_output_tokens":50}}`)
	s.await("response.created")
	held("0.527488") // it with 0.134272, and the next one
	s.await("response.done")
	_ = s.CloseNow()
	l.settled(t, key)
	l.AssertSound(t)
}

// TestRealtimeCountsInHourlyAllowances: the input of a reserved response counts, of whatever kind its tokens are.
func TestRealtimeCountsInHourlyAllowances(t *testing.T) {
	t.Parallel()
	configured, _ := realtimePair(t)
	config := strings.Replace(free, "{rpm: 0}", "{rpm: 0, tokens_per_hour: 4000}", 1) // a session holds 4096
	l := &realtimeLab{Gateway: gateway.Run(t, gateway.Options{Config: config, Providers: configured})}
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	l.open(t, key)
	if _, got := l.handshake(t, callRealtime, key); got.Status != http.StatusTooManyRequests {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestRealtimeModelsOfKeys: a key that may not use the model opens no session with it.
func TestRealtimeModelsOfKeys(t *testing.T) {
	t.Parallel()
	l := runRealtimeLab(t)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5", "--model", "gpt-4o").Key
	if _, got := l.handshake(t, callRealtime, key); got.Status != http.StatusForbidden {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// TestPrivateKeysAreNotSentInRealtimeSessions: the event is answered with an error, and the session goes on. What is only counted is in the record of the next response.
func TestPrivateKeysAreNotSentInRealtimeSessions(t *testing.T) {
	t.Parallel()
	const secret = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	item := func(text string) string {
		return fmt.Sprintf(`{"type":"conversation.item.create","event_id":"e7","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
	}
	events := []string{
		item("my private key is " + secret),
		`{"type":"session.update","event_id":"e7","session":{"type":"realtime","instructions":"the private key is ` + secret + `"}}`,
		`{"type":"response.create","event_id":"e7","response":{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"private key: ` + secret + `"}]}]}}`,
		`{"type":"conversation.item.create","event_id":"e7","item":{"type":"function_call_output","call_id":"c","output":"{\"private_key\":\"0x` + secret + `\"}"}}`,
	}
	for policy, config := range map[string]string{"detect": "", "off": "pipeline: {pii: {policy: off}}\n"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			l := runRealtimeLab(t, config)
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
			s := l.open(t, key)
			for _, event := range events {
				if policy == "off" {
					s.send(event)
					continue
				}
				if e := s.await("error", event); e.Error.Code != "secret_in_prompt" || e.Error.EventID != "e7" || strings.Contains(e.raw, secret) {
					t.Errorf("%s\nis answered with %s", event, e.raw)
				}
			}
			s.await("response.done", item("write to jane@example.org and to joe@example.org"), askRealtime)
			b := billOf(t, l.Gateway, key, s.head.Get("X-Request-Id")+".1")
			if policy == "off" {
				if !l.openai.Saw(events[0]+"\n") || strings.Contains(b.Pipeline, "l7") {
					t.Errorf("without a search: %+v", b)
				}
				return
			}
			if !strings.Contains(b.Pipeline, ";found;email=2") || b.Status != "ok" {
				t.Errorf("the record is %+v", b)
			}
			for _, event := range events {
				if l.openai.Saw(event + "\n") {
					t.Errorf("the provider got %s", event)
				}
			}
			s.await("response.done", askRealtime)
			if b := billOf(t, l.Gateway, key, s.head.Get("X-Request-Id")+".2"); strings.Contains(b.Pipeline, "email") {
				t.Errorf("the record of the next response is %+v", b)
			}
			l.AssertSound(t)
		})
	}
}
