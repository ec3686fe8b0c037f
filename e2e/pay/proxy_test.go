package pay

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"bardo.money/gateway/internal/proctest"
)

// TestX02BardoPayIsAProxyForOtherPrograms: which are run with its address and without the wallet's key, whose credentials are not passed on, and whose streams pass.
func TestX02BardoPayIsAProxyForOtherPrograms(t *testing.T) {
	t.Parallel()
	c := startChain(t)
	g, p := serve(t, c, "")
	home := t.TempDir()
	flags := append(c.chainFlags(), "--pay-to", payTo)
	run := append([]string{"proxy", g.URL + "/v1"}, flags...)
	script := `test -z "$BARDO_PAY_KEY" && curl -sS -D- "$OPENAI_BASE_URL/chat/completions" -H "Authorization: Bearer sk-of-another-server" -H "X-Api-Key: $OPENAI_API_KEY" -d '` + chatBody(true) + `'; exit 7`
	r := command(t, g, home, append(run, "--", "sh", "-c", script)...)
	if r.Code != 7 || !strings.Contains(r.Stdout, "text/event-stream") || !strings.Contains(r.Stdout, "[DONE]") || !strings.Contains(r.Stderr, "paid: $0.0") {
		t.Fatalf("%+v\n%s", r, g.Log())
	}
	if all := paid(t, g, home); len(all) != 1 || all[0].State != "answered" || len(p.Generations()) != 1 {
		t.Errorf("%+v", all)
	}
	cmd := g.Command(t, append([]string{"pay"}, append(run, "--max-usd", "0.001")...)...)
	cmd.Env = append(cmd.Env, "BARDO_HOME="+home, "BARDO_PAY_KEY="+payerKey)
	base := listening(t, cmd)
	root := base[:strings.LastIndex(strings.TrimSuffix(base, "/v1"), "/")]
	for _, row := range []struct {
		url    string
		status int
		want   string
	}{
		{base + "/chat/completions", http.StatusBadGateway, "and a request may cost $0.001000"}, // more than is allowed
		{base + "/embeddings", http.StatusUnauthorized, "invalid_api_key"},                      // the server's answer
		{root + "/v1/chat/completions", http.StatusNotFound, "secret part"},
		{root + "/AAAAAAAAAAAAAAAAAAAAAAAAAA/v1/chat/completions", http.StatusNotFound, "secret part"},
	} {
		status, body := post(t, row.url, chatBody(false))
		if status != row.status || !strings.Contains(body, row.want) {
			t.Errorf("%s: %d %s", row.url, status, body)
		}
	}
	if all := paid(t, g, home); len(all) != 1 || len(p.Generations()) != 1 {
		t.Errorf("%+v", all)
	}
	if r := command(t, g, home, append(run, "--listen", "0.0.0.0:0")...); r.Code != 1 || !strings.Contains(r.Stderr, "of this machine alone") {
		t.Errorf("%+v", r)
	}
}

// listening starts the proxy, and returns the address that it prints for OpenAI's clients.
func listening(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := proctest.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for s := bufio.NewScanner(out); s.Scan(); {
		if at, ok := strings.CutPrefix(s.Text(), "OPENAI_BASE_URL="); ok {
			return at
		}
	}
	t.Fatal("the proxy says no address")
	return ""
}

func post(t *testing.T, url, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}
