package e2e

import (
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/internal/mtlstest"
)

func newAuthority(t *testing.T) *mtlstest.Authority {
	t.Helper()
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// twoProviders are two providers of one model, so that streams are driven and the rest is carried by Envoy.
func twoProviders(t *testing.T) (providers []*fake.Server, configured []gateway.Provider) {
	t.Helper()
	for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
		p := fake.Start(t, fake.Config{Dialect: d, Name: "p-" + string(d)})
		providers = append(providers, p)
		configured = append(configured, gateway.Provider{ID: "p-" + string(d), Fake: p, Format: string(d), Models: models("m", "")})
	}
	return providers, configured
}

// pairs is a control plane with two pairs, as on three machines.
func pairs(t *testing.T) (s *gateway.Split, ca *mtlstest.Authority, providers []*fake.Server) {
	t.Helper()
	ca = newAuthority(t)
	providers, configured := twoProviders(t)
	return gateway.RunPairs(t, gateway.Options{Config: quick, Providers: configured}, ca, "gw-a", "gw-b"), ca, providers
}

func mustServeEveryWay(t *testing.T, p *gateway.Pair) {
	t.Helper()
	for _, a := range everyWay() {
		got := p.Do(t, a.call())
		if got.Status != http.StatusOK || text(t, a, got) == "" {
			t.Fatalf("%s, %+v: %d %s", p.Name, a, got.Status, got.Body)
		}
	}
}

// providerRow is a row of `bardo providers --json`.
type providerRow struct {
	Provider, State string
	Order           int
}

func providersOf(t *testing.T, g *gateway.Gateway) map[string]providerRow {
	t.Helper()
	var rows []providerRow
	out := g.Bardo(t, "providers", "--json", "-c", g.File)
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	byName := map[string]providerRow{}
	for _, r := range rows {
		byName[r.Provider] = r
	}
	return byName
}

func TestPairsOfOneControlPlane(t *testing.T) {
	t.Parallel()
	s, _, providers := pairs(t)
	one, two := s.Pairs[0], s.Pairs[1]
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}

	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A success that is reported late, among the failures to come, would end their row.
	eventually(t, "the report of each pair's successes", func() bool {
		return s.Plane.Metrics(t).Sum("bardo_xds_results_total") >= float64(len(s.Pairs)*(len(providers)+len(everyWay()))) // a ping of each provider, a result of each request
	})

	t.Run("D-16: a failure that one pair sees moves the order of the other", func(t *testing.T) {
		providers[0].Behave(fake.Behaviour{Status: 503})
		for range 6 {
			one.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
		}
		eventually(t, "the other's new order", func() bool {
			r := providersOf(t, two.Gateway)
			return r["p-openai"].State == "down" && r["p-anthropic"].Order == 1
		})
		for _, a := range everyWay() {
			got := two.Do(t, a.call())
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "p-anthropic" || got.Header.Get("X-Bardo-Attempts") != "1" {
				t.Errorf("%+v: %d from %s at attempt %s", a, got.Status, got.Header.Get("X-Bardo-Provider"), got.Header.Get("X-Bardo-Attempts"))
			}
		}
		if r := providersOf(t, s.Plane)["p-openai"]; r.State != "down" || r.Order != 2 {
			t.Errorf("the control plane says %+v", r)
		}
	})

	t.Run("it comes back for both by one pair's trial", func(t *testing.T) {
		providers[0].Behave(fake.Behaviour{})
		ctx := within(t, 60*time.Second)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for providersOf(t, one.Gateway)["p-openai"].State != "healthy" || providersOf(t, two.Gateway)["p-openai"].State != "healthy" {
			for _, p := range s.Pairs { // one of them tries it; the one that saw it fail then sees for itself
				p.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatal("it never came back")
			}
		}
	})

	t.Run("an operator's word reaches all pairs", func(t *testing.T) { checkSwitchReachesAllPairs(t, one, s, two, providers) })

	t.Run("the control plane says how it is", func(t *testing.T) { checkPlaneMetrics(t, s, one) })
	s.AssertSound(t)
}

func checkPlaneMetrics(t *testing.T, s *gateway.Split, one *gateway.Pair) {
	t.Helper()
	eventually(t, "both pairs", func() bool {
		m := s.Plane.Metrics(t)
		return m.Sum("bardo_xds_nodes") == 2 && m.Sum("bardo_xds_feed_streams") == 2
	})
	if m := s.Plane.Metrics(t); m.Sum("bardo_xds_pushes_total") == 0 || m.Sum("bardo_xds_nacks_total") != 0 {
		t.Errorf("%v pushes, %v refused", m.Sum("bardo_xds_pushes_total"), m.Sum("bardo_xds_nacks_total"))
	}
	if m := one.Metrics(t); m.Sum("bardo_feed_connected") != 1 {
		t.Error("a sidecar does not know that it is connected")
	}
}

func checkSwitchReachesAllPairs(t *testing.T, one *gateway.Pair, s *gateway.Split, two *gateway.Pair, providers []*fake.Server) {
	t.Helper()
	if r := one.Try(t, "providers", "disable", "p-openai"); r.Code == 0 || !strings.Contains(r.Stderr, "control plane") {
		t.Errorf("a pair may decide for all: %+v", r)
	}
	began := time.Now()
	s.Plane.Bardo(t, "providers", "disable", "p-openai")
	eventually(t, "the order without it", func() bool {
		return providersOf(t, one.Gateway)["p-openai"].State == "disabled" && providersOf(t, two.Gateway)["p-openai"].State == "disabled"
	})
	t.Logf("all pairs had the switch, and said so, after %s", time.Since(began))
	providers[0].Forget()
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	if n := len(providers[0].Generations()); n != 0 {
		t.Errorf("a disabled provider was called %d times", n)
	}
	s.ControlPlane.Kill()
	if err := s.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := providersOf(t, s.Plane)["p-openai"]; r.State != "disabled" {
		t.Errorf("after a restart of the control plane: %+v", r)
	}
	s.Plane.Bardo(t, "providers", "enable", "p-openai")
	eventually(t, "the order with it", func() bool {
		return providersOf(t, one.Gateway)["p-openai"].Order == 1 && providersOf(t, two.Gateway)["p-openai"].Order == 1
	})
}

// TestPairsDoNotNeedTheControlPlane: it may be killed; what is configured meanwhile holds once it is back, and nothing fails before.
func TestPairsDoNotNeedTheControlPlane(t *testing.T) {
	t.Parallel()
	s, _, providers := pairs(t)
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	s.ControlPlane.Kill()
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	// The same provider at another place: another cluster, which Envoy cannot know yet.
	moved := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "moved"})
	next := []gateway.Provider{{ID: "p-openai", Fake: moved, Models: models("m", "")}}
	s.ConfigurePairs(t, next...)
	for _, p := range s.Pairs {
		eventually(t, "a sidecar that waits", func() bool { return strings.Contains(p.Log(), "the new configuration waits") })
		mustServeEveryWay(t, p)
	}
	if n := len(moved.Generations()); n != 0 {
		t.Errorf("the new place was called %d times without a control plane", n)
	}
	s.ConfigurePlane(t, next...)
	if err := s.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Pairs {
		eventually(t, "the new configuration", func() bool { return strings.Contains(p.Log(), "configuration in force") })
	}
	for _, old := range providers {
		old.Forget()
	}
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	if n := len(providers[0].Generations()) + len(providers[1].Generations()); n != 0 || len(moved.Generations()) == 0 {
		t.Errorf("the old places were called %d times, the new one %d times", n, len(moved.Generations()))
	}

	// And once more with everything running, the pairs first: they wait until their Envoys can follow.
	back := []gateway.Provider{{ID: "p-openai", Fake: providers[0], Models: models("m", "")}}
	s.ConfigurePairs(t, back...)
	s.ConfigurePlane(t, back...)
	for _, p := range s.Pairs {
		eventually(t, "the next configuration", func() bool {
			got := p.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
			if got.Status != http.StatusOK {
				t.Errorf("%s, during a reload: %d %s", p.Name, got.Status, got.Body)
			}
			return strings.Count(p.Log(), "configuration in force") == 2
		})
	}
	moved.Forget()
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	if n := len(moved.Generations()); n != 0 {
		t.Errorf("the place before was called %d times", n)
	}
}

// TestASidecarStartsWithoutTheControlPlane, by what it was told before; and one that was told nothing is not ready.
func TestASidecarStartsWithoutTheControlPlane(t *testing.T) {
	t.Parallel()
	s, ca, _ := pairs(t)
	s.Plane.Bardo(t, "providers", "disable", "p-openai")
	eventually(t, "the switch", func() bool { return providersOf(t, s.Gateway)["p-openai"].State == "disabled" })
	s.ControlPlane.Kill()
	s.Sidecar.Kill()
	if err := s.Sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sidecar", func() bool { return s.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Status == http.StatusOK })
	mustServeEveryWay(t, s.Pair)
	if r := providersOf(t, s.Gateway)["p-openai"]; r.State != "disabled" {
		t.Errorf("it has forgotten what was switched off: %+v", r)
	}
	fresh := s.AddPair(t, ca, "gw-c", "gw-c")
	if err := fresh.Sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its wait", func() bool { return strings.Contains(fresh.Log(), "waiting for the control plane") })
	if alive, ready := status(t, fresh.Admin+"/healthz"), status(t, fresh.Admin+"/readyz"); alive != http.StatusOK || ready != http.StatusServiceUnavailable {
		t.Errorf("a sidecar that was told nothing: /healthz %d, /readyz %d", alive, ready)
	}
	if found, _ := filepath.Glob(filepath.Join(fresh.Home, "run.json")); len(found) != 0 {
		t.Error("it says that it is ready")
	}
	if err := s.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its readiness", func() bool { return status(t, fresh.Admin+"/readyz") == http.StatusOK })
	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if code := status(t, s.Plane.Admin+path); code != http.StatusOK {
			t.Errorf("the control plane's %s: %d", path, code)
		}
	}
}

// status is how a GET is answered.
func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(soon(t), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

type badCertificateCase struct {
	name           string
	certified      string
	change         func(dir string) error
	theirs, planes string // what the log of each side says; "" if that side cannot know
	envoys         string
}

// TestACertificateThatIsNotGoodIsRefused, with a line in the log of each side, and nothing else is disturbed.
func TestACertificateThatIsNotGoodIsRefused(t *testing.T) {
	t.Parallel()
	ca, foreign := newAuthority(t), newAuthority(t)
	_, configured := twoProviders(t)
	s := gateway.RunPairs(t, gateway.Options{Config: quick, Providers: configured}, ca, "gw-a")
	for _, tt := range []badCertificateCase{
		{"of-a-stranger", "of-a-stranger", func(dir string) error {
			_, err := foreign.Write(dir, "of-a-stranger", time.Hour)
			if err != nil {
				return err
			}
			return mtlstest.Trust(mtlstest.Files(dir, "of-a-stranger").CA, ca)
		}, "signed by unknown authority", "signed by unknown authority", "closed"},
		{"expired", "expired", func(dir string) error {
			_, err := ca.Write(dir, "expired", -time.Hour)
			return err
		}, "expired", "expired", "closed"},
		{"of-another-node", "gw-a", func(string) error { return nil }, `not for \"of-another-node\"`, `not for \"of-another-node\"`, "closed"},
		{"that-trusts-others", "that-trusts-others", func(dir string) error {
			return mtlstest.Trust(mtlstest.Files(dir, "that-trusts-others").CA, foreign)
		}, "signed by unknown authority", "", "TLS_error"},
	} {
		t.Run(tt.name, func(t *testing.T) { checkBadCertificate(t, s, ca, tt) })
	}
	t.Run("another node is not served by a sidecar", func(t *testing.T) {
		files, err := ca.Write(t.TempDir(), "gw-x", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		id, err := mtls.Load(files, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		conn, err := (&tls.Dialer{Config: id.Client("gw-a")}).DialContext(soon(t), "tcp", s.ExtprocAddress())
		if err != nil {
			t.Fatalf("the sidecar does not show the certificate of its node: %v", err)
		}
		defer func() { _ = conn.Close() }()
		_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")) // the refusal may be there already
		if n, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("the sidecar answered with %d bytes", n)
		}
		eventually(t, "the sidecar's log", func() bool { return strings.Contains(s.Log(), `not for \"gw-a\"`) })
	})
	mustServeEveryWay(t, s.Pair)
}

func checkBadCertificate(t *testing.T, s *gateway.Split, ca *mtlstest.Authority, tt badCertificateCase) {
	t.Helper()
	p := s.AddPair(t, ca, tt.name, tt.certified)
	if err := tt.change(p.Home); err != nil {
		t.Fatal(err)
	}
	p.Begin(t)
	eventually(t, "the pair's log", func() bool {
		return strings.Contains(p.Log(), "control plane is away") && strings.Contains(p.Log(), tt.theirs)
	})
	eventually(t, "its Envoy's log", func() bool {
		return envoySays(p.Log(), "bardo_xds", tt.envoys)
	})
	eventually(t, "the control plane's log", func() bool { return strings.Contains(s.Plane.Log(), tt.planes) })
	if found, _ := filepath.Glob(filepath.Join(p.Home, "feed.json")); len(found) != 0 {
		t.Error("it was told the order")
	}
	p.Envoy.Kill()
	p.Sidecar.Kill()
}

// envoySays looks for a line of Envoy's that holds all of the words.
func envoySays(log string, words ...string) bool {
lines:
	for line := range strings.Lines(log) {
		for _, w := range words {
			if !strings.Contains(line, w) || strings.HasPrefix(line, "{") {
				continue lines
			}
		}
		return true
	}
	return false
}

// TestCertificatesRotate to those of another authority, without a restart of who uses them.
func TestCertificatesRotate(t *testing.T) {
	t.Parallel()
	s, old, _ := pairs(t)
	next := newAuthority(t)
	type holder struct{ dir, name string }
	holders := []holder{{s.Plane.Home, gateway.PlaneName}}
	for _, p := range s.Pairs {
		holders = append(holders, holder{p.Home, p.Name})
	}
	trust := func(as ...*mtlstest.Authority) {
		for _, h := range holders {
			if err := mtlstest.Trust(mtlstest.Files(h.dir, h.name).CA, as...); err != nil {
				t.Fatal(err)
			}
		}
	}
	trust(old, next)
	for _, h := range holders {
		if _, err := next.Write(h.dir, h.name, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	trust(next)
	for _, p := range s.Pairs {
		eventually(t, "its Envoy to have read them", func() bool { return p.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Status == http.StatusOK })
		mustServeEveryWay(t, p)
	}

	// A new Envoy has read the new files only: the sidecar and the control plane, which run since before, must know it.
	s.Envoy.Kill()
	if err := s.Envoy.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustServeEveryWay(t, s.Pair)

	// A new control plane and a new sidecar: Envoys and the other sidecar, which run since before, must know them.
	s.ControlPlane.Kill()
	if err := s.ControlPlane.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all to be connected again", func() bool {
		m := s.Plane.Metrics(t)
		return m.Sum("bardo_xds_nodes") == 2 && m.Sum("bardo_xds_feed_streams") == 2
	})
	other := s.Pairs[1]
	other.Sidecar.Kill()
	if err := other.Sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other pair", func() bool { return other.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Status == http.StatusOK })
	mustServeEveryWay(t, other)
}
