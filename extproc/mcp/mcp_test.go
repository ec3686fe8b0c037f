package mcp

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/xds/state"
)

// transport is a fake of Envoy and the servers behind it.
type transport func(r *http.Request, body string) (status int, header, answer string)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	b, _ := io.ReadAll(r.Body)
	status, header, answer := f(r, string(b))
	h := http.Header{"Content-Type": {"application/json"}}
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h.Set(name, value)
		}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

type noMeter struct{}

func (noMeter) MCPRequest(string, string, string, time.Duration) {}

// anything are rules that allow everything.
type anything struct{}

func (anything) Offers(*Server, string) bool                                     { return true }
func (anything) Forbids(context.Context, *Server, string, bool, []byte) *Refusal { return nil }

func (anything) Refuses(*Server, string, bool, []byte, func() ([]byte, bool)) *Refusal {
	return nil
}

// handshake answers the opening of a session, and anything else by more.
func handshake(more transport) transport {
	return func(r *http.Request, body string) (int, string, string) {
		switch {
		case strings.Contains(body, `"initialize"`):
			return http.StatusOK, "Mcp-Session-Id: s1", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}}`
		case strings.Contains(body, `"notifications/`):
			return http.StatusAccepted, "", ""
		}
		return more(r, body)
	}
}

// idOf is the id of a request.
func idOf(body string) string {
	doc, err := jsonx.Scan([]byte(body))
	if err != nil {
		return "null"
	}
	return string(doc.Get("id").Raw)
}

func newGateway(f transport) *Gateway {
	c := &http.Client{Transport: f, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // as upstream.NewEgressClient
	return New(Options{Client: c, Secret: func() []byte { return []byte("secret") }, Meter: noMeter{}, Log: slog.New(slog.DiscardHandler), Version: "1"})
}

func caller(names ...string) *Caller {
	c := &Caller{Request: "req_1", Account: "key_1", Name: "n", Rules: anything{}, Secret: "s"}
	for _, name := range names {
		c.Servers = append(c.Servers, Server{Name: name, Key: name, Cluster: "mcp." + name, Host: name + ".example", Path: "/p", Header: "Authorization", Token: secret.New("t-" + name), Timeout: time.Minute})
	}
	return c
}

func post(g *Gateway, c *Caller, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, Path, strings.NewReader(body))
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.Serve(w, r, c)
	return w
}

// TestServersGetNothingOfTheClients: no header of the client, above all not its credential, but the gateway's own.
func TestServersGetNothingOfTheClients(t *testing.T) {
	t.Parallel()
	g := newGateway(handshake(func(r *http.Request, body string) (int, string, string) {
		for name := range r.Header {
			if !slices.Contains([]string{"Content-Type", "Accept", "User-Agent", "Authorization", headerSession, headerVersion, http.CanonicalHeaderKey(state.HeaderCluster), http.CanonicalHeaderKey(state.HeaderExchange)}, name) {
				t.Errorf("the server gets %s", name)
			}
		}
		if r.Header.Get("Authorization") != "Bearer t-one" || r.Header.Get(headerSession) != "s1" || r.Header.Get(headerVersion) != "2025-06-18" || r.Host != "one.example" || r.URL.Path != "/p" || r.Header.Get(state.HeaderExchange) != "s.req_1" {
			t.Errorf("%s %s %v", r.Host, r.URL, r.Header)
		}
		if strings.Contains(body, "one__") || strings.Contains(body, `"client-id"`) {
			t.Errorf("the server gets %s", body)
		}
		return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"content":[]}}`
	}))
	w := post(g, caller("one"), `{"jsonrpc":"2.0","id":"client-id","method":"tools/call","params":{"name":"one__x","arguments":{"a":1}}}`, "Authorization", "Bearer bardo_sk_x", "Cookie", "c=1", "X-Api-Key", "k", "Mcp-Param-X", "y")
	if got := w.Body.String(); got != `{"jsonrpc":"2.0","id":"client-id","result":{"content":[]}}` {
		t.Error(got)
	}
}

// TestAnswersOfServersAreReadStrictly: whatever a server answers, the client gets one response, and no header of the server's.
func TestAnswersOfServersAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		status       int
		header, body string // ID stands for the request's id
		want         string
	}{
		{200, "", `{"jsonrpc":"2.0","id":ID,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`},
		{200, "Set-Cookie: a=b", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`},
		{400, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad"}}`, `"code":-32600`},
		{200, "", `{"jsonrpc":"2.0","id":999999,"result":{}}`, `"reason":"broken_off"`},
		{200, "", `{"jsonrpc":"2.0","id":ID,"result":[]}`, `"reason":"bad_answer"`},
		{200, "", `{"jsonrpc":"2.0","id":ID,"result":{},"result":{}}`, `"reason":"bad_answer"`},
		{200, "", `<html>`, `"reason":"bad_answer"`},
		{200, "Content-Type: text/html", `{"jsonrpc":"2.0","id":ID,"result":{}}`, `"reason":"bad_answer"`},
		{500, "", `{}`, `"reason":"bad_status"`},
		{302, "Location: http://elsewhere", ``, `"reason":"bad_status"`},
		{401, "WWW-Authenticate: Bearer", `{}`, `"reason":"unauthorized"`},
		{503, state.HeaderFailure + ": no_healthy_upstream", ``, `"reason":"unreachable"`},
		{200, "Content-Type: text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"a\":1}}\n\n", `{"jsonrpc":"2.0","id":7,"result":{"a":1}}`},
		{200, "Content-Type: text/event-stream", ": x\n\nid: 1\ndata:\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}\n\n", "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/progress\"}\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n"},
		{200, "Content-Type: text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n", "\"reason\":\"broken_off\"}}}\n\n"},
		{200, "Content-Type: text/event-stream", "data: nonsense\n\n", `"reason":"bad_answer"`},
	} {
		g := newGateway(handshake(func(_ *http.Request, body string) (int, string, string) {
			return row.status, row.header, strings.ReplaceAll(row.body, "ID", idOf(body))
		}))
		w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`)
		if !strings.Contains(w.Body.String(), row.want) || w.Code != http.StatusOK || w.Header().Get("Set-Cookie")+w.Header().Get("Www-Authenticate")+w.Header().Get("Location") != "" {
			t.Errorf("%d %s: %d %v %s, want %s", row.status, row.body, w.Code, w.Header(), w.Body, row.want)
		}
	}
}

// TestAServersRequestIsRefused: the gateway has no capabilities of a client, and answers pings.
func TestAServersRequestIsRefused(t *testing.T) {
	t.Parallel()
	var got []string
	g := newGateway(handshake(func(_ *http.Request, body string) (int, string, string) {
		if !strings.Contains(body, "tools/call") {
			got = append(got, body)
			return http.StatusAccepted, "", ""
		}
		return http.StatusOK, "Content-Type: text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"sampling/createMessage\"}\n\n" +
			"data: {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":" + idOf(body) + ",\"result\":{}}\n\n"
	}))
	w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`)
	if w.Body.String() != `{"jsonrpc":"2.0","id":7,"result":{}}` || len(got) != 2 || !strings.HasPrefix(got[0], `{"jsonrpc":"2.0","id":"a","error":{"code":-32601`) || got[1] != `{"jsonrpc":"2.0","id":5,"result":{}}` {
		t.Errorf("%s, the server gets %q", w.Body, got)
	}
}

// TestListsAreBounded: in pages, in items and in bytes; malformed items are left out.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(`{"name":"t"},`, maxItems) + `{"name":"t"}`
	for _, row := range []struct{ page, want string }{
		{`{"tools":[{"name":"a","x":1},{"name":""},{"name":"b\nc"},{"name":5},5,{"name":"d","name":"e"}]}`, `{"tools":[{"name":"one__a","x":1}]}`},
		{`{"tools":[],"nextCursor":"again"}`, `"reason":"too_large"`},
		{`{"tools":[` + long + `]}`, `"reason":"too_large"`},
		{`{"tools":[{"name":"a","x":"` + strings.Repeat("x", maxList) + `"}]}`, `"reason":"too_large"`},
		{`{"tools":[{"name":"a"}],"more":"` + strings.Repeat("x", maxList) + `"}`, `"reason":"too_large"`}, // which an item keeps in memory
		{`{"tools":{}}`, `{"tools":[]}`},
	} {
		pages := 0
		g := newGateway(handshake(func(_ *http.Request, body string) (int, string, string) {
			pages++
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":` + row.page + `}`
		}))
		w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`)
		if !strings.Contains(w.Body.String(), row.want) || pages > maxPages {
			t.Errorf("%.80s: %.300s after %d pages", row.page, w.Body, pages)
		}
	}
}

// TestAQuietServerIsGivenUp, but not one that goes on sending messages.
func TestAQuietServerIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &call{server: &Server{Timeout: time.Second}}
		ctx, heard, stop := k.quietly(t.Context())
		defer stop()
		for range 5 {
			time.Sleep(900 * time.Millisecond) //nolint:forbidigo // of the bubble's clock
			heard()
		}
		if ctx.Err() != nil {
			t.Error("it is given up though it sends messages")
		}
		time.Sleep(1100 * time.Millisecond) //nolint:forbidigo // of the bubble's clock
		if f := failureOf(ctx, "x"); f.why != timedOut {
			t.Errorf("%+v", f)
		}
	})
}

// TestAServerThatDoesNotAnswerListsIsLeftOutForAWhile.
func TestAServerThatDoesNotAnswerListsIsLeftOutForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, s := newGateway(nil), &Server{Key: "k"}
		g.failed.Store("k", time.Now())
		time.Sleep(pause - time.Second) //nolint:forbidigo // of the bubble's clock
		if !g.isPaused(s) {
			t.Error("it is asked too early")
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // of the bubble's clock
		if g.isPaused(s) {
			t.Error("it is never asked again")
		}
	})
}

func TestWhoMayUseAServer(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		keys rule.Names
		want bool
	}{{nil, true}, {rule.Names{}, false}, {rule.Names{"key_1"}, true}, {rule.Names{"n"}, true}, {rule.Names{"other*"}, false}} {
		if got := (&Server{Keys: row.keys}).serves(caller()); got != row.want {
			t.Errorf("%v: %v", row.keys, got)
		}
	}
	if (&Server{Keys: rule.Names{"*"}}).serves(&Caller{}) {
		t.Error("a caller without a key matches *")
	}
}

func TestASessionsIDIsOfItsAccount(t *testing.T) {
	t.Parallel()
	g := newGateway(nil)
	id := g.newSession("a")
	if n, ok := g.session("a", id); !ok || n == (nonce{}) {
		t.Error("the session is not found")
	}
	if _, ok := g.session("b", id); ok {
		t.Error("another account has the session")
	}
	for i := range id {
		changed := []byte(id)
		changed[i] ^= 1
		if _, ok := g.session("a", string(changed)); ok {
			t.Errorf("with character %d changed it is found", i)
		}
	}
}

func TestNamesInHeaders(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"a b": "a b", "": "", " a": "=?base64?IGE=?=", "hä": "=?base64?aMOk?=", "a\r\nb": "=?base64?YQ0KYg==?=", "=?base64?x?=": "=?base64?PT9iYXNlNjQ/eD89?="} {
		got := encodeName(name)
		if back, ok := decodeName(got); got != want || back != name || !ok {
			t.Errorf("%q is %q, and %q again", name, got, back)
		}
	}
	if _, ok := decodeName("=?base64?*?="); ok {
		t.Error("a malformed value is decoded")
	}
}

// TestAPanicEndsOneRequest, also in an opening that requests share.
func TestAPanicEndsOneRequest(t *testing.T) {
	t.Parallel()
	g := newGateway(func(*http.Request, string) (int, string, string) { panic("a fault") })
	for range 2 {
		if w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`); !strings.Contains(w.Body.String(), `"reason":"bad_answer"`) {
			t.Error(w.Body)
		}
	}
}

// TestOnlyKnownCapabilitiesAreKept: a server cannot fill the memory with those of each session.
func TestOnlyKnownCapabilitiesAreKept(t *testing.T) {
	t.Parallel()
	doc, err := jsonx.Scan([]byte(`{"capabilities":{"tools":{},"x":{"y":"long"},"prompts":true,"resources":{"subscribe":true}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var l link
	if l.describe(jsonx.Value{Raw: doc.Bytes}); !slices.Equal(l.capabilities, []string{"tools", "resources"}) {
		t.Errorf("%q", l.capabilities)
	}
}

// TestTheNameInAHeaderIsThatOfTheRequest, for servers of the modern revision, which require it.
func TestTheNameInAHeaderIsThatOfTheRequest(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	g := newGateway(func(r *http.Request, body string) (int, string, string) {
		switch {
		case strings.Contains(body, `"initialize"`):
			return http.StatusBadRequest, "", ""
		case strings.Contains(body, `"server/discover"`):
			return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{"supportedVersions":["` + modern + `"],"capabilities":{}}}`
		}
		got[r.Header.Get(headerMethod)] = r.Header.Get(headerName)
		return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
	})
	c := caller("one")
	c.Single = "one"
	for _, request := range []string{
		`"method":"tools/call","params":{"name":"t"}`, `"method":"prompts/get","params":{"name":"p"}`, `"method":"resources/read","params":{"uri":"file:///r"}`,
		`"method":"completion/complete","params":{"uri":"file:///c","ref":{}}`,
	} {
		post(g, c, `{"jsonrpc":"2.0","id":7,`+request+`}`)
	}
	if want := map[string]string{"tools/call": "t", "prompts/get": "p", "resources/read": "file:///r", "completion/complete": ""}; !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNamesThatAreNoneAreNotSent.
func TestNamesThatAreNoneAreNotSent(t *testing.T) {
	t.Parallel()
	g := newGateway(func(_ *http.Request, body string) (int, string, string) {
		t.Errorf("the server gets %.100s", body)
		return http.StatusOK, "", ""
	})
	for _, method := range []string{"tools/call", "prompts/get"} {
		for _, name := range []string{"", `a\nb`, `a\u0000`, `\ud800`, strings.Repeat("x", maxName+1)} {
			if w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{"name":"one__`+name+`"}}`); !strings.Contains(w.Body.String(), "-32602") {
				t.Errorf("%s %.20q: %.200s", method, name, w.Body)
			}
		}
	}
}

// TestOnlyAClientOfTheSessionCancels: the clients of a key that have no session may use the same ids.
func TestOnlyAClientOfTheSessionCancels(t *testing.T) {
	t.Parallel()
	var g *Gateway
	c := caller("one")
	session := ""
	call := func() string {
		return post(g, c, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`, headerSession, session).Body.String()
	}
	g = newGateway(handshake(func(r *http.Request, body string) (int, string, string) {
		post(g, c, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, headerSession, session)
		if r.Context().Err() != nil {
			return http.StatusOK, "", ""
		}
		return http.StatusOK, "", `{"jsonrpc":"2.0","id":` + idOf(body) + `,"result":{}}`
	}))
	if got := call(); !strings.Contains(got, `"result":{}`) {
		t.Errorf("another client has cancelled the call: %s", got)
	}
	session = g.newSession(c.Account)
	if got := call(); !strings.Contains(got, `"error"`) {
		t.Errorf("it is not cancelled: %s", got)
	}
}

// FuzzParse: a client's message is refused, or one with an id that can be sent back.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"x":[1]},"_meta":{"progressToken":1}}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"x","result":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		if m.id != nil && jsonx.Valid(responseOf(m.id, jsonx.Raw("{}"))) != nil || m.method != "" && jsonx.Valid(appendRequest(nil, 1, m.method, m.params.Raw)) != nil {
			t.Errorf("%q becomes %q and %q", b, m.id, m.method)
		}
	})
}

// FuzzServe: whatever a server answers, the client gets one valid response to its request.
func FuzzServe(f *testing.F) {
	for _, body := range []string{`{"jsonrpc":"2.0","id":2,"result":{"content":[]}}`, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n"} {
		f.Add(body, "s", true, 200)
		f.Add(body, "", false, 404)
	}
	f.Fuzz(func(t *testing.T, body, session string, streams bool, status int) {
		header := "Mcp-Session-Id: " + strings.Map(func(r rune) rune {
			if r == '\n' {
				return -1
			}
			return r
		}, session)
		if streams {
			header += "\nContent-Type: text/event-stream"
		}
		g := newGateway(handshake(func(*http.Request, string) (int, string, string) { return 200 + (status%400+400)%400, header, body }))
		w := post(g, caller("one"), `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one__x"}}`)
		answer := w.Body.String()
		if w.Header().Get("Content-Type") == eventStream {
			events := strings.Split(strings.TrimSuffix(answer, "\n\n"), "\n\n")
			answer = strings.ReplaceAll(strings.TrimPrefix(events[len(events)-1], "event: message\ndata: "), "\ndata: ", "\n")
		}
		doc, err := jsonx.Scan([]byte(answer))
		if err != nil || string(doc.Get("id").Raw) != strconv.Itoa(7) {
			t.Errorf("%q: %v", w.Body, err)
		}
	})
}
