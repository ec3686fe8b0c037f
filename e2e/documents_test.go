package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/mdtest"
	"bardo.money/gateway/internal/proctest"
)

// reader types what the documents say at a gateway of the test.
type reader struct {
	*testing.T
	g       *gateway.Gateway
	key     string
	request string // the id of a request of its own
	session string // the id of one of its sessions
	prepaid string // the id of a key with a balance
}

func documents(t *testing.T) map[string]string {
	t.Helper()
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	return mdtest.Pages(t, root)
}

var (
	shownKey     = regexp.MustCompile(`bardo_sk_[A-Za-z0-9_]*…`)
	shownRequest = regexp.MustCompile(`req_[a-z0-9]+`)
)

// types runs a script in bash, with the gateway's address, key and request id in the places of the shown ones, and returns what it printed.
func (r *reader) types(script string) (printed string, ok bool) {
	r.Helper()
	program, _ := gateway.Programs(r)
	script = strings.NewReplacer("http://127.0.0.1:8080", r.g.URL, "http://127.0.0.1:9090", r.g.Admin).Replace(script)
	token, err := os.ReadFile(filepath.Join(r.g.Home, "admin-token"))
	if err != nil {
		r.Fatal(err)
	}
	script = shownRequest.ReplaceAllLiteralString(shownKey.ReplaceAllLiteralString(script, r.key), r.request)
	c := exec.CommandContext(r.Context(), "bash", "-c", `set -o pipefail; bardo() { "$BARDO_PROGRAM" "$@"; }; curl() { command curl -sS --fail-with-body "$@"; }
`+script)
	c.Dir = r.TempDir()
	c.Env = append(os.Environ(), "BARDO_PROGRAM="+program, "BARDO_HOME="+r.g.Home, "BARDO="+r.g.URL, "KEY="+r.key, "SESSION="+r.session, "TOKEN="+strings.TrimSpace(string(token)), "ID="+r.prepaid)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// TestRequestsInTheDocumentsAreAnswered sends each request that README and docs show with curl, as it stands there, to the gateway that is
// started without a configuration; those for embeddings, which the demo does not make, to one with a provider.
func TestRequestsInTheDocumentsAreAnswered(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{})
	r := &reader{T: t, g: g, key: g.Key}
	r.request = g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"demo","messages":[{"role":"user","content":"x"}]}`}).Header.Get("x-request-id")
	var s sessionReply
	g.Do(t, gateway.Call{Path: "/v1/sessions", Body: `{"golem_id":"g1"}`}).JSON(t, &s)
	r.session, r.prepaid = s.ID, g.CreateKey(t, "--name", "prepaid", "--balance-usd", "5").ID
	makers := gateway.Run(t, gateway.Options{Providers: []gateway.Provider{{ID: "openai", Fake: fake.Start(t, fake.Config{Dialect: fake.OpenAI})}}})
	maker := &reader{T: t, g: makers, key: makers.Key}
	sent := 0
	for page, text := range documents(t) {
		for _, b := range mdtest.Blocks(page, text) {
			if !slices.Contains([]string{"sh", "console"}, b.Info) || !onlyAsks(t, b.Script()) {
				continue
			}
			sent++
			asks := r
			if strings.Contains(b.Script(), "/embeddings") {
				asks = maker
			}
			if out, ok := asks.types(b.Script()); !ok {
				t.Errorf("%s:\n%s\nis answered with\n%s", &b, b.Script(), out)
			}
		}
	}
	if sent < 6 {
		t.Errorf("the documents show %d blocks with requests", sent)
	}
}

// onlyAsks reports whether a script has requests by curl and nothing else that runs, and nothing (…) that its reader has to fill in, besides a key.
func onlyAsks(t *testing.T, script string) bool {
	t.Helper()
	if strings.Contains(shownKey.ReplaceAllLiteralString(script, ""), "…") {
		return false
	}
	commands, err := mdtest.Commands(t, script)
	if err != nil {
		t.Error(err)
	}
	return len(commands) > 0 && !slices.ContainsFunc(commands, func(c []string) bool { return c[0] != "curl" && c[0] != "grep" })
}

// differing is what a second run shows otherwise, and what stands in its place before two runs are compared.
var differing = []struct {
	what *regexp.Regexp
	same string
}{
	{shownRequest, "req_"},
	{regexp.MustCompile(`bardo_sk_\S+`), "bardo_sk_"},
	{regexp.MustCompile(`(?m)^id( +)\S+$`), "id"},
	{regexp.MustCompile(`(remaining-requests|reset-requests): \S+`), "$1"},
	{regexp.MustCompile(`"created_at":"[^"]*"`), "created_at"},
	{regexp.MustCompile(`"latency_ms":\d+`), "latency_ms"},
	{regexp.MustCompile(`\d+\.\d% of \d+`), "n% of m"},
	{regexp.MustCompile(`5 failures in a row|no connection: connection refused`), "down by requests or by pings"}, // on a slow machine, pings come first
	{regexp.MustCompile(`\r| +$`), ""},
}

func alike(s string) string {
	for _, d := range differing {
		s = d.what.ReplaceAllString(s, d.same)
	}
	return strings.TrimSpace(s)
}

func (r *reader) wantShown(b *mdtest.Block, printed string) {
	r.Helper()
	if have, want := alike(printed), alike(b.Output()); have != want {
		r.Errorf("%s shows\n%s\nand a run gives\n%s", b, want, have)
	}
}

// TestGettingStartedShowsARealRun types what docs/getting-started.md has its reader type from two providers on, and compares what comes with
// what the page shows.
func TestGettingStartedShowsARealRun(t *testing.T) {
	t.Parallel()
	one, two := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	root, err := proctest.Root()
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(root, "docs", "examples", "failover.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("http://127.0.0.1:9101/v1", one.URL, "http://127.0.0.1:9102/v1", two.URL, "sk-one", one.Key, "sk-two", two.Key)
	g := gateway.Run(t, gateway.Options{NoKey: true, Config: config.Replace(string(example))})
	for _, s := range []*fake.Server{one, two} {
		s.Behave(fake.Behaviour{Tokens: 16})
	}
	r := &reader{T: t, g: g}
	text := documents(t)["docs/getting-started.md"]
	_, section, _ := strings.Cut(text, "\n## 5.")
	blocks := mdtest.Blocks("docs/getting-started.md, from section 5 on", section)
	var asked *mdtest.Block
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.Info == "sh": // starts what runs already
		case b.Info == "text": // the second provider answers
			one.Stop()
			r.run(b, asked.Script())
			for range 7 {
				r.run(nil, asked.Script())
			}
		case strings.Contains(b.Script(), "keys create"):
			r.key = regexp.MustCompile(`bardo_sk_\S+`).FindString(r.run(b, b.Script()))
		case strings.Contains(b.Script(), "KEY="):
			asked = b
			r.request = shownRequest.FindString(r.run(b, b.Script()))
		default:
			r.run(b, b.Script())
		}
	}
	if asked == nil || r.request == "" {
		t.Error("the page asks nothing")
	}
	sameShown(t, documents(t)["README.md"], section)
}

// run types a script, which must succeed, and compares what it prints with what a block shows, if there is one.
func (r *reader) run(shown *mdtest.Block, script string) string {
	r.Helper()
	out, ok := r.types(script)
	if !ok {
		r.Errorf("%s\nfails:\n%s", script, out)
	}
	if shown != nil {
		r.wantShown(shown, out)
	}
	return out
}

// sameShown wants a summary to show for a command what the whole page does, and of headers nothing that the page does not show.
func sameShown(t *testing.T, summary, whole string) {
	t.Helper()
	outputs := map[string]string{}
	for _, b := range mdtest.Blocks("", whole) {
		outputs[b.Script()] = alike(b.Output())
	}
	for _, b := range mdtest.Blocks("README.md", summary) {
		if want, ok := outputs[b.Script()]; ok && strings.TrimSpace(b.Output()) != "" && alike(b.Output()) != want {
			t.Errorf("%s shows\n%s\nand docs/getting-started.md\n%s", &b, b.Output(), want)
		}
		for _, h := range shownHeader.FindAllString(b.Output(), -1) {
			if !strings.Contains(whole, h+"\n") {
				t.Errorf("%s shows %s, and docs/getting-started.md does not", &b, h)
			}
		}
	}
}

var shownHeader = regexp.MustCompile(`x-bardo-\S+: \S+`)
