package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// stalledReader opens a stream, and reads nothing of it but its head: its buffer is as small as the system allows.
func stalledReader(t *testing.T, g *gateway.Gateway, path, header string) (status int) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(1)
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nhost: h\r\n%s\r\n\r\n", path, header); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, line); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status) // 0 is none that is wanted
	return status
}

// TestManyReadersThatReadNothingCostLittle: three keys have all streams open that they may, none of which is read, while their requests go on. One more is refused, requests are served
// as before, memory is bounded, and a key that has used all of its streams takes none from another.
func TestManyReadersThatReadNothingCostLittle(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"extproc", "module"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			p.Behave(fake.Behaviour{Tokens: 60})
			g := gateway.Run(t, gateway.Options{Config: quick, DataPath: shape, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
			const of = 16
			var keys []gateway.NewKey
			for i := range 3 {
				k := g.CreateKey(t, "--name", fmt.Sprint("k", i))
				keys = append(keys, k)
				for n := range of + 1 {
					want := http.StatusOK
					if n == of {
						want = http.StatusTooManyRequests
					}
					for _, path := range []string{"/v1/events", "/venice/stream"} {
						if got := stalledReader(t, g, path, "authorization: Bearer "+k.Key); got != want {
							t.Fatalf("stream %d of %s: %d, want %d", n, path, got, want)
						}
					}
				}
				cookie := loggedIn(t, g, k.Key)
				for n := range 7 {
					if got := stalledReader(t, g, "/ui/live/events", cookie); (got == http.StatusOK) != (n < 6) {
						t.Fatalf("live page %d: %d", n, got)
					}
				}
			}
			before := process(g.PID()).memory(t) + envoyOf(t, g).memory(t)
			var wg sync.WaitGroup
			for i := range 4 {
				wg.Go(func() {
					for n := range 120 {
						c := ask{dialect: fake.OpenAI, model: "m", stream: true, say: fmt.Sprint(i, n)}.call("X-Bardo-Golem-Id: " + strings.Repeat("g", 120))
						c.Key = keys[n%len(keys)].Key
						if got := g.Do(t, c); got.Status != http.StatusOK || !strings.Contains(got.Body, "[DONE]") {
							t.Errorf("%d %s", got.Status, got.Body)
						}
					}
				})
			}
			wg.Wait()
			const most = 96 << 20
			if after := process(g.PID()).memory(t) + envoyOf(t, g).memory(t); after > before+most {
				t.Errorf("%d MiB, %d before", after>>20, before>>20)
			}
		})
	}
}
