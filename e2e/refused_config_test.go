package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// configStatus is what `bardo config status --json` prints.
type configStatus struct {
	Version string
	Failure *struct{ Version, Reason string }
}

func statusOfConfig(t testing.TB, g *gateway.Gateway) (s configStatus, code int) {
	t.Helper()
	r := g.Try(t, "config", "status", "--json")
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatalf("config status: %v: %s%s", err, r.Stdout, r.Stderr)
	}
	return s, r.Code
}

// bodyOf is a GET on one of the gateway's addresses.
func bodyOf(t testing.TB, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// whyRefused is what Envoy says of an address that another program listens on.
const whyRefused = "Address already in use"

// versionOf is the version of the configuration in the gateway's file.
func versionOf(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	content, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.6x", sha256.Sum256(content))
}

// TestAConfigurationThatEnvoyRefusesIsNotReloaded: it passes all checks, but Envoy cannot listen where it says. All of the configuration before
// stays in force, everyone who asks is told why, nothing is sent in a loop, and the new one is taken once it can be.
func TestAConfigurationThatEnvoyRefusesIsNotReloaded(t *testing.T) {
	t.Parallel()
	a := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "a"})
	b := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "b"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "a", Fake: a, Models: models("m", "")}}})
	first := versionOf(t, g)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	at := taken.Addr().String()
	g.Configure(t, gateway.Options{
		Config:    quick + fmt.Sprintf("listen: {http: %q, https: 127.0.0.1:0, admin: 127.0.0.1:0}\n", at),
		Providers: []gateway.Provider{{ID: "b", Fake: b, Models: models("n", "")}},
	})
	second := versionOf(t, g)

	if r := g.Try(t, "config", "reload"); r.Code != 1 || !strings.Contains(r.Stderr, whyRefused) {
		t.Errorf("config reload: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for range 100 {
		asked := ask{dialect: fake.OpenAI, model: "m"}
		if got := g.Do(t, asked.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "a" {
			t.Fatalf("the configuration before is not in force: %d %s", got.Status, got.Body)
		}
	}
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, ask{dialect: fake.OpenAI, model: "n"}.call()), http.StatusNotFound, "model_not_found")
	checkRefusedInLog(t, g, second)
	checkRefusedInCommands(t, g, first, second)

	// The port becomes free: nothing has to be restarted, and nobody has to say so.
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new listener in run.json", func() bool { return readRunFile(t, g).HTTP == at })
	g.URL = "http://" + at
	eventually(t, "the new configuration", func() bool {
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "n"}.call())
		return got.Status == http.StatusOK && got.Header.Get("X-Bardo-Provider") == "b"
	})
	checkInForce(t, g, second)
}

// checkRefusedInLog: the log says that the version was not reloaded, and why, and Envoy was not given it again and again.
func checkRefusedInLog(t *testing.T, g *gateway.Gateway, version string) {
	t.Helper()
	log := g.Log()
	if strings.Contains(log, fmt.Sprintf(`"msg":"configuration reloaded","file":%q,"version":%q`, g.File, version)) {
		t.Error("the log says that it was reloaded")
	}
	if !strings.Contains(log, "the configuration was not reloaded") || !strings.Contains(log, whyRefused) {
		t.Error("the log does not say that it was not reloaded, and why")
	}
	if n := strings.Count(log, "envoy refused a configuration"); n == 0 || n > 5 {
		t.Errorf("Envoy was given it %d times", n)
	}
}

// checkRefusedInCommands: commands and /readyz?verbose say which version is in force, which was refused, and why.
func checkRefusedInCommands(t *testing.T, g *gateway.Gateway, inForce, refused string) {
	t.Helper()
	s, code := statusOfConfig(t, g)
	if code != 1 || s.Version != inForce || s.Failure == nil || s.Failure.Version != refused || !strings.Contains(s.Failure.Reason, whyRefused) {
		t.Errorf("config status: exit %d, %+v", code, s)
	}
	if r := g.Try(t, "config", "check", "-c", g.File); r.Code != 2 || !strings.Contains(r.Stderr, whyRefused) {
		t.Errorf("config check: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, url := range []string{g.Admin, g.URL} {
		if status, body := bodyOf(t, url+"/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, whyRefused) {
			t.Errorf("%s/readyz?verbose: %d %s", url, status, body)
		}
		if status, body := bodyOf(t, url+"/readyz"); status != http.StatusOK || strings.Contains(body, "configuration") {
			t.Errorf("%s/readyz: %d %s", url, status, body)
		}
	}
}

// checkInForce: everything that can be asked says that the version is in force.
func checkInForce(t *testing.T, g *gateway.Gateway, version string) {
	t.Helper()
	if s, code := statusOfConfig(t, g); code != 0 || s.Version != version || s.Failure != nil {
		t.Errorf("config status: exit %d, %+v", code, s)
	}
	if status, body := bodyOf(t, g.URL+"/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, `{"name":"configuration","ok":true}`) {
		t.Errorf("/readyz?verbose: %d %s", status, body)
	}
	if r := g.Try(t, "config", "reload"); r.Code != 0 || !strings.Contains(r.Stdout, version) {
		t.Errorf("config reload: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}

// TestAReloadCommandSaysWhatIsWrong: mistakes in the file are printed, with the place.
func TestAReloadCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: quick})
	g.Configure(t, gateway.Options{Config: quick + "billing: {spread_pct: lots}\n"})
	if r := g.Try(t, "config", "reload"); r.Code != 2 || !strings.Contains(r.Stderr, g.File+":") || !strings.Contains(r.Stderr, "billing.spread_pct") {
		t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if s, code := statusOfConfig(t, g); code != 1 || s.Failure == nil {
		t.Errorf("config status: exit %d, %+v", code, s)
	}
	g.Configure(t, gateway.Options{Config: quick})
	if r := g.Try(t, "config", "reload"); r.Code != 0 {
		t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if _, code := statusOfConfig(t, g); code != 0 {
		t.Errorf("config status: exit %d", code)
	}
	if err := g.Stop(); err != nil {
		t.Error(err)
	}
	if r := g.Try(t, "config", "reload"); r.Code != 1 || !strings.Contains(r.Stderr, "no gateway runs") {
		t.Errorf("without a gateway: exit %d: %s", r.Code, r.Stderr)
	}
}

// TestAnEnvoyThatRefusesDoesNotHoldUpTheOthers: of two pairs, one's Envoy starts again where its port is taken. The control plane says so, does not
// send it the same in a loop, and gives the other pair what is new; the first one serves once it can.
func TestAnEnvoyThatRefusesDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	s, _, _ := pairs(t)
	good, bad := s.Pairs[0], s.Pairs[1]
	if err := s.LocatePlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Pairs {
		mustServeEveryWay(t, p)
	}
	bad.Envoy.Kill()
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimPrefix(bad.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	if err := bad.Envoy.Start(); err != nil {
		t.Fatal(err)
	}
	const why = "Address already in use"
	eventually(t, "the refusal", func() bool {
		r := s.Plane.Try(t, "config", "status")
		return r.Code == 1 && strings.Contains(r.Stdout, "envoy gw-b refused") && strings.Contains(r.Stdout, why)
	})
	moved := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "moved"})
	next := []gateway.Provider{{ID: "p-new", Fake: moved, Models: models("new", "")}}
	s.ConfigurePairs(t, next...)
	s.ConfigurePlane(t, next...)
	if r := s.Plane.Try(t, "config", "reload"); r.Code != 1 || !strings.Contains(r.Stderr, "gw-b") || strings.Contains(r.Stderr, "gw-a") || !strings.Contains(r.Stderr, why) {
		t.Errorf("config reload: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	asked := ask{dialect: fake.OpenAI, model: "new"}
	eventually(t, "the new configuration where it is taken", func() bool { return good.Do(t, asked.call()).Status == http.StatusOK })
	if status, body := bodyOf(t, s.Plane.Admin+"/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, why) {
		t.Errorf("/readyz?verbose of the control plane: %d %s", status, body)
	}
	if n := s.Plane.Metrics(t).Sum("bardo_xds_nacks_total"); n == 0 || n > 10 {
		t.Errorf("%v refusals", n)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if r := s.Plane.Try(t, "config", "reload"); r.Code != 0 {
		t.Errorf("config reload: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	eventually(t, "the other pair", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		res, err := bad.Open(ctx, asked.call())
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// callTime bounds a call to an Envoy that may not listen.
const callTime = 5 * time.Second

// TestAReloadNamesWhatWaitsForTheNextStart: in what the commands print and in the log, until the value is the earlier one again.
func TestAReloadNamesWhatWaitsForTheNextStart(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	configured := func(more string) gateway.Options {
		return gateway.Options{Config: quick + more, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	}
	g := gateway.Run(t, configured(""))
	g.Configure(t, configured("sessions: {mode: \"off\"}\nbilling: {spread_pct: 7}\n"))
	const waits = "at the next start: sessions.mode; until then the values before are in force"
	for _, args := range [][]string{{"config", "reload"}, {"config", "status"}} {
		if r := g.Try(t, args...); r.Code != 0 || !strings.Contains(r.Stdout, waits) || strings.Contains(r.Stdout, "billing") {
			t.Errorf("%v: exit %d: %s%s", args, r.Code, r.Stdout, r.Stderr)
		}
	}
	if out := g.Try(t, "doctor").Stdout; !strings.Contains(out, "the gateway that runs takes sessions.mode at its next start") {
		t.Errorf("doctor: %s", out)
	}
	if log := g.Log(); !strings.Contains(log, "takes effect at the next start") || !strings.Contains(log, "sessions.mode") {
		t.Errorf("the log: %s", log)
	}
	g.Configure(t, configured("billing: {spread_pct: 7}\n"))
	if r := g.Try(t, "config", "reload"); r.Code != 0 || strings.Contains(r.Stdout, "next start") {
		t.Errorf("config reload: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
}
