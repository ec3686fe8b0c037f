package e2e

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// operatorsToken is what the operator of a gateway logs in with.
func operatorsToken(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(g.Home, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(token))
}

// loggedIn is the cookie of a session in the dashboard.
func loggedIn(t *testing.T, g *gateway.Gateway, secret string) string {
	t.Helper()
	got := g.Do(t, gateway.Call{
		Method: http.MethodPost, Path: "/ui/login", NoKey: true, Header: []string{"content-type: application/x-www-form-urlencoded"}, Body: url.Values{"secret": {secret}}.Encode(),
	})
	cookie, _, _ := strings.Cut(got.Header.Get("Set-Cookie"), ";")
	if got.Status != http.StatusSeeOther || cookie == "" {
		t.Fatalf("log in: %d %s", got.Status, got.Body)
	}
	return "cookie: " + cookie
}

// TestB07TheDashboardIsBehindEnvoy: pages, forms and the live stream pass through Envoy, in both shapes of the data path; a key sees what it sent and not what
// another one did, the operator switches a provider, and no page of another origin reads one.
func TestB07TheDashboardIsBehindEnvoy(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	o := gateway.Options{
		Config:    strings.TrimPrefix(quick, "\n") + "listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0, cors_origins: [\"https://app.example\"]}\n",
		Providers: []gateway.Provider{{ID: "one", Fake: p, Models: models("m", "")}, {ID: "two", Fake: p, Models: models("m", "")}},
	}
	g := gateway.Run(t, o)
	eventually(t, "a greeting that says where it is, and how to log in", func() bool {
		return strings.Contains(g.Log(), "  dashboard  "+g.URL+"/ui\n") && strings.Contains(g.Log(), "the operator's token in "+g.Home+"/admin-token\n")
	})
	mine, other := g.CreateKey(t, "--name", "mine"), g.CreateKey(t, "--name", "other")
	page := func(cookie, path string, header ...string) gateway.Answer {
		return g.Do(t, gateway.Call{Path: path, NoKey: true, Header: append([]string{cookie}, header...)})
	}
	key, operator := loggedIn(t, g, mine.Key), loggedIn(t, g, operatorsToken(t, g))
	stream, err := g.Open(soon(t), gateway.Call{Path: "/ui/live/events", NoKey: true, Header: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Body.Close() }()
	lines := bufio.NewScanner(stream.Body)
	until := func(want string) string {
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return lines.Text()
			}
		}
		t.Fatalf("the stream ended without %q: %v", want, lines.Err())
		return ""
	}
	until("event: hello")
	ids := map[string]string{}
	for _, k := range []gateway.NewKey{other, mine} {
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: k.Key, Body: `{"model":"m","messages":[{"role":"user","content":"a secret of ` + k.Name + `"}]}`})
		if got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		ids[k.Name] = got.Header.Get("X-Request-Id")
	}
	if line := until(`"id":`); !strings.Contains(line, ids["mine"]) {
		t.Errorf("the first request of the stream is %s", line)
	}
	for _, row := range []struct {
		cookie, path string
		status       int
		want         string
	}{
		{key, "/ui", http.StatusOK, "Cost today"},
		{key, "/ui/requests/" + ids["mine"], http.StatusOK, "Why it cost this"},
		{key, "/ui/requests/" + ids["other"], http.StatusNotFound, "no such request"},
		{operator, "/ui/requests/" + ids["other"], http.StatusOK, "Why it cost this"},
		{operator, "/venice", http.StatusSeeOther, ""},
		{"x: y", "/ui/keys", http.StatusSeeOther, ""},
		{operator, "/ui/providers", http.StatusOK, "Disable"},
	} {
		got := page(row.cookie, row.path, "origin: https://app.example")
		if got.Status != row.status || !strings.Contains(got.Body, row.want) || strings.Contains(got.Body, "a secret of") {
			t.Errorf("%s: %d %s", row.path, got.Status, got.Body)
		}
		if got.Header.Get("Access-Control-Allow-Origin") != "" || !strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", row.path, got.Header)
		}
	}
	_, form, _ := strings.Cut(page(operator, "/ui").Body, `name="csrf" value="`)
	csrf, _, _ := strings.Cut(form, `"`)
	switched := g.Do(t, gateway.Call{
		Method: http.MethodPost, Path: "/ui/providers/one/disable", NoKey: true, Header: []string{operator, "content-type: application/x-www-form-urlencoded"}, Body: "csrf=" + csrf,
	})
	if switched.Status != http.StatusSeeOther || !strings.Contains(g.Bardo(t, "providers"), "disabled") {
		t.Errorf("switch a provider: %d %s", switched.Status, switched.Body)
	}
	// The playground names the schema of a subsystem's answers while they are checked against it.
	plain := o.Config
	for _, row := range []struct {
		setting string
		named   bool
	}{{"enabled: true", true}, {"enabled: false", false}, {"validation: true", true}, {"validation: false", false}} {
		o.Config = plain + "inference: {structured_outputs: {" + row.setting + "}}\n"
		g.Configure(t, o)
		eventually(t, "the playground with "+row.setting, func() bool {
			got := page(key, "/ui/playground")
			return got.Status == http.StatusOK && strings.Contains(got.Body, `data-schema="RiskAssessment"`) == row.named
		})
	}
	large := g.Do(t, gateway.Call{Method: http.MethodPost, Path: "/ui/login", NoKey: true, Body: "secret=" + strings.Repeat("x", 70<<10)})
	if large.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large form: %d", large.Status)
	}
	if strings.Contains(g.Log(), "a secret of") || strings.Contains(g.Log(), operatorsToken(t, g)) {
		t.Error("the log has a secret")
	}
}

// TestB07TheDashboardIsSwitchedOff by listen.ui.
func TestB07TheDashboardIsSwitchedOff(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{Config: "listen: {http: 127.0.0.1:0, https: 127.0.0.1:0, admin: 127.0.0.1:0, ui: off}\n", NoKey: true})
	for _, path := range []string{"/ui", "/ui/login", "/ui/live/events", "/venice"} {
		if got := g.Do(t, gateway.Call{Path: path}); got.Status != http.StatusNotFound || !strings.Contains(got.Body, "listen.ui") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
}
