package pay

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/gateway"
)

// TestWhatNeedsAKeyTakesNoPayment: a payment opens conversations alone. Everything else asks for a key, and leaves the payment as it was.
func TestWhatNeedsAKeyTakesNoPayment(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	pm := accept(t, ask(t, g, chatBody(false))).sign(t)
	for _, row := range []struct{ method, path string }{
		{"POST", "/v1/embeddings"},
		{"POST", "/v1/images/generations"},
		{"POST", "/v1/images/edits"},
		{"POST", "/v1/audio/speech"},
		{"POST", "/v1/audio/transcriptions"},
		{"POST", "/v1/moderations"},
		{"POST", "/v1/rerank"},
		{"POST", "/v1/videos"},
		{"POST", "/v1/files"},
		{"GET", "/v1/files"},
		{"GET", "/v1/files/file-1/content"},
		{"DELETE", "/v1/files/file-1"},
		{"POST", "/v1/uploads"},
		{"POST", "/v1beta/files"},
		{"POST", "/upload/v1beta/files"},
		{"POST", "/v1/batches"},
		{"GET", "/v1/batches"},
		{"POST", "/v1/batches/batch_1/cancel"},
		{"POST", "/v1/messages/batches"},
		{"GET", "/v1/messages/batches/b/results"},
		{"GET", "/v1/responses/resp_1"},
		{"DELETE", "/v1/responses/resp_1"},
		{"POST", "/v1/responses/resp_1/cancel"},
		{"POST", "/v1/responses/compact"},
		{"GET", "/v1/responses/resp_1/input_items"},
		{"POST", "/v1/conversations"},
		{"GET", "/v1/conversations/conv_1"},
		{"POST", "/v1/containers"},
		{"POST", "/v1/vector_stores"},
		{"POST", "/v1beta/cachedContents"},
		{"POST", "/v1/messages/count_tokens"},
		{"POST", "/v1/responses/input_tokens"},
		{"POST", "/v1beta/models/m:countTokens"},
		{"POST", "/v1beta/models/m:embedContent"},
		{"POST", "/v1/sessions"},
		{"POST", "/v1/sessions/s/compact"},
		{"GET", "/v1/sessions/s"},
		{"GET", "/v1/balance"},
		{"GET", "/v1/usage"},
		{"GET", "/v1/cache"},
		{"DELETE", "/v1/cache"},
		{"GET", "/v1/requests/req_1/answer"},
		{"GET", "/v1/requests/req_1/reasoning"},
		{"DELETE", "/v1/requests/req_1"},
		{"POST", "/v1/requests/req_1/feedback"},
		{"GET", "/v1/identity"},
		{"DELETE", "/v1/identity/link"},
		{"GET", "/v1/events"},
		{"POST", "/venice/cache/advance"},
		{"GET", "/venice/status"},
		{"HEAD", "/v1/chat/completions"},
		{"GET", "/v1/chat/completions"},
		{"PUT", "/v1/chat/completions"},
		{"DELETE", "/v1/messages"},
		{"GET", "/v1/realtime"},
		{"POST", "/V1/chat/completions"},
		{"GET", "/admin/v1/keys"},
	} {
		body := ""
		if row.method == http.MethodPost {
			body = `{"model":"m","input":"x","max_tokens":200,"messages":[{"role":"user","content":"Hello"}]}`
		}
		got := g.Do(t, gateway.Call{NoKey: true, Method: row.method, Path: row.path, Body: body, Header: []string{pm.header()}})
		switch got.Status {
		case http.StatusUnauthorized, http.StatusNotFound, http.StatusMethodNotAllowed:
		default:
			t.Errorf("%s %s: %d %s", row.method, row.path, got.Status, got.Body)
		}
		if got.Header.Get("Payment-Response") != "" || got.Header.Get("Payment-Required") != "" {
			t.Errorf("%s %s: %v", row.method, row.path, got.Header)
		}
	}
	for _, header := range []string{"X-Bardo-Defer: 1h", "X-Bardo-Route: explain"} {
		if got := pm.send(t, g, chatBody(false), header); got.Status == http.StatusOK || got.Status == http.StatusAccepted {
			t.Errorf("%s: %d %s", header, got.Status, got.Body)
		}
	}
	if n := len(p.Calls()); n != 0 {
		t.Errorf("the provider was called %d times", n)
	}
	if got := pm.send(t, g, chatBody(false)); got.Status != http.StatusOK {
		t.Errorf("the payment is not as it was: %d %s", got.Status, got.Body)
	}
	settle(t, c, 1)
}

// TestPitfall28TheFirstPaymentOfARequestDecides: of two in one request the other one is left alone, whether it is of the same version or not, and whether the
// first is good.
func TestPitfall28TheFirstPaymentOfARequestDecides(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	q := ask(t, g, chatBody(false))
	old := func() *payment {
		pm := accept(t, q)
		pm.Version = 1
		return pm.sign(t)
	}
	served := 0
	for _, row := range []struct {
		about         string
		first, second *payment
	}{
		{"two of version 2", accept(t, q).sign(t), accept(t, q).sign(t)},
		{"two of version 1", old(), old()},
		{"version 2, and 1 behind it", accept(t, q).sign(t), old()},
	} {
		for _, broken := range []bool{true, false} {
			signature := row.first.Signature
			if broken {
				row.first.Signature = append([]byte{}, signature...)
				row.first.Signature[3] ^= 1
			}
			got := g.Do(t, gateway.Call{NoKey: true, Path: "/v1/chat/completions", Body: chatBody(false), Header: []string{row.first.header(), row.second.header()}})
			row.first.Signature = signature
			if broken {
				if reason(t, got) != "invalid_exact_evm_payload_signature" {
					t.Errorf("%s: a wrong first one: %d %s", row.about, got.Status, got.Body)
				}
				continue
			}
			if served++; got.Status != http.StatusOK || len(got.Header.Values("Payment-Response")) != 1 {
				t.Errorf("%s: %d %s", row.about, got.Status, got.Body)
			}
		}
		if got := row.first.send(t, g, chatBody(false)); got.Status != http.StatusConflict {
			t.Errorf("%s, the first again: %d %s", row.about, got.Status, got.Body)
		}
		if got := row.second.send(t, g, chatBody(false)); got.Status != http.StatusOK {
			t.Errorf("%s, the second alone: %d %s", row.about, got.Status, got.Body)
		}
		served++
	}
	settle(t, c, served)
	for _, r := range p.Generations() {
		for name := range r.Header {
			if strings.Contains(strings.ToLower(name), "payment") {
				t.Errorf("the provider got %s", name)
			}
		}
	}
	g.AssertSound(t)
}
