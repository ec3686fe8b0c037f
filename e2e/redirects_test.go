package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// answersWith is a provider that answers every request with a status, and a body in JSON where one may follow.
func answersWith(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if status >= 200 {
			w.Header().Set("Location", "http://elsewhere.example/v1/chat/completions")
			w.WriteHeader(status)
			if status != http.StatusNotModified {
				_, _ = io.WriteString(w, `{"error":{"message":"moved, says the provider"}}`)
			}
			return
		}
		conn, out, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprintf(out, "HTTP/1.1 %d Something\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", status)
		_ = out.Flush()
		_, _ = conn.(*net.TCPConn).Read(make([]byte, 1)) // until the gateway hangs up
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestD88RedirectsAreTheProvidersFailures: what is neither an answer nor an error of HTTP is for no client to see. The next provider answers;
// where there is none, it is a 502. B-24: where a provider says that a model is gone for good, it is asked for it last from then on.
func TestD88RedirectsAreTheProvidersFailures(t *testing.T) {
	t.Parallel()
	statuses := []int{101, 300, 301, 302, 303, 304, 305, 307, 308, 399, 410}
	gone := map[int]bool{301: true, 308: true, 410: true}
	second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	o := gateway.Options{Config: quick}
	var backed []gateway.Model
	for _, status := range statuses {
		url := answersWith(t, status)
		for _, stream := range []bool{false, true} {
			id := fmt.Sprintf("m-%d-%v", status, stream)
			backed = append(backed, gateway.Model{ID: id})
			o.Providers = append(o.Providers, gateway.Provider{ID: fmt.Sprintf("p%d-%v", status, stream), BaseURL: url, Key: "k", Models: []gateway.Model{{ID: id}, {ID: "alone-" + id}}})
		}
	}
	o.Providers = append(o.Providers, gateway.Provider{ID: "second", Fake: second, Models: backed})
	g := gateway.Run(t, o)
	for _, status := range statuses {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d stream=%v", status, stream), func(t *testing.T) {
				a := ask{dialect: fake.OpenAI, model: fmt.Sprintf("m-%d-%v", status, stream), stream: stream}
				got := g.Do(t, a.call())
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "second" || got.Header.Get("X-Bardo-Attempts") == "1" {
					t.Fatalf("%d by %s after %s attempts: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Header.Get("X-Bardo-Attempts"), got.Body)
				}
				if got.Header.Get("Location") != "" {
					t.Errorf("the provider's address reaches the client: %v", got.Header)
				}
				again := g.Do(t, a.call())
				if first := again.Header.Get("X-Bardo-Attempts") == "1"; first != gone[status] || again.Status != http.StatusOK {
					t.Errorf("asked again: %d after %s attempts", again.Status, again.Header.Get("X-Bardo-Attempts"))
				}

				a.model = "alone-" + a.model
				got = g.Do(t, a.call())
				if status == http.StatusGone {
					mustFail(t, a, got, http.StatusNotFound, "model_not_found")
					return
				}
				mustFail(t, a, got, http.StatusBadGateway, "upstream_error")
			})
		}
	}
}

// TestD88RedirectsOfWhatAProviderKeepsAreItsFailures, too: files and batches.
func TestD88RedirectsOfWhatAProviderKeepsAreItsFailures(t *testing.T) {
	t.Parallel()
	for _, status := range []int{101, 301, 302, 304, 308} {
		g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("providers: {direct: {keys: [{provider: openai, api_key: k, base_url: %q}]}}\n", answersWith(t, status))})
		mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/files"}), http.StatusBadGateway, "upstream_error")
	}
}
