package payclient

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// TestNoCredentialGoesToTheServerThatIsPaid, except a provider's key, whose header is meant for a gateway.
func TestNoCredentialGoesToTheServerThatIsPaid(t *testing.T) {
	t.Parallel()
	h := http.Header{}
	kept := []string{"Anthropic-Version", "Content-Type", "User-Agent", "X-Bardo-Subsystem", "X-Bardo-Upstream-Key"}
	for _, name := range append([]string{
		"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Proxy-Authorization", "Cookie", "Payment-Signature", "X-Payment", "X-Bardo-Delegation",
		"X-Bardo-Proof", "X-Auth-Token", "X-Access-Token", "X-Amz-Security-Token", "Ocp-Apim-Subscription-Key", "Cf-Access-Client-Secret",
		"Accept-Encoding", "Connection", "Proxy-Connection", "Content-Length",
	}, kept...) {
		h.Set(name, "secret")
	}
	if got := slices.Sorted(maps.Keys(requestHeaders(h))); !slices.Equal(got, kept) {
		t.Errorf("got  %q\nwant %q", got, kept)
	}
}

// startProxy runs a proxy in the test's process, before a server.
func startProxy(t *testing.T, server http.HandlerFunc) (base string) {
	t.Helper()
	to := httptest.NewServer(server)
	t.Cleanup(to.Close)
	target, err := targetOf(to.URL)
	if err != nil {
		t.Fatal(err)
	}
	key, err := client.ParseKey(walletKeys[0])
	if err != nil {
		t.Fatal(err)
	}
	book, err := outgoing.OpenBook(t.Context(), filepath.Join(t.TempDir(), "outgoing.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = book.Close() })
	p := httptest.NewServer(&proxy{o: &options{timeout: time.Minute}, wallet: &client.Wallet{Key: key, Purpose: purpose, Now: time.Now, Book: book}, target: target, token: "secret", notes: io.Discard})
	t.Cleanup(p.Close)
	return p.URL + "/secret"
}

// TestTheHeadersOfAnAnswerComeBeforeItsFirstByte: a client that waits for them for less time than a model thinks does not give up.
func TestTheHeadersOfAnAnswerComeBeforeItsFirstByte(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	base := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-begun:
			_, _ = io.WriteString(w, "the answer")
		case <-r.Context().Done():
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatalf("no headers: %v", err)
	}
	close(begun)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.Body.Close() != nil || string(body) != "the answer" {
		t.Errorf("%q, %v", body, err)
	}
}

// TestARequestThatIsTooLargeIsRefused, and does not reach the server.
func TestARequestThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	base := startProxy(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") })
	at, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, at.Path+"/v1/x", io.LimitReader(zeros{}, maxBody+1))
	(&proxy{token: "secret"}).ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), marker) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// zeros has no end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestTheProxyIsForThisMachineAlone: it listens at no address that others reach, and at no name, which may be that of another machine.
func TestTheProxyIsForThisMachineAlone(t *testing.T) {
	t.Setenv("BARDO_HOME", t.TempDir())
	t.Setenv("BARDO_PAY_KEY", walletKeys[0])
	for _, at := range []string{"0.0.0.0:0", ":0", "[::]:0", "localhost:0", "192.0.2.1:0", "127.0.0.1", "", "/run/socket"} {
		c := Command()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs([]string{"proxy", "http://127.0.0.1:1", "--listen", at})
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "of this machine alone") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// TestACommandBehindTheProxyHasNoKeyOfTheWallet, and no addresses and keys of the servers that it would ask otherwise.
func TestACommandBehindTheProxyHasNoKeyOfTheWallet(t *testing.T) {
	t.Setenv("BARDO_HOME", t.TempDir())
	t.Setenv("BARDO_PAY_KEY", walletKeys[0])
	t.Setenv("OPENAI_API_KEY", "sk-of-another-server")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "token-of-another-server")
	var out bytes.Buffer
	c := Command()
	c.SetOut(&out)
	c.SetArgs([]string{"proxy", "http://127.0.0.1:1", "--", "env"})
	if err := c.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for s := bufio.NewScanner(&out); s.Scan(); {
		name, value, _ := strings.Cut(s.Text(), "=")
		if _, twice := seen[name]; twice && name != "" {
			t.Errorf("%s is set twice", name)
		}
		seen[name] = value
		if strings.Contains(s.Text(), walletKeys[0]) || strings.Contains(s.Text(), "another-server") {
			t.Errorf("the command gets %s", s.Text())
		}
	}
	if !strings.HasPrefix(seen["ANTHROPIC_BASE_URL"], "http://127.0.0.1:") || seen["OPENAI_BASE_URL"] != seen["ANTHROPIC_BASE_URL"]+"/v1" || seen["OPENAI_API_KEY"] != placeholder || seen["ANTHROPIC_API_KEY"] != placeholder {
		t.Errorf("%+v", seen)
	}
}

// TestAKeyThatOthersCanReadIsRefused, and one that is no file.
func TestAKeyThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("0x"+walletKeys[0]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		mode os.FileMode
		want bool
	}{{0o600, true}, {0o400, true}, {0o640, false}, {0o604, false}, {0o602, false}, {0o610, false}, {0o644, false}} {
		mode, want := row.mode, row.want
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := readKey(path); (err == nil) != want || err != nil && strings.Contains(err.Error(), walletKeys[0][:16]) {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := readKey(folder); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a folder: %v", err)
	}
}
