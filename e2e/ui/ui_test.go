// Package ui tests the dashboard as people use it: in a browser, against the real gateway.
package ui

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

func TestMain(m *testing.M) { os.Exit(gateway.Main(m)) }

// tools is where make installs the browser.
const tools = "../../.tools"

// marker is said in each request: no page may show it.
const marker = "zebra-in-the-prompt"

// hostile is a model's name that would run script if a page took it for markup.
const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>`

// tasks are what the driver needs to know.
type tasks struct {
	Base, Token, Key, Marker, Shots string
	Dear, Fast, Slow                string // models
	Hit, Hostile                    string // requests
	Down, Other                     string // providers
}

// result is what the driver found.
type result struct {
	Problems, Violations, Foreign []string

	Why, Attempts, Removed, Down, Disabled, Secret, New, Revoked, Ended, Live, Hostile string

	Refused, Streams, Held, Models, Answer, Facts, Tried string // in the playground
}

// office is a gateway with some traffic.
type office struct {
	*gateway.Gateway

	tasks tasks
}

func ask(model, more string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":200,"messages":[{"role":"user","content":%q}]%s}`, model, marker, more)
}

// open starts a gateway in front of a provider that works and one that fails, and sends requests.
func open(t *testing.T) *office {
	t.Helper()
	works, fails := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "steady"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "shaky"})
	fails.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	works.BehaveFor("large", fake.Behaviour{Usage: &fake.Usage{Input: 120_000, Output: 4_000}})
	works.BehaveFor("small", fake.Behaviour{Text: "All quiet.", Usage: &fake.Usage{Input: 900, Output: 120}})
	works.BehaveFor("slow", fake.Behaviour{Tokens: 9, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 2}})
	slow := gateway.Model{ID: "slow", Price: "{input: 1, output: 1}"}
	large, small := gateway.Model{ID: "large", Price: "{input: 3, output: 15}"}, gateway.Model{ID: "small", Price: "{input: 0.4, output: 1.6}"}
	o := &office{Gateway: gateway.Run(t, gateway.Options{
		Config: "limits: {rpm: 0}\nrouting: {ping_interval: 1h}\n",
		Providers: []gateway.Provider{
			{ID: "shaky", Fake: fails, Models: []gateway.Model{large}},
			{ID: "steady", Fake: works, Models: []gateway.Model{large, small, slow}},
			{ID: "spare", Fake: works, Models: []gateway.Model{small}},
		},
	})}
	token, err := os.ReadFile(filepath.Join(o.Home, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	o.tasks = tasks{
		Base: o.URL, Token: strings.TrimSpace(string(token)), Key: o.Key, Marker: marker, Shots: os.Getenv("BARDO_SHOTS"), Dear: "large", Fast: "small", Slow: "slow", Down: "shaky", Other: "spare",
	}
	for range 6 { // as many failures in a row as put a provider out of favour, and one that goes round it
		o.served(t, ask("large", ""))
	}
	for i := range 12 {
		o.served(t, ask("small", fmt.Sprintf(`,"temperature":0,"seed":%d`, i/3)))
	}
	o.tasks.Hit = o.served(t, ask("small", `,"temperature":0,"seed":1`)).Header.Get("X-Request-Id")
	refused := o.Chat(t, ask(hostile, ""))
	if refused.Status != http.StatusNotFound {
		t.Fatalf("%d %s", refused.Status, refused.Body)
	}
	o.tasks.Hostile = refused.Header.Get("X-Request-Id")
	return o
}

func (o *office) served(t *testing.T, body string) gateway.Answer {
	t.Helper()
	got := o.Chat(t, body)
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	return got
}

// drive has the driver do the tasks.
func drive(t *testing.T, o *office) (r result) {
	t.Helper()
	dir, err := filepath.Abs(tools)
	if err != nil {
		t.Fatal(err)
	}
	what, err := json.Marshal(o.tasks)
	if err != nil {
		t.Fatal(err)
	}
	unpacked := dir + "/ui/browser" // not where another checkout's tests unpack the browser
	if err := os.MkdirAll(unpacked, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), dir+"/ui/bin/node", "driver.cjs")
	cmd.Env = append(os.Environ(), "NODE_PATH="+dir+"/ui/node_modules", "TMPDIR="+unpacked, "TASKS="+string(what))
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the browser: %v (make browser installs it)\n%s", err, failed.String())
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if strings.Contains(string(out), marker) {
		t.Error("what was said in a request is on a page")
	}
	return r
}

// TestB07PeopleFindTheirWay does the main tasks in a browser: find out why a request cost what it cost, remove a wrong cached answer, see which provider is
// down, make and revoke a key, watch requests, try some. All pages pass the checks of accessibility, in light and dark and on a phone, run without an error of script or
// policy, and load nothing from elsewhere.
func TestB07PeopleFindTheirWay(t *testing.T) {
	t.Parallel()
	o := open(t)
	r := drive(t, o)
	for name, list := range map[string][]string{"a problem": r.Problems, "not accessible": r.Violations, "loaded from elsewhere": r.Foreign} {
		for _, what := range slices.Compact(slices.Sorted(slices.Values(list))) {
			t.Errorf("%s: %s", name, what)
		}
	}
	for _, row := range []struct {
		task, got string
		want      []string
	}{
		{"why it cost this", r.Why, []string{"large at steady", "input", "120 000", "$3.00", "$0.36", "output", "$15.00", "$0.06", "Charged", "$0.504"}},
		{"its attempts", r.Attempts, []string{"steady", "ok"}},
		{"the removed answer", r.Removed, []string{"was removed"}},
		{"the provider that is down", r.Down, []string{"shaky", "down", "100.0% of"}},
		{"the disabled provider", r.Disabled, []string{"spare", "disabled"}},
		{"the new key", r.Secret, []string{"bardo_sk_"}},
		{"what the new key sees", r.New, []string{"No request yet"}},
		{"the revoked key", r.Revoked, []string{"was revoked"}},
		{"where its session ended", r.Ended, []string{"/ui/login"}},
		{"the live request", r.Live, []string{"200", "small", "steady", "900 / 120"}},
		{"a request that was refused", r.Refused, []string{"401", "key"}},
		{"an answer that has not ended", r.Streams, []string{"Answering"}},
		{"an answer that is held", r.Held, []string{"HeartbeatDecision", "before the whole is valid"}},
		{"the models to try", r.Models, []string{"auto", "large", "small", "slow"}},
		{"the answer of one that was tried", r.Answer, []string{"All quiet."}},
		{"what it cost", r.Facts, []string{"$0.000663", "small", "steady", "900 / 120", "miss"}},
		{"its own page", r.Tried, []string{"small at steady", "operator", "Charged", "$0.000663"}},
		{"the hostile name", r.Hostile, []string{hostile, "model_not_found"}},
	} {
		for _, w := range row.want {
			if !strings.Contains(row.got, w) {
				t.Errorf("%s: no %q in %q", row.task, w, row.got)
			}
		}
	}
	again := o.served(t, ask("small", `,"temperature":0,"seed":1`))
	if k := again.Header.Get("X-Bardo-Cache"); k != "miss" && k != "" {
		t.Errorf("after the cached answer was removed, the cache says %q", k)
	}
	if got := o.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/models", Key: r.Secret}); got.Status != http.StatusUnauthorized {
		t.Errorf("the revoked key: %d", got.Status)
	}
}
