package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
)

// sealedLab is a gateway with a provider whose enclave opens sealed requests, and an ordinary one.
type sealedLab struct {
	*gateway.Gateway

	provider, open *fake.Server
	vault          *enclave.Vault
	events, log    string // files
}

func sealedConfig(l *sealedLab, keys string) string {
	return quick + fmt.Sprintf(`
telemetry: {events: "file:%s", log_level: debug}
providers:
  order: [vault, open]
  custom:
    - {id: vault, endpoints: [%q], api_key: %s, private: true, e2ee_keys: [%s], models: [{id: sealed, price: {input: 1, output: 2}, capabilities: [e2ee, structured_outputs]}]}
    - {id: open, endpoints: [%q], api_key: %s, models: [{id: sealed, price: {input: 1, output: 2}, capabilities: [structured_outputs]}]}
`, l.events, l.provider.URL, l.provider.Key, keys, l.open.URL, l.open.Key)
}

func runSealedLab(t *testing.T, keys ...string) *sealedLab {
	t.Helper()
	dir := t.TempDir()
	l := &sealedLab{vault: enclave.NewVault("a"), events: filepath.Join(dir, "events.jsonl"), log: filepath.Join(dir, "log")}
	l.provider = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "vault", Vault: l.vault})
	l.open = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "open"})
	log, err := os.Create(l.log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	l.Gateway = gateway.Run(t, gateway.Options{Stderr: log, Stdout: log, Config: sealedConfig(l, strings.Join(keys, ", "))})
	return l
}

const sealedQuestion, sealedReply = "PLANTED-QUESTION", "PLANTED-REPLY"

// auction is a request that only the enclave may read.
func auction(stream bool) gateway.Call {
	more := ""
	if stream {
		more = `"stream":true,"stream_options":{"include_usage":true},`
	}
	return gateway.Call{
		Path: "/v1/chat/completions", Body: `{"model":"sealed",` + more + asSchema + `,"messages":[{"role":"system","content":"PLANTED-SYSTEM"},{"role":"user","content":"` + sealedQuestion + `"}]}`,
		Header: []string{"content-type: application/json", "X-Bardo-Task-Class: sealed_auction"},
	}
}

// leaked reports what was planted and is in anything that the gateway wrote.
func (l *sealedLab) leaked(t *testing.T) bool {
	t.Helper()
	for _, file := range []string{l.events, l.log} {
		b, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "PLANTED") {
			return true
		}
	}
	return false
}

// TestP06TheProvidersLegCarriesCiphertextAlone: as JSON and as a stream, in each dialect; the enclave reads the request, and the client the answer.
func TestP06TheProvidersLegCarriesCiphertextAlone(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	for _, stream := range []bool{false, true} {
		got := l.Do(t, auction(stream))
		if got.Status != http.StatusOK || !strings.Contains(got.Body, "D-REPLY") || got.Header.Get("X-Bardo-Provider") != "vault" {
			t.Fatalf("stream %v: %d %s", stream, got.Status, got.Body)
		}
		if r := recordOf(t, l.Gateway, got); r.InputTokens == 0 || r.OutputTokens == 0 {
			t.Errorf("stream %v: the usage inside was not read: %+v", stream, r)
		}
	}
	claude := gateway.Call{
		Path: "/v1/messages", Header: []string{"content-type: application/json", "anthropic-version: 2023-06-01", "X-Bardo-Privacy-Tier: e2e", "X-Bardo-Task-Class: testament"},
		Body: `{"model":"sealed","max_tokens":50,"messages":[{"role":"user","content":"` + sealedQuestion + `"}],"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"price":{"type":"string"}},"required":["price"],"additionalProperties":false}}}}`,
	}
	if got := l.Do(t, claude); got.Status != http.StatusOK || !strings.Contains(got.Body, sealedReply) {
		t.Errorf("another dialect: %d %s", got.Status, got.Body)
	}
	if opened := l.vault.Opened(); len(opened) != 3 || !strings.Contains(opened[0], sealedQuestion) || !strings.Contains(opened[1], `"stream":true`) || !strings.Contains(opened[2], sealedQuestion) {
		t.Errorf("the enclave opened %v", opened)
	}
	if l.provider.Saw("PLANTED") || l.provider.Saw("price") || !l.provider.Saw(`"ciphertext"`) {
		t.Errorf("the provider saw %+v", l.provider.Generations())
	}
	if n := len(l.open.Generations()); n != 0 {
		t.Errorf("%d requests reached a provider without an enclave", n)
	}
	if l.leaked(t) {
		t.Error("log or events have content")
	}
}

// TestP06WithoutAKeyNothingIsSent: a model's list is no proof of an enclave; a request is not sent as it is.
func TestP06WithoutAKeyNothingIsSent(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t)
	for _, stream := range []bool{false, true} {
		got := l.Do(t, auction(stream))
		if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "no_private_provider") {
			t.Errorf("stream %v: %d %s", stream, got.Status, got.Body)
		}
	}
	c := auction(false)
	c.Header = append(c.Header, "X-Bardo-Require: e2ee")
	if got := l.Do(t, c); got.Status != http.StatusServiceUnavailable {
		t.Errorf("required: %d %s", got.Status, got.Body)
	}
	if n := len(l.provider.Generations()) + len(l.open.Generations()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// TestP06AnAnswerThatIsNotForThisRequestIsRefused: replayed, swapped, changed, and plain answers; each with its event.
func TestP06AnAnswerThatIsNotForThisRequestIsRefused(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	first := []byte(nil)
	change := func(f func(o map[string]any)) func([]byte) []byte {
		return func(b []byte) []byte {
			var o map[string]any
			if json.Unmarshal(b, &o) != nil {
				return nil
			}
			f(o)
			out, _ := json.Marshal(o) // of what was JSON
			return out
		}
	}
	inside := func(o map[string]any) map[string]any { return o["e2ee"].(map[string]any) } //nolint:forcetypeassert // the vault wrote it
	replay := func(b []byte) []byte {
		if first == nil {
			first = b
		}
		return first
	}
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`, Sealed: replay})
	if got := l.Do(t, auction(false)); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	for _, row := range []struct {
		about  string
		change func([]byte) []byte
		why    string
	}{
		{"a replayed answer", replay, "not_opened"},
		{"another nonce", change(func(o map[string]any) { inside(o)["nonce"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" }), "not_opened"},
		{"another text", change(func(o map[string]any) { inside(o)["ciphertext"] = "AAAA" + inside(o)["ciphertext"].(string)[4:] }), "not_opened"}, //nolint:forcetypeassert // the vault wrote it
		{"another usage", change(func(o map[string]any) { o["usage"] = map[string]any{"prompt_tokens": 1, "completion_tokens": 1} }), "not_opened"},
		{"another version", change(func(o map[string]any) { inside(o)["v"] = 2 }), "not_sealed"},
		{"more members", change(func(o map[string]any) { o["choices"] = []any{} }), "not_sealed"},
		{"a plain answer", func([]byte) []byte { return []byte(`{"choices":[{"message":{"content":"` + sealedReply + `"}}]}`) }, "not_sealed"},
		{"no JSON", func([]byte) []byte { return []byte(sealedReply) }, "not_sealed"},
		{"nothing", func([]byte) []byte { return nil }, "not_sealed"},
	} {
		for _, stream := range []bool{false, true} {
			l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`, Sealed: row.change})
			c := auction(stream)
			c.Key = key
			got := l.Do(t, c)
			if got.Status != http.StatusServiceUnavailable || strings.Contains(got.Body, sealedReply) || !strings.Contains(got.Body, "VeniceEncryptionError") {
				t.Errorf("%s, stream %v: %d %s", row.about, stream, got.Status, got.Body)
			}
			id := got.Header.Get("X-Request-Id")
			eventually(t, "the event of "+id, func() bool {
				b, err := os.ReadFile(l.events)
				return err == nil && strings.Contains(string(b), `"request_id":"`+id+`","subsystem":"","task_class":"sealed_auction","provider":"vault","model":"sealed","verified":false,"error":"VeniceEncryptionError","reason":"`+row.why+`"`)
			})
		}
	}
	if left := settledBalance(t, l.Gateway, key); left != 1_000_000 {
		t.Errorf("%d millionths are left of 1000000: a discarded answer was charged", left)
	}
	if n := len(l.open.Generations()); n != 0 || l.leaked(t) {
		t.Errorf("%d requests reached a provider without an enclave, or something was logged", n)
	}
}

// TestP06KeysRotate: the enclave's second pinned key is used once it has not the first any more; a key that is not pinned is never used; a reload changes them.
func TestP06KeysRotate(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"), enclave.VaultKey("b"))
	l.vault.Rotate("b")
	got := l.Do(t, auction(false))
	if got.Status != http.StatusOK || len(l.provider.Generations()) != 2 || len(l.vault.Opened()) != 1 {
		t.Errorf("rotated: %d %s, after %d calls", got.Status, got.Body, len(l.provider.Generations()))
	}
	l.vault.Rotate("c")
	if got := l.Do(t, auction(true)); got.Status == http.StatusOK || len(l.vault.Opened()) != 1 {
		t.Errorf("without a pinned key: %d %s", got.Status, got.Body)
	}
	l.Configure(t, gateway.Options{Config: sealedConfig(l, enclave.VaultKey("c"))})
	if err := l.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new key", func() bool { return l.Do(t, auction(false)).Status == http.StatusOK })
	if n := len(l.open.Generations()); n != 0 {
		t.Errorf("%d requests reached a provider without an enclave", n)
	}
}

// TestP06SealedAnswersOfSlowEnclavesAreWaitedFor: a stream gets heartbeats until the whole answer can be opened.
func TestP06SealedAnswersOfSlowEnclavesAreWaitedFor(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`, Piece: 3, Gap: 20 * time.Millisecond})
	if got := l.Do(t, auction(true)); got.Status != http.StatusOK || !strings.Contains(got.Body, "[DONE]") {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}
