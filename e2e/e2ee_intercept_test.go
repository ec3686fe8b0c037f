package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
)

// interceptor is who stands between `bardo e2ee proxy` and the gateway, and changes what comes back.
type interceptor struct {
	gateway string

	mu     sync.Mutex
	change func(answer []byte) []byte // of each answer of status 200; nil: none
	kept   [][]byte                   // such answers as they came
	cut    bool                       // the connection ends in the middle of each answer
}

// intercept serves in front of a lab's gateway, whose URL becomes its own.
func intercept(t *testing.T, l *sealedLab) *interceptor {
	t.Helper()
	b := &interceptor{gateway: l.URL}
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	l.URL = s.URL
	return b
}

func (b *interceptor) set(change func([]byte) []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.change, b.cut = change, cut
}

func (b *interceptor) answers() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([][]byte(nil), b.kept...)
}

// ServeHTTP passes a request on, and its answer back as it was changed.
func (b *interceptor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, b.gateway+r.URL.Path, r.Body)
	if err != nil {
		return
	}
	req.Header = r.Header.Clone()
	req.ContentLength = r.ContentLength
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return
	}
	b.mu.Lock()
	change, cut := b.change, b.cut
	if resp.StatusCode == http.StatusOK {
		b.kept = append(b.kept, body)
	}
	b.mu.Unlock()
	if change != nil && resp.StatusCode == http.StatusOK {
		body = change(body)
	}
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if cut {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(body[:len(body)/2]) // the caller may be away
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // the connection ends here
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // the caller may be away
}

// TestP06TheProxyRefusesAnAnswerThatIsNotForItsRequest: whoever stands between the proxy and the enclave replaces answers; a client gets an error and no byte of
// any answer, and the next good answer is taken.
func TestP06TheProxyRefusesAnAnswerThatIsNotForItsRequest(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	b := intercept(t, l)
	at := sealingProxy(t, l, enclave.VaultKey("a")) + "/chat/completions"
	good := func() {
		t.Helper()
		b.set(nil, false)
		if status, _, text := toProxy(t, l, at, auction(false).Body); status != http.StatusOK || !strings.Contains(text, sealedReply) {
			t.Fatalf("%d %s", status, text)
		}
	}
	good()
	earlier := b.answers()[0]
	swap := func(old, by string) func([]byte) []byte {
		return func(a []byte) []byte { return bytes.Replace(a, []byte(old), []byte(by), 1) }
	}
	for _, row := range []struct {
		about  string
		change func([]byte) []byte
		says   string
	}{
		{"an earlier answer", func([]byte) []byte { return earlier }, "not encrypted for this request"},
		{"another usage", swap(`"completion_tokens":`, `"completion_tokens":9`), "not encrypted for this request"},
		{"another ciphertext", swap(`"ciphertext":"`, `"ciphertext":"AAAA`), "not encrypted for this request"},
		{"another nonce", swap(`"nonce":"`, `"nonce":"AAAA`), "not encrypted"},
		{"half of it", func(a []byte) []byte { return a[:len(a)/2] }, "not encrypted"},
		{"two of them", func(a []byte) []byte { return append(bytes.Clone(a), a...) }, "not encrypted"},
		{"a readable answer", func([]byte) []byte { return []byte(`{"choices":[{"message":{"content":"` + sealedReply + `"}}]}`) }, "not encrypted"},
		{"nothing", func([]byte) []byte { return nil }, "not encrypted"},
	} {
		b.set(row.change, false)
		for _, stream := range []bool{false, true} {
			status, kind, text := toProxy(t, l, at, auction(stream).Body)
			if status != http.StatusBadGateway || kind != "application/json" || !strings.Contains(text, "e2ee_answer_refused") || !strings.Contains(text, row.says) || strings.Contains(text, "REPLY") {
				t.Errorf("%s, stream %t: %d %s %s", row.about, stream, status, kind, text)
			}
		}
	}
	b.set(nil, true)
	if status, _, text := toProxy(t, l, at, auction(true).Body); status != http.StatusBadGateway || !strings.Contains(text, "e2ee_answer_refused") || !strings.Contains(text, "cut off") || strings.Contains(text, "REPLY") {
		t.Errorf("an answer that is cut: %d %s", status, text)
	}
	good()
}

// TestP06TheProxyRefusesReorderedAnswers: two requests at once get each other's answers, and refuse them.
func TestP06TheProxyRefusesReorderedAnswers(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	b := intercept(t, l)
	at := sealingProxy(t, l, enclave.VaultKey("a")) + "/chat/completions"
	first, second := make(chan []byte, 1), make(chan []byte, 1)
	var turn sync.Mutex
	n := 0
	b.set(func(mine []byte) []byte {
		turn.Lock()
		give, take := first, second
		if n++; n == 2 {
			give, take = second, first
		}
		turn.Unlock()
		give <- mine
		return <-take
	}, false)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if status, _, text := toProxy(t, l, at, auction(false).Body); status != http.StatusBadGateway || !strings.Contains(text, "not encrypted for this request") {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	both.Wait()
}
