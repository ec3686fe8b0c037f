package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/enclave"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// sealingProxy is `bardo e2ee proxy` for a lab's gateway; its base URL comes back.
func sealingProxy(t *testing.T, l *sealedLab, keys ...string) string {
	t.Helper()
	args := []string{"e2ee", "proxy", "--url", l.URL}
	for _, k := range keys {
		args = append(args, "--enclave-key", k)
	}
	cmd := l.Command(t, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v: %s", err, errs.String())
		}
	})
	return strings.TrimSpace(line)
}

// toProxy sends a body as the lab's caller.
func toProxy(t *testing.T, l *sealedLab, url, body string, header ...string) (status int, kind, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+l.Key)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}

// TestP06AnyClientEncryptsThroughTheProxy: an OpenAI client of the agent's machine gets its answer, whole or as a stream, and neither the gateway nor the
// provider's host reads either; an older key that the enclave does not know is followed by the next one.
func TestP06AnyClientEncryptsThroughTheProxy(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	at := sealingProxy(t, l, enclave.VaultKey("old"), enclave.VaultKey("a")) + "/chat/completions"
	for _, stream := range []bool{false, true} {
		status, kind, text := toProxy(t, l, at, auction(stream).Body)
		want, reply := "application/json", sealedReply
		if stream {
			want, reply = "text/event-stream", "D-REPLY" // the reply comes in pieces
		}
		if status != http.StatusOK || kind != want || !strings.Contains(text, reply) || stream != strings.HasSuffix(strings.TrimSpace(text), "data: [DONE]") {
			t.Errorf("stream %t: %d %s %s", stream, status, kind, text)
		}
	}
	if n := len(l.vault.Opened()); n != 2 {
		t.Errorf("the enclave opened %d requests, want 2", n)
	}
	if l.provider.Saw("PLANTED") || l.open.Saw("PLANTED") || l.leaked(t) {
		t.Error("somebody between the two ends could read the request or its answer")
	}
	for body, reason := range map[string]string{
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"x"}}]}`:           "no tools",
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"web_search_options":{}}`:                                         "no web search",
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"venice_parameters":{"enable_web_search":"auto"}}`:                "no web search",
		`{"model":"sealed","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}]}`: "no files",
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}]}`:                                                                 `"details":{"constraint":"structured_output_required"}`,
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"venice_parameters":{"enable_web_scraping":true}}`:                `enable_web_scraping\" may only be false`,
		`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"venice_parameters":{"enable_web_search":true}}`:                  `enable_web_search\" may only be false`,
		`{"model":"sealed","messages":[{"role":"user","content":{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}}]}`:   `messages[0].content\" has to be a text`,
		`{"model":"sealed","model":"other","messages":[{"role":"user","content":"hi"}]}`:                                                 "model is given twice",
		`{"messages":[]}`: `\"model\" is missing`,
		`[1]`:             "JSON object",
		``:                "JSON object",
	} {
		if status, _, text := toProxy(t, l, at, body); status != http.StatusBadRequest || !strings.Contains(text, reason) || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s, want 400 that says %q", body, status, text, reason)
		}
	}
	if status, _, text := toProxy(t, l, at, auction(false).Body, "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("a web page: %d %s", status, text)
	}
	if status, _, text := toProxy(t, l, strings.Replace(at, "chat/completions", "responses", 1), auction(false).Body); status != http.StatusNotFound || !strings.Contains(text, "is not served here") {
		t.Errorf("another path: %d %s", status, text)
	}
	if status, _, text := toProxy(t, l, at, auction(false).Body, "Authorization", "Bearer bardo_sk_wrong"); status != http.StatusUnauthorized || !strings.Contains(text, "invalid_api_key") {
		t.Errorf("a wrong key: %d %s", status, text)
	}
	if n := len(l.vault.Opened()); n != 2 {
		t.Errorf("the enclave opened %d requests, want 2", n)
	}
}

// TestP06TheCommandEncryptsOneRequest: `bardo e2ee send` prints the opened answer; without a key, with one that is none, and with another enclave's, nothing
// readable is sent, and it says what is wrong.
func TestP06TheCommandEncryptsOneRequest(t *testing.T) {
	t.Parallel()
	l := runSealedLab(t, enclave.VaultKey("a"))
	l.provider.Behave(fake.Behaviour{JSON: `{"price":"` + sealedReply + `"}`})
	file := filepath.Join(t.TempDir(), "request.json")
	if err := os.WriteFile(file, []byte(auction(false).Body), 0o600); err != nil {
		t.Fatal(err)
	}
	key := l.Key
	send := func(args ...string) (r gateway.Result) {
		cmd := l.Command(t, append([]string{"e2ee", "send", file, "--url", l.URL}, args...)...)
		cmd.Env = append(cmd.Env, "BARDO_API_KEY="+key)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return gateway.Result{Stdout: out.String(), Stderr: errs.String(), Code: cmd.ProcessState.ExitCode()}
	}
	if r := send("--enclave-key", enclave.VaultKey("a")); r.Code != 0 || !strings.Contains(r.Stdout, sealedReply) || r.Stderr != "" {
		t.Errorf("%+v", r)
	}
	if r := send(); r.Code != 1 || !strings.Contains(r.Stderr, "--enclave-key pins it") {
		t.Errorf("without a key: %+v", r)
	}
	if r := send("--enclave-key", "abc"); r.Code != 1 || !strings.Contains(r.Stderr, "X25519 public key") {
		t.Errorf("with what is no key: %+v", r)
	}
	if r := send("--enclave-key", enclave.VaultKey("other")); r.Code != 1 || strings.Contains(r.Stdout, sealedReply) || !strings.Contains(r.Stdout, "e2ee_key_unknown") {
		t.Errorf("with another enclave's key: %+v", r)
	}
	key = ""
	if r := send("--enclave-key", enclave.VaultKey("a")); r.Code != 1 || !strings.Contains(r.Stderr, "the gateway answered 401: set BARDO_API_KEY") {
		t.Errorf("without a key of the gateway: %+v", r)
	}
	if n := len(l.vault.Opened()); n != 1 || l.provider.Saw("PLANTED") || l.open.Saw("PLANTED") {
		t.Errorf("the enclave opened %d requests, or somebody could read one", n)
	}
}
