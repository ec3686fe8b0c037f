package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/seedtest"
)

// wrongFiles are what makes a file one that is refused.
var wrongFiles = []func(r *rand.Rand, file string) string{
	func(_ *rand.Rand, s string) string { return s + "\nnothing_known: 1\n" },
	func(_ *rand.Rand, s string) string { return s + "\nlimits: {rpm: 1}\n" }, // the second one
	func(_ *rand.Rand, s string) string { return strings.Replace(s, "rpm: 0", "rpm: many", 1) },
	func(_ *rand.Rand, s string) string { return strings.Replace(s, "rpm: 0", "rpm: -7", 1) },
	func(_ *rand.Rand, s string) string { return strings.Replace(s, "rpm: 0", "rpm: [0]", 1) },
	func(_ *rand.Rand, s string) string { return strings.Replace(s, "{rpm: 0}", "&a {rpm: 0, <<: *a}", 1) },
	func(_ *rand.Rand, s string) string { return strings.Replace(s, "limits:", "\tlimits:", 1) },
	func(_ *rand.Rand, s string) string { return s + "\npipeline: {default: none}\n" },
	func(_ *rand.Rand, s string) string {
		return s + "\ntelemetry: " + strings.Repeat("[", 900) + strings.Repeat("]", 900)
	},
	func(r *rand.Rand, s string) string {
		return strings.Replace(s, "order: [", pick(r, "order: [absent, ", "order: [[", "order: ["+"\x00"), 1)
	},
	func(_ *rand.Rand, s string) string {
		return strings.Replace(s, "api_key: ", "api_key: ${NOT_THERE}, nothing: ", 1)
	},
}

var whereItIs = regexp.MustCompile(`config\.yaml:\d+: `)

// TestRandomReloadsWhileRequestsRun reloads random configurations, right and wrong ones, while requests run: no request is lost, a wrong one is refused with the line,
// and the one before stays in force. BARDO_SOAK=1 makes it longer; BARDO_SEED is the one seed to repeat.
func TestRandomReloadsWhileRequestsRun(t *testing.T) {
	t.Parallel()
	for _, seed := range seedtest.Seeds(10) {
		for _, shape := range []string{"extproc", "module"} {
			t.Run(fmt.Sprintf("seed=%d/%s", seed, shape), func(t *testing.T) { reloadAtRandom(t, shape, rand.New(rand.NewPCG(seed, 8))) })
		}
	}
}

func reloadAtRandom(t *testing.T, shape string, r *rand.Rand) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "p"})
	o := gateway.Options{Config: quick, DataPath: shape, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	var over atomic.Bool
	var clients sync.WaitGroup
	for i := range 3 {
		dialect := []fake.Dialect{fake.OpenAI, fake.Anthropic, fake.Gemini}[i]
		clients.Go(func() {
			for n := 0; !over.Load(); n++ {
				a := ask{dialect: dialect, model: "m", stream: n%2 == 0, say: fmt.Sprint("question ", i, n)}
				if got := g.Do(t, a.call()); got.Status != http.StatusOK || got.Err != nil {
					t.Errorf("%+v: %d %v %s", a, got.Status, got.Err, got.Body)
				}
			}
		})
	}
	in := versionOf(t, g)
	for n := range 14 {
		o.Config = quick + fmt.Sprintf("# %d\npipeline: {default: %s, hash: %s, pii: {policy: %s}, tools: {meta: %s}, compression: {mode: %s}}\nbilling: {spread_pct: %d}\n", n,
			pick(r, "minimal", "fast", "standard", "full"), pick(r, "on", "off"), pick(r, "off", "detect", "mask"), pick(r, "auto", "on", "off"), pick(r, "on", "off"), r.IntN(50))
		o.Providers[0].Models = []gateway.Model{{ID: "m", Price: fmt.Sprintf("{input: %d, output: %d}", 1+r.IntN(9), 1+r.IntN(9))}}
		if r.IntN(2) == 0 {
			g.Configure(t, o)
			in = versionOf(t, g)
			if got := g.Try(t, "config", "reload"); got.Code != 0 {
				t.Errorf("reload: exit %d: %s%s\n%s", got.Code, got.Stdout, got.Stderr, o.Config)
			}
		} else {
			reloadWrong(t, g, r)
		}
		if s, _ := statusOfConfig(t, g); s.Version != in {
			t.Errorf("version %s is in force, not %s: %+v", s.Version, in, s.Failure)
		}
	}
	over.Store(true)
	clients.Wait()
	g.AssertSound(t)
}

// reloadWrong reloads a file that is refused, and puts the right one back.
func reloadWrong(t *testing.T, g *gateway.Gateway, r *rand.Rand) {
	t.Helper()
	right, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	wrong := pick(r, wrongFiles...)(r, string(right))
	if err := os.WriteFile(g.File, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "reload"} {
		args := []string{"config", command}
		if command == "check" {
			args = append(args, "-c", g.File)
		}
		if got := g.Try(t, args...); got.Code == 0 || command == "check" && got.Code != 2 || !whereItIs.MatchString(got.Stdout+got.Stderr) || strings.Contains(got.Stderr, "panic") {
			t.Errorf("config %s: exit %d: %s%s\n%s", command, got.Code, got.Stdout, got.Stderr, wrong)
		}
	}
	if err := os.WriteFile(g.File, right, 0o600); err != nil {
		t.Fatal(err)
	}
}
