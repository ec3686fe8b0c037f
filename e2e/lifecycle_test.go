package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// runFile is what run.json says.
type runFile struct {
	PID                int
	HTTP, HTTPS, Admin string
}

func readRunFile(t testing.TB, g *gateway.Gateway) (r runFile) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(g.Home, "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("run.json %q: %v", b, err)
	}
	return r
}

// statusOf is the status of a GET on any of the gateway's addresses; 0 when nothing answers.
func statusOf(t testing.TB, url string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), polltest.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return 0
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// slowly is one provider that takes three seconds for a stream.
func slowly(t *testing.T, ids ...string) gateway.Options {
	t.Helper()
	o := gateway.Options{Config: quick}
	for _, id := range ids {
		p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: id})
		p.BehaveFor("slow", fake.Behaviour{Tokens: 30, Gap: 100 * time.Millisecond})
		o.Providers = append(o.Providers, gateway.Provider{ID: id, Fake: p})
	}
	return o
}

func TestAStartAndItsFiles(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, slowly(t, "p"))
	r := readRunFile(t, g)
	if r.PID != g.PID() {
		t.Errorf("run.json says pid %d, it is %d", r.PID, g.PID())
	}
	for _, at := range []string{r.HTTP, r.Admin} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if s := statusOf(t, "http://"+at+path); s != http.StatusOK {
				t.Errorf("%s%s: %d", at, path, s)
			}
		}
	}
	dataPath := "run/extproc.sock"
	if g.InEnvoy {
		dataPath = "run/module.sock"
	}
	for name, want := range map[string]fs.FileMode{
		"run": 0o700, "run/envoy.sock": 0o600, "run/egress.sock": 0o600, "run/control.sock": 0o600, dataPath: 0o600,
		"run/xds.sock": 0o600, "run/envoy.json": 0o600, "pepper": 0o600, "bardo.db": 0o600, "run.json": 0o600, "dev-key.pem": 0o600,
	} {
		st, err := os.Stat(filepath.Join(g.Home, name))
		if err != nil {
			t.Error(err)
		} else if st.Mode().Perm() != want {
			t.Errorf("%s has mode %o, want %o", name, st.Mode().Perm(), want)
		}
	}

	t.Run("a second one is refused", func(t *testing.T) {
		second := g.Try(t, "up", "-c", g.File)
		if second.Code != 1 || !strings.Contains(second.Stderr, "already runs on "+g.Home) {
			t.Errorf("exit %d: %s", second.Code, second.Stderr)
		}
		if got := readRunFile(t, g); got != r {
			t.Errorf("run.json is now %+v", got)
		}
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
			t.Errorf("the first one answers %d %s", got.Status, got.Body)
		}
	})

	if err := g.Stop(); err != nil { // checks the exit status, and that run.json is gone
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(g.Home, "run")); err == nil {
		t.Error("the sockets are left behind")
	}
}

// TestDrain: what runs is finished on both paths, new clients are told to go elsewhere, and the program ends by itself.
func TestDrain(t *testing.T) {
	t.Parallel()
	o := slowly(t, "p", "q")
	single := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "single"})
	single.Behave(fake.Behaviour{Tokens: 30, Gap: 100 * time.Millisecond})
	o.Providers[0].Models, o.Providers[1].Models = models("slow", ""), models("slow", "")
	o.Providers = append(o.Providers, gateway.Provider{ID: "single", Fake: single, Format: "anthropic", Models: models("alone", "")})
	g := gateway.Run(t, o)
	backed := begin(t, g, ask{dialect: fake.OpenAI, model: "slow", stream: true})
	alone := begin(t, g, ask{dialect: fake.Anthropic, model: "alone", stream: true})
	if err := g.Terminate(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{g.Admin + "/readyz", g.URL + "/readyz"} {
		eventually(t, "503 on "+url, func() bool { return statusOf(t, url) == http.StatusServiceUnavailable })
	}
	if s := statusOf(t, g.Admin+"/healthz"); s != http.StatusOK {
		t.Errorf("/healthz while draining: %d", s)
	}
	for name, s := range map[string]*running{"backed": backed, "alone": alone} {
		if got := s.finish(t); got != words(30) {
			t.Errorf("the %s stream says %q", name, got)
		}
	}
	endsWell(t, g)
}

// endsWell waits for the end of a gateway that was asked to stop: in time, with status 0.
func endsWell(t testing.TB, g *gateway.Gateway) {
	t.Helper()
	select {
	case <-g.Exited():
	case <-soon(t).Done():
		t.Error("it does not end when nothing is left to do")
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
}

// TestDrainWaitsForSlowReaders: an answer that the sidecar has given out whole is not cut while Envoy still holds some of it.
func TestDrainWaitsForSlowReaders(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"backed", "alone"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			long := fake.Behaviour{Tokens: 250, TokenSize: 64 << 10}
			p.Behave(long)
			o := gateway.Options{Config: patient, Providers: []gateway.Provider{{ID: "p", Fake: p}}}
			if path == "backed" {
				other := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "other"})
				other.Behave(long)
				o.Providers = append(o.Providers, gateway.Provider{ID: "other", Fake: other})
			}
			g := gateway.Run(t, o)
			s := begin(t, g, ask{dialect: fake.OpenAI, model: "m", stream: true})
			// A data path in Envoy's process does not give out what Envoy's connection has no room for: its last byte waits for the reader.
			if path == "backed" && !g.InEnvoy {
				eventually(t, "the sidecar's last byte", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") == 0 })
			}
			if err := g.Terminate(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the drain", func() bool { return statusOf(t, g.Admin+"/readyz") != http.StatusOK })
			if got := s.finish(t); len(got) != 250*64<<10 {
				t.Errorf("%d bytes came, want %d", len(got), 250*64<<10)
			}
			endsWell(t, g)
		})
	}
}

// TestEnvoyDiesWithItsParent, whatever kills it; and the state it leaves can be run on.
func TestEnvoyDiesWithItsParent(t *testing.T) {
	t.Parallel()
	o := slowly(t, "p")
	g, err := gateway.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(g.Home) })
	stream := begin(t, g, ask{dialect: fake.OpenAI, model: "slow", stream: true})
	child := envoyOf(t, g)
	if child == 0 {
		t.Fatal("no Envoy")
	}
	g.Kill()
	eventually(t, "the end of its Envoy", func() bool { return !child.alive() })
	for err == nil {
		_, err = stream.r.Next()
	}

	o.Home = g.Home
	again := gateway.Run(t, o)
	if got := again.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()); got.Status != http.StatusOK {
		t.Errorf("after the crash: %d %s", got.Status, got.Body)
	}
	again.AssertSound(t)
}

// TestAnEnvoyThatDiesIsReplaced, and clients that read run.json find it.
func TestAnEnvoyThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, slowly(t, "p"))
	for range 2 {
		child := envoyOf(t, g)
		if err := syscall.Kill(int(child), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another Envoy", func() bool { e := envoyOf(t, g); return e != 0 && e != child })
		eventually(t, "its traffic", func() bool {
			return statusOf(t, "http://"+readRunFile(t, g).HTTP+"/v1/models") == http.StatusUnauthorized
		})
	}
	if s := statusOf(t, g.Admin+"/readyz"); s != http.StatusOK {
		t.Errorf("/readyz: %d", s)
	}
	if !strings.Contains(g.Log(), "envoy died and is started again") {
		t.Error("the log does not say so")
	}
}

// TestTLS: the generated certificate is valid for this machine, and HTTP/2 is offered.
func TestTLS(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, slowly(t, "p"))
	pem, err := os.ReadFile(filepath.Join(g.Home, "dev-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	port := g.HTTPS[strings.LastIndexByte(g.HTTPS, ':'):]
	for _, host := range []string{"127.0.0.1", "localhost"} {
		for proto, h2 := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
			c := http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: h2, DisableKeepAlives: true,
			}}
			a := ask{dialect: fake.OpenAI, model: "m", stream: true}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+host+port+"/v1/chat/completions", strings.NewReader(a.body()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+g.Key)
			res, err := c.Do(req)
			if err != nil {
				t.Errorf("%s on %s: %v", proto, host, err)
				continue
			}
			s := newRunning(a, res)
			if got := s.finish(t); res.Proto != proto || res.StatusCode != http.StatusOK || got == "" {
				t.Errorf("%s on %s: %s %s", proto, host, res.Proto, res.Status)
			}
			_ = res.Body.Close()
		}
	}
}
