package xds_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/xds/state"
)

// reply is an error in either format.
type reply struct {
	Type  string
	Error struct{ Message, Type, Code string }
}

func (a answer) fault(t *testing.T) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal([]byte(a.body), &r); err != nil {
		t.Fatalf("answer %d is not JSON: %q", a.status, a.body)
	}
	if ct := a.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content-type is %q", ct)
	}
	return r
}

var formats = []struct{ path, kind string }{
	{"/v1/chat/completions", ""},
	{"/v1/messages", "error"},
	{"/v1/messages/count_tokens?beta=true", "error"},
	{"/v1/v1/messages", "error"},
	{"//v1//messages", "error"},
	{"/messages", "error"},
	{"/v1/messagesx", ""},
}

func TestWhenTheSidecarIsAwayEnvoyAnswersInTheCallersFormat(t *testing.T) {
	l := newLab(t, nil, says("good"))
	check := func(t *testing.T, headers ...string) {
		t.Helper()
		for _, f := range formats {
			a := l.in(t).post(f.path, "{}", headers...)
			r := a.fault(t)
			if a.status != 503 || r.Type != f.kind || r.Error.Code != "gateway_unavailable" || r.Error.Type != "overloaded_error" {
				t.Errorf("%s: %d %s", f.path, a.status, a.body)
			}
			if a.header.Get("Retry-After") == "" || a.header.Get("Server") != "bardo" {
				t.Errorf("%s: headers %v", f.path, a.header)
			}
		}
	}
	t.Run("it fails", func(t *testing.T) { check(t, "x-script-die", "now") })
	t.Run("it is stopped", func(t *testing.T) {
		l.sidecar.stop()
		check(t)
	})
	t.Run("it is back", func(t *testing.T) {
		l.sidecar.start(t)
		ctx := within(t, polltest.Patience)
		for {
			if a := l.in(t).post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good"); a.status == 200 {
				return
			}
			if ctx.Err() != nil {
				t.Fatal("requests still fail")
			}
		}
	})
}

func TestWhatTheSidecarAnswersIsNotRewritten(t *testing.T) {
	l := newLab(t, nil, refuses("bad", 503))
	for _, headers := range [][]string{
		{"x-script-immediate", "503"}, {"x-script-immediate", "404"}, {"x-script-immediate", "429"}, {"x-script-stream", "1"},
	} {
		if a := l.post(chatPath, "{}", headers...); a.body != "of the sidecar" {
			t.Errorf("%v: %d %q", headers, a.status, a.body)
		}
	}
	if a := l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "bad"); a.status != 503 || a.body != "no\n" {
		t.Errorf("a provider's refusal became %d %q", a.status, a.body)
	}
}

func TestARequestThatEnvoyCannotServeIsRefusedInTheCallersFormat(t *testing.T) {
	l := newLab(t, nil, says("good"), nowhere(t, "refused"))
	for _, tt := range []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"no route was chosen", nil, 404, "not_found"},
		{"no attempt had an answer", []string{"x-script-path", "json", "x-script-order", "refused,refused~retry"}, 503, "gateway_unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := l.in(t)
			for _, f := range formats {
				a := l.post(f.path, "{}", tt.headers...)
				if r := a.fault(t); a.status != tt.status || r.Type != f.kind || r.Error.Code != tt.code {
					t.Errorf("%s: %d %s", f.path, a.status, a.body)
				}
			}
		})
	}
}

func TestThePathIsOneForAllWhoDecideOnIt(t *testing.T) {
	l := newLab(t, nil, says("good"))
	for _, tt := range []struct {
		sent   string
		status int
		path   string
	}{
		{"//v1/messages", 200, "/v1/messages"},
		{"/v1/../v1/messages", 200, "/v1/messages"},
		{"/v1/%6dessages", 200, "/v1/messages"},
		{"/v1/./messages?a=b", 200, "/v1/messages?a=b"},
		{"/v1%2Fmessages", 200, "/v1/messages"},
		{"/v1/x/..%2f..%2Fv1/messages", 200, "/v1/messages"},
		{"/v1%5Cmessages", 200, "/v1/messages"},
		{"/v1/x%5c..%5Cmessages", 200, "/v1/messages"},
		{"/v1/models/a%2Fb", 200, "/v1/models/a/b"},
		{"/v1/models/a%252Fb", 200, "/v1/models/a%252Fb"},
		{"/v1/messages%00", 400, ""},
	} {
		t.Run("K-95 "+tt.sent, func(t *testing.T) {
			a := l.in(t).raw("POST " + tt.sent + " HTTP/1.1\r\nHost: x\r\nx-script-path: json\r\nx-script-order: good\r\nContent-Length: 2\r\n\r\n{}")
			if a.status != tt.status {
				t.Errorf("status is %d: %s", a.status, a.body)
			}
			if tt.path != "" && l.sidecar.last().request[":path"] != tt.path {
				t.Errorf("the sidecar saw %q", l.sidecar.last().request[":path"])
			}
		})
	}
}

// TestWhatIsNotHTTPIsAnswered: Envoy closes such a connection, and what it says before must not wait for the sidecar.
func TestWhatIsNotHTTPIsAnswered(t *testing.T) {
	l := newLab(t, nil, says("good"))
	for _, tt := range []struct {
		name, sent string
		status     int
	}{
		{"an unknown method", "FOO /v1/messages HTTP/1.1\r\nHost: x\r\n\r\n", 400},
		{"large headers", "GET /v1/models HTTP/1.1\r\nHost: x\r\nx-a: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", 431},
		{"many headers", "GET /v1/models HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("x-a: a\r\n", 300) + "\r\n", 431},
		{"no HTTP", "\x16\x03\x01\r\n\r\n", 400},
		{"an unknown coding", "POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n", 400},
		{"two lengths", "POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if a := l.in(t).raw(tt.sent); a.status != tt.status || !strings.Contains(a.body, `"code":"invalid_request"`) {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
}

func TestPitfall10AClientCannotSpeakForEnvoy(t *testing.T) {
	good := says("good")
	l := newLab(t, nil, good)
	l.post(chatPath, "{}", "x-script-path", "json", "x-script-order", "good", "x-request-id", "mine",
		"x-envoy-max-retries", "9", "x-envoy-upstream-rq-timeout-ms", "1", "x-forwarded-for", "203.0.113.9",
		state.HeaderPeer, "203.0.113.9")
	o := l.sidecar.last()
	for _, name := range []string{"x-envoy-max-retries", "x-envoy-upstream-rq-timeout-ms"} {
		if v, ok := o.request[name]; ok {
			t.Errorf("the sidecar sees the client's %s: %q", name, v)
		}
	}
	if o.request["x-request-id"] == "mine" {
		t.Error("the client chose the request id")
	}
	if peer := o.request[state.HeaderPeer]; peer != "127.0.0.1" {
		t.Errorf("the client's address is %q", peer)
	}
}

// raw sends bytes to the http listener and reads one answer.
func (l *lab) raw(text string) answer {
	l.t.Helper()
	c, err := new(net.Dialer).DialContext(within(l.t, polltest.Patience), "tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		l.t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		l.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b), err: err}
}

func TestTheEgressListenerIsForTheSidecarAlone(t *testing.T) {
	good := says("good")
	l := newLab(t, nil, good)
	for name, headers := range map[string][]string{
		"no exchange":        {state.HeaderCluster, "good"},
		"another's secret":   {state.HeaderCluster, "good", state.HeaderExchange, "fedcba9876543210.id"},
		"the secret's start": {state.HeaderCluster, "good", state.HeaderExchange, secret[:8]},
	} {
		if a := l.egress("/v1/x", "{}", headers...); a.status != 403 {
			t.Errorf("%s: status is %d", name, a.status)
		}
	}
	if n := len(good.seen.list()); n != 0 {
		t.Fatalf("the provider was asked %d times", n)
	}
	a := l.egress("/v1/x", "{}", state.HeaderCluster, "good", state.HeaderExchange, secret+".id", "X-Key", "k")
	if a.status != 200 || a.body != answered {
		t.Fatalf("answer is %d %q", a.status, a.body)
	}
	got := good.seen.list()[0]
	if got.path != "/v1/x" || got.host != "provider.example" || got.header.Get("X-Key") != "k" {
		t.Errorf("the provider got %+v", got)
	}
	for name := range got.header {
		if n := strings.ToLower(name); strings.HasPrefix(n, "x-") && n != "x-key" {
			t.Errorf("the provider sees %s: %s", n, got.header.Get(name))
		}
	}
}
