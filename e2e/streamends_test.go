package e2e

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// streamToken exchanges a key for a token of the stream.
func streamToken(t *testing.T, g *gateway.Gateway, key string) string {
	t.Helper()
	var issued struct{ Token string }
	g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/venice/stream-token", Key: key}).JSON(t, &issued)
	if issued.Token == "" {
		t.Fatal("no token was issued")
	}
	return issued.Token
}

// from is a client whose connections come from another address of this machine.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	tr := &http.Transport{DialContext: d.DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// TestStreamsEndWithTheirKey: who follows events with a key that is revoked, or with a token that was issued for it, is told nothing further, in both shapes; and a token
// is for the networks of its key.
func TestStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"extproc", "module"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			g := gateway.Run(t, gateway.Options{Config: quick, DataPath: shape, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
			k := g.CreateKey(t, "--name", "k")
			calls := []gateway.Call{{Path: "/v1/events", Key: k.Key}, {Path: "/venice/stream", Key: k.Key}, {Path: "/venice/stream?token=" + streamToken(t, g, k.Key), NoKey: true}}
			var streams []io.ReadCloser
			for _, c := range calls {
				resp, err := g.Open(soon(t), c)
				if err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("%s: %v %v", c.Path, resp, err)
				}
				t.Cleanup(func() { _ = resp.Body.Close() })
				streams = append(streams, resp.Body)
			}
			g.Bardo(t, "keys", "revoke", k.ID)
			for i, s := range streams {
				if b, err := io.ReadAll(s); err != nil {
					t.Errorf("%s: %v after %d bytes", calls[i].Path, err, len(b))
				}
				eventually(t, "the key counts for nothing", func() bool { return g.Do(t, calls[i]).Status == http.StatusUnauthorized })
			}
			bound := g.CreateKey(t, "--name", "bound", "--ip", "127.0.0.2/32")
			assertBound(t, g, bound.Key)
		})
	}
}

// assertBound issues a token for a key of 127.0.0.2, which is then sent from there and from elsewhere.
func assertBound(t *testing.T, g *gateway.Gateway, key string) {
	t.Helper()
	there := from(t, "127.0.0.2")
	do := func(c *http.Client, call gateway.Call) (status int, body string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := g.Request(ctx, call)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			return resp.StatusCode, ""
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	status, body := do(there, gateway.Call{Method: http.MethodPost, Path: "/venice/stream-token", Key: key})
	token := between(body, `"token":"`, `"`)
	if status != http.StatusOK || token == "" {
		t.Fatalf("%d %s", status, body)
	}
	stream := gateway.Call{Path: "/venice/stream?token=" + token, NoKey: true}
	if status, body := do(there, stream); status != http.StatusOK {
		t.Errorf("from the key's network: %d %s", status, body)
	}
	if status, body := do(from(t, "127.0.0.1"), stream); status != http.StatusForbidden || !strings.Contains(body, "key_restricted") {
		t.Errorf("from elsewhere: %d %s", status, body)
	}
}

// TestADevelopmentTokenEndsWithItsReason: it is taken while requests without a key are, and not once they need one.
func TestADevelopmentTokenEndsWithItsReason(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{Config: quick + "\nauth: {anonymous: true}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	stream := gateway.Call{Method: http.MethodHead, Path: "/venice/stream?token=" + streamToken(t, g, "anything"), NoKey: true}
	if got := g.Do(t, stream); got.Status != http.StatusOK {
		t.Fatalf("%d", got.Status)
	}
	o.Config = quick
	reload(t, g, o)
	eventually(t, "the token counts for nothing", func() bool { return g.Do(t, stream).Status == http.StatusUnauthorized })
}
