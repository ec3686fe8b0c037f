package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// sayRaw sends bytes as they are and reads one answer. The status is closed when the connection is closed without one.
func sayRaw(t testing.TB, g *gateway.Gateway, request string) gateway.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	go func() { _, _ = io.WriteString(conn, request) }() // the answer may come before the end of a large request
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return gateway.Answer{} // no status
	}
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("%.80q: %v after %q", request, err, b)
	}
	return gateway.Answer{Status: res.StatusCode, Header: res.Header, Body: string(b)}
}

// TestRefusals: what is wrong with a request is said in JSON, in the caller's format, and costs no provider anything.
func TestRefusals(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{
		Config:    "limits: {rpm: 0, max_body_bytes: 65536}\n",
		Providers: []gateway.Provider{{ID: "p", Fake: p}},
	})
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		a := ask{dialect: d, model: "m"}
		call := func(change func(*gateway.Call)) gateway.Call {
			c := a.call()
			change(&c)
			return c
		}
		for _, row := range []struct {
			name   string
			call   gateway.Call
			status int
			code   string
			says   string
		}{
			{"a body over the limit", call(func(c *gateway.Call) { c.Body = strings.Replace(c.Body, "hi", strings.Repeat("x", 65536), 1) }), 413, "request_too_large", "65536 bytes"},
			{"a body far over the limit", call(func(c *gateway.Call) { c.Body = strings.Replace(c.Body, "hi", strings.Repeat("x", 8<<20), 1) }), 413, "request_too_large", "65536 bytes"},
			{"a compressed body", call(func(c *gateway.Call) { c.Header = append(c.Header, "content-encoding: gzip") }), 415, "unsupported_media_type", "gzip"},
			{"JSON that breaks off", call(func(c *gateway.Call) { c.Body = `{"model":"m","messages":[` }), 400, "invalid_request", "line 1, column 26"},
			{"JSON with a mistake", call(func(c *gateway.Call) { c.Body = "{\"model\":\"m\",\n \"messages\":[}" }), 400, "invalid_request", "line 2, column 14"},
			{"no JSON at all", call(func(c *gateway.Call) { c.Body = "hello" }), 400, "invalid_request", ""},
			{"a field of the wrong kind", call(func(c *gateway.Call) { c.Body = `{"model":7,"max_tokens":1,"messages":[]}` }), 400, "invalid_request", "model"},
			{"no body", call(func(c *gateway.Call) { c.Method, c.Body = http.MethodPost, "" }), 400, "invalid_request", "body"},
			{"another method", call(func(c *gateway.Call) { c.Method, c.Body = http.MethodGet, "" }), 405, "", "POST"},
			{"an unknown path", call(func(c *gateway.Call) { c.Path += "/nothing" }), 404, "not_found", "/nothing"},
		} {
			t.Run(row.name+" to "+string(d), func(t *testing.T) {
				got := g.Do(t, row.call)
				if row.code == "" { // no code was promised for it
					var e apiError
					got.JSON(t, &e)
					row.code = e.Error.Code
				}
				mustFail(t, a, got, row.status, row.code)
				if !strings.Contains(got.Body, row.says) {
					t.Errorf("it says %s, and not %q", got.Body, row.says)
				}
			})
		}
		t.Run("a body over the limit without a length to "+string(d), func(t *testing.T) {
			c := a.call()
			headers := strings.Join(append(c.Header, "Authorization: Bearer "+g.Key, "Host: h", "Content-Type: application/json", "Transfer-Encoding: chunked"), "\r\n")
			mustFail(t, a, sayRaw(t, g, fmt.Sprintf("POST %s HTTP/1.1\r\n%s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", c.Path, headers, 100_000, strings.Repeat(" ", 100_000))), 413, "request_too_large")
		})
	}
	if n := len(p.Calls()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

// TestOddClients: heads that are large, too large, old or broken.
func TestOddClients(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p}}})
	auth := "Authorization: Bearer " + g.Key + "\r\n"
	for _, row := range []struct {
		name, request string
		status        int
	}{
		{"a large header", "GET /v1/models HTTP/1.1\r\nHost: h\r\n" + auth + "X-Large: " + strings.Repeat("x", 60<<10) + "\r\n\r\n", 200},
		{"a header over the limit", "GET /v1/models HTTP/1.1\r\nHost: h\r\n" + auth + "X-Large: " + strings.Repeat("x", 120<<10) + "\r\n\r\n", 431},
		{"too many headers", "GET /v1/models HTTP/1.1\r\nHost: h\r\n" + auth + strings.Repeat("X-More: 1\r\n", 300) + "\r\n", 431},
		{"HTTP/1.0", "GET /v1/models HTTP/1.0\r\nHost: h\r\n" + auth + "\r\n", 200},
		{"no host", "GET /v1/models HTTP/1.1\r\n" + auth + "\r\n", 400},
		{"two lengths", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400},
		{"a length and chunks", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + auth + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400},
		{"an unknown coding", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + auth + "Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400},
		{"no HTTP", "hello\r\n\r\n", 400},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := sayRaw(t, g, row.request); got.Status != row.status {
				t.Errorf("%d %.300s, want %d", got.Status, got.Body, row.status)
			}
		})
	}
	// Whatever they did, others are served.
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
