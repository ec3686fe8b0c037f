package e2e

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// reload puts a configuration in force and waits until the gateway says that it is.
func reload(t testing.TB, g *gateway.Gateway, o gateway.Options) {
	t.Helper()
	g.Configure(t, o)
	file, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`"msg":"configuration reloaded","file":%q,"version":"%.6x"`, g.File, sha256.Sum256(file))
	said := func() int { return strings.Count(g.Log(), line) }
	before := said()
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new configuration", func() bool { return said() > before })
}

// TestD60ReloadUnderLoad changes a running gateway step by step, while concurrent clients call it and streams of every kind go on.
func TestD60ReloadUnderLoad(t *testing.T) {
	t.Parallel()
	slow := fake.Behaviour{Tokens: 40, Gap: 100 * time.Millisecond}
	start := func(name string, d fake.Dialect) *fake.Server {
		f := fake.Start(t, fake.Config{Dialect: d, Name: name, Key: "sk-fake-key"})
		f.BehaveFor("slow", slow)
		f.BehaveFor("slow-alone", slow)
		return f
	}
	a, moved, b, c := start("a", fake.OpenAI), start("moved", fake.OpenAI), start("b", fake.Anthropic), start("c", fake.OpenAI)
	shared := append(models("m", ""), models("slow", "")...)
	pa := gateway.Provider{ID: "a", Fake: a, Models: append(models("slow-alone", ""), shared...)}
	pb := gateway.Provider{ID: "b", Fake: b, Format: "anthropic", Models: shared}
	pc := gateway.Provider{ID: "c", Fake: c, Models: models("new", "")}
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{pa, pb}}
	g := gateway.Run(t, o)
	load := startClients(t, g, 8, everyKind("m")...)
	load.more(t, 30)
	backed := begin(t, g, ask{dialect: fake.Anthropic, model: "slow", stream: true})
	alone := begin(t, g, ask{dialect: fake.OpenAI, model: "slow-alone", stream: true})

	t.Run("a provider is added", func(t *testing.T) {
		o.Providers = []gateway.Provider{pa, pb, pc}
		checkProviderAdded(t, o, g)
	})
	t.Run("a provider moves", func(t *testing.T) { checkProviderMoves(t, o, moved, g, load, a) })
	t.Run("the order changes", func(t *testing.T) {
		o.Providers = []gateway.Provider{pb, o.Providers[0], pc}
		reload(t, g, o)
		load.say("in the new order")
		load.more(t, 40)
		// A request that a busy machine let time out goes on to the next provider, which is the old first one.
		if first, second := b.Times("in the new order"), moved.Times("in the new order"); first <= second {
			t.Errorf("the order is still the old one: %d requests at the new first provider, %d at the old one", first, second)
		}
	})
	t.Run("a bad file changes nothing", func(t *testing.T) { checkBadFile(t, o, g, load) })
	t.Run("providers are removed", func(t *testing.T) {
		o.Providers = []gateway.Provider{pb}
		reload(t, g, o)
		reload(t, g, o) // once more: what is under way at removed providers is not touched
		load.say("alone")
		load.more(t, 40)
		for _, asked := range everyKind("new") {
			mustFail(t, asked, g.Do(t, asked.call()), http.StatusNotFound, "model_not_found")
		}
		if moved.Saw("alone") || !b.Saw("alone") {
			t.Error("requests still go to a removed provider")
		}
	})
	for name, s := range map[string]*running{"backed": backed, "alone": alone} {
		if got := s.finish(t); got != words(40) {
			t.Errorf("the %s stream that was under way says %q", name, got)
		}
	}
	load.stop(t)
	t.Run("limits change", func(t *testing.T) { checkLimitsChange(t, o, g) })
	g.AssertSound(t)
}

// checkProviderAdded adds the provider "c", the only one of the model "new".
func checkProviderAdded(t *testing.T, o gateway.Options, g *gateway.Gateway) {
	t.Helper()
	asked := ask{dialect: fake.OpenAI, model: "new"}
	mustFail(t, asked, g.Do(t, asked.call()), http.StatusNotFound, "model_not_found")
	reload(t, g, o)
	for _, asked := range everyKind("new") {
		if got := g.Do(t, asked.call()); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "c" {
			t.Errorf("%+v: %d %s", asked, got.Status, got.Body)
		}
	}
}

// checkLimitsChange sets limits of size and rate.
func checkLimitsChange(t *testing.T, o gateway.Options, g *gateway.Gateway) {
	t.Helper()
	o.Config = strings.Replace(quick, "rpm: 0", "rpm: 1, max_body_bytes: 2000", 1)
	reload(t, g, o)
	asked := ask{dialect: fake.OpenAI, model: "m", say: strings.Repeat("x", 3000)}
	mustFail(t, asked, g.Do(t, asked.call()), http.StatusRequestEntityTooLarge, "request_too_large")
	asked.say = ""
	eventually(t, "the rate limit", func() bool { return g.Do(t, asked.call()).Status == http.StatusTooManyRequests })
}

func checkProviderMoves(t *testing.T, o gateway.Options, moved *fake.Server, g *gateway.Gateway, load *concurrentClients, a *fake.Server) {
	t.Helper()
	o.Providers[0].Fake = moved
	reload(t, g, o)
	load.say("after the move")
	load.more(t, 40)
	if a.Saw("after the move") || !moved.Saw("after the move") {
		t.Error("requests still go to where the provider was")
	}
}

func checkBadFile(t *testing.T, o gateway.Options, g *gateway.Gateway, load *concurrentClients) {
	t.Helper()
	bad := o
	bad.Config += "billing: {spread_pct: lots}\n"
	g.Configure(t, bad)
	file, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	problem := fmt.Sprintf("%s:%d: billing.spread_pct: ", g.File, strings.Count(string(file), "\n"))
	if err := g.Reload(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the problem in the log", func() bool {
		return strings.Contains(g.Log(), problem) && strings.Contains(g.Log(), "was not reloaded")
	})
	load.more(t, 40)
}

// TestStreamsGoOnWhereProvidersAreReachedOtherwise: Envoy replaces clusters then, and what a module reads ends with its cluster.
func TestStreamsGoOnWhereProvidersAreReachedOtherwise(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Tokens: 30, Gap: 100 * time.Millisecond})
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	s := begin(t, g, ask{dialect: fake.OpenAI, model: "m", stream: true})
	o.Config = strings.Replace(quick, "connect: 20s", "connect: 21s", 1)
	reload(t, g, o)
	if p.Generations()[0].Cancelled {
		t.Error("the provider's answer was ended")
	}
	again := begin(t, g, ask{dialect: fake.OpenAI, model: "m", stream: true})
	for name, s := range map[string]*running{"before": s, "after": again} {
		if got := s.finish(t); got != words(30) {
			t.Errorf("the stream from %s the reload says %q", name, got)
		}
	}
	g.AssertSound(t)
}

// TestAChangedFileIsNoticed: no signal is needed.
func TestAChangedFileIsNoticed(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "first", Fake: first, Models: models("m", "")}}}
	g := gateway.Run(t, o)
	o.Providers = []gateway.Provider{{ID: "second", Fake: second, Models: models("m", "")}}
	g.Configure(t, o)
	eventually(t, "the second provider", func() bool {
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call())
		return got.Status == http.StatusOK && got.Header.Get("X-Bardo-Provider") == "second"
	})
}

// TestAFileThatIsBeingWrittenIsNotRead: what stands in it meanwhile is a configuration, too, with other listeners and without providers.
func TestAFileThatIsBeingWrittenIsNotRead(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "p"})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	whole, err := os.ReadFile(g.File)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(g.File, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	load := startClients(t, g, 2, everyKind("m")...)
	for i := range 100 {
		begin := []byte("telemetry: {log_level: info}\n")
		if i%2 == 0 {
			begin = nil
		}
		write(begin)
		write(whole)
		load.more(t, 5) // time passes, and the gateway looks at the file
	}
	load.more(t, 30)
	load.stop(t)
	read := func() int { return strings.Count(g.Log(), "configuration reloaded") }
	eventually(t, "the file to be read in the end", func() bool { return read() > 0 })
	write(nil)
	eventually(t, "an empty file to be refused", func() bool { return strings.Contains(g.Log(), "the file is empty") })
	before := read()
	write(whole)
	eventually(t, "the file to be read again", func() bool { return read() > before })
}

// TestAProviderThatMovesTakesItsKeyAlong: neither place ever sees the other's key, and nobody notices.
func TestAProviderThatMovesTakesItsKeyAlong(t *testing.T) {
	t.Parallel()
	here := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "here", Key: "sk-fake-here"})
	there := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "there", Key: "sk-fake-there"})
	at := func(f *fake.Server) gateway.Options {
		return gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: f, Models: models("m", "")}}}
	}
	g := gateway.Run(t, at(here))
	load := startClients(t, g, 8, everyKind("m")...)
	load.more(t, 30)
	for range 3 {
		for _, f := range []*fake.Server{there, here} {
			reload(t, g, at(f))
			load.more(t, 30)
		}
	}
	load.stop(t)
	if here.Saw("sk-fake-there") || there.Saw("sk-fake-here") {
		t.Error("a key went to a place that it is not for")
	}
	if len(there.Requests()) == 0 {
		t.Error("the provider never moved")
	}
}
