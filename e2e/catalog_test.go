package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// refreshingConfig is a configuration that reads providers' lists every 50 ms, and writes events to a file in dir.
func refreshingConfig(dir string) string {
	return quick + "models: {refresh: 50ms}\ntelemetry: {events: 'file:" + filepath.Join(dir, "events") + "'}\n"
}

// modelEvent is an event as it is written.
type modelEvent struct {
	Event string
	Data  struct {
		Provider, Model, Error string
		Old                    struct{ Input, Output float64 } `json:"old_price"`
		New                    struct{ Input, Output float64 } `json:"new_price"`
		Status                 int
	}
}

// modelEvents are those of a name that were written.
func modelEvents(t *testing.T, dir, name string) (out []modelEvent) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var e modelEvent
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			t.Fatalf("%q is no event: %v", s.Text(), err)
		}
		if e.Event == name {
			out = append(out, e)
		}
	}
	return out
}

// shownModel is what GET /v1/models/{id} says, in either form.
type shownModel struct {
	ID        string
	Type      string
	Providers []string
	Health    map[string]string
	Context   int
	Quality   string
	Price     shownPrice
	Reasoning struct {
		Dialect, Control string
		Efforts          []string
	}
	Offers []struct {
		Provider, Upstream string
		Price              shownPrice
		Quarantined        string `json:"quarantined_until"`
	}
}

type shownPrice struct {
	Input, Output   float64
	Known           bool
	Source, Updated string
}

func show(t *testing.T, g *gateway.Gateway, id string, header ...string) (m shownModel, status int) {
	t.Helper()
	got := g.Do(t, gateway.Call{Method: http.MethodGet, Path: "/v1/models/" + id, Header: header})
	if got.Status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.Body), &m); err != nil {
			t.Fatalf("%s: %v", got.Body, err)
		}
	}
	return m, got.Status
}

func costs(t *testing.T, g *gateway.Gateway, model string) (cost string, status int) {
	t.Helper()
	got := g.Do(t, ask{dialect: fake.OpenAI, model: model}.call())
	return got.Header.Get("X-Bardo-Cost"), got.Status
}

type listedCase struct {
	about, form, id, upstream string
	market                    fake.Config
	provider                  gateway.Provider
	statesCosts               bool // answers say what they cost, and that is what counts
}

var listedCases = []listedCase{
	{"openrouter K-89", fake.ListOpenRouter, "claude-opus-4-6", "anthropic/claude-opus-4.6", fake.Config{Vendor: fake.OpenRouter}, gateway.Provider{ID: "openrouter"}, true},
	{"venice", fake.ListVenice, "llama-3.3-70b", "llama-3.3-70b", fake.Config{Vendor: fake.Venice}, gateway.Provider{ID: "venice"}, false},
	{"blockrun", fake.ListBlockRun, "deepseek-r1", "deepseek/deepseek-r1", fake.Config{Vendor: fake.BlockRun}, gateway.Provider{ID: "blockrun"}, false},
	{"custom", fake.ListOpenRouter, "gpt-4o", "openai/gpt-4o", fake.Config{Dialect: fake.OpenAI}, gateway.Provider{ID: "mine", More: "catalog: openrouter"}, false},
}

// TestAProvidersListIsWhatItServes goes through the life of a list: read, unchanged, changed, unavailable, and stored for the next start.
func TestAProvidersListIsWhatItServes(t *testing.T) {
	t.Parallel()
	for _, row := range listedCases {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			l := newListLab(t, row)
			l.checkRead(t)
			l.checkChanged(t)
			l.checkOutage(t)
		})
	}
}

// listLab is a gateway before a provider whose list it reads.
type listLab struct {
	listedCase
	*gateway.Gateway

	options gateway.Options
	dir     string // of events
	market  *fake.Server
	first   fake.Listed // the model as the list has it at first
	before  string      // what a request for it cost then
}

func newListLab(t *testing.T, row listedCase) *listLab {
	t.Helper()
	l := &listLab{
		listedCase: row, dir: t.TempDir(), market: fake.Start(t, row.market),
		first: fake.Listed{ID: row.upstream, Input: "100", Output: "200", Context: 4096},
	}
	l.provider.Fake = l.market
	l.market.Publish(l.form, l.first, fake.Listed{ID: "newcorp/nova-9", Input: "1", Output: "2"})
	l.options = gateway.Options{Config: refreshingConfig(l.dir), Providers: []gateway.Provider{l.provider}}
	l.Gateway = gateway.Run(t, l.options)
	return l
}

// checkRead waits for the list, and looks at the model as clients and the provider see it.
func (l *listLab) checkRead(t *testing.T) {
	t.Helper()
	eventually(t, "the list", func() bool {
		m, _ := show(t, l.Gateway, l.id)
		return m.Price.Source == "provider"
	})
	m, _ := show(t, l.Gateway, l.id)
	if m.Price.Input != 100 || m.Price.Output != 200 || m.Context != 4096 || m.Price.Updated == "" || !slices.Equal(m.Providers, []string{l.provider.ID}) ||
		len(m.Offers) != 1 || m.Offers[0].Upstream != l.upstream || m.Quality == "" || m.Health[l.provider.ID] == "" || m.Reasoning.Control == "" {
		t.Errorf("shown as %+v", m)
	}
	if c, _ := show(t, l.Gateway, l.id, "anthropic-version: 2023-06-01"); c.Type != "model" || c.Price != m.Price || len(c.Offers) != 1 {
		t.Errorf("shown to Anthropic's clients as %+v", c)
	}
	l.before, _ = costs(t, l.Gateway, l.id)
	if asked := l.market.Generations(); len(asked) != 1 || asked[0].Model != l.upstream {
		t.Errorf("asked for %+v", asked)
	}
	eventually(t, "a look that finds nothing new", func() bool { return l.market.Unchanged() > 0 })
}

// checkChanged changes a price, adds a model and removes another.
func (l *listLab) checkChanged(t *testing.T) {
	t.Helper()
	l.market.Publish(l.form, fake.Listed{ID: l.upstream, Input: "50.000001", Output: "100"}, fake.Listed{ID: "newcorp/nova-10", Input: "1", Output: "2"})
	eventually(t, "the changes", func() bool { return len(modelEvents(t, l.dir, "catalog:model_vanished")) > 0 })
	changed := modelEvents(t, l.dir, "catalog:price_changed")
	if len(changed) != 1 || changed[0].Data.Model != l.id || changed[0].Data.Old.Input != 100 || changed[0].Data.New.Input != 50.000001 {
		t.Errorf("told of prices: %+v", changed)
	}
	if e := modelEvents(t, l.dir, "catalog:model_appeared"); len(e) != 1 || e[0].Data.Model != "newcorp/nova-10" || e[0].Data.Provider != l.provider.ID {
		t.Errorf("told of new models: %+v", e)
	}
	if e := modelEvents(t, l.dir, "catalog:model_vanished"); len(e) != 1 || e[0].Data.Model != "newcorp/nova-9" {
		t.Errorf("told of removed models: %+v", e)
	}
	if cost, status := costs(t, l.Gateway, l.id); status != http.StatusOK || cost >= l.before && !l.statesCosts {
		t.Errorf("%d, charged %s, and %s before", status, cost, l.before)
	}
	removed := ask{dialect: fake.OpenAI, model: "newcorp/nova-9"}
	mustFail(t, removed, l.Do(t, removed.call()), http.StatusNotFound, "model_not_found")
}

// checkOutage takes the list away: the last one stays in force, also after a restart, until there is another.
func (l *listLab) checkOutage(t *testing.T) {
	t.Helper()
	l.market.BehaveOn("/models", fake.Behaviour{Status: http.StatusServiceUnavailable})
	eventually(t, "the outage", func() bool { return len(modelEvents(t, l.dir, "catalog:refresh_failed")) > 1 })
	cost, status := costs(t, l.Gateway, l.id)
	if status != http.StatusOK || cost >= l.before && !l.statesCosts {
		t.Errorf("in the outage: %d, charged %s", status, cost)
	}
	if err := l.Stop(); err != nil {
		t.Fatal(err)
	}
	l.options.Home = l.Home
	next := gateway.Run(t, l.options)
	if again, status := costs(t, next, l.id); status != http.StatusOK || again != cost {
		t.Errorf("started again in the outage: %d, charged %s, and %s before", status, again, cost)
	}
	if _, status := show(t, next, "newcorp/nova-9"); status != http.StatusNotFound {
		t.Errorf("a removed model is back: %d", status)
	}
	l.market.BehaveOn("/models", fake.Behaviour{})
	l.market.Publish(l.form, l.first)
	eventually(t, "the list after the outage", func() bool {
		m, _ := show(t, next, l.id)
		return m.Price.Input == 100
	})
}

// TestAModelThatAProviderNoLongerHasIsAskedForLast: its list is wrong, the provider is not broken.
func TestAModelThatAProviderNoLongerHasIsAskedForLast(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		about   string
		stream  bool
		goesOn  bool // to the next provider (B-24)
		refusal fake.Behaviour
	}{
		{"not found", false, false, fake.Behaviour{Status: http.StatusNotFound, ErrorCode: "model_not_found", Message: "The model `m` does not exist or you do not have access to it."}},
		{"gone, in a stream", true, true, fake.Behaviour{Status: http.StatusGone}},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
			second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
			dir := t.TempDir()
			g := gateway.Run(t, gateway.Options{Config: refreshingConfig(dir), Providers: []gateway.Provider{
				{ID: "first", Fake: first, Models: append(models("m", ""), models("n", "")...)}, {ID: "second", Fake: second, Models: models("m", "")},
			}})
			first.BehaveFor("m", row.refusal)
			got := g.Do(t, ask{dialect: fake.OpenAI, model: "m", stream: row.stream}.call())
			if by := got.Header.Get("X-Bardo-Provider"); (got.Status == http.StatusOK) != row.goesOn || row.goesOn && by != "second" {
				t.Fatalf("%d by %q: %s", got.Status, by, got.Body)
			}
			eventually(t, "the event", func() bool { return len(modelEvents(t, dir, "catalog:model_quarantined")) == 1 })
			if e := modelEvents(t, dir, "catalog:model_quarantined")[0].Data; e.Provider != "first" || e.Model != "m" || e.Status != row.refusal.Status {
				t.Errorf("told %+v", e)
			}
			for range 6 { // more than what would put a broken provider last
				if by := g.Do(t, ask{dialect: fake.OpenAI, model: "m"}.call()).Header.Get("X-Bardo-Provider"); by != "second" {
					t.Fatalf("answered by %q", by)
				}
			}
			if by := g.Do(t, ask{dialect: fake.OpenAI, model: "n"}.call()).Header.Get("X-Bardo-Provider"); by != "first" {
				t.Errorf("another model is served by %q", by)
			}
			m, _ := show(t, g, "m")
			if len(m.Offers) != 2 || m.Offers[0].Quarantined == "" || m.Offers[1].Quarantined != "" || strings.Contains(m.Health["first"], "down") {
				t.Errorf("shown as %+v", m)
			}
			if first.Times(`"model":"m"`) != 1 {
				t.Error("the provider was asked again")
			}
		})
	}
}

// TestEverySidecarReadsTheLists: through its own Envoy, and without waiting for anybody.
func TestEverySidecarReadsTheLists(t *testing.T) {
	t.Parallel()
	market := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "market"})
	market.Publish(fake.ListOpenRouter, fake.Listed{ID: "acme/nova", Input: "1", Output: "2"})
	dir := t.TempDir()
	s := gateway.RunPairs(t, gateway.Options{
		Config: refreshingConfig(dir), Providers: []gateway.Provider{{ID: "market", Fake: market, More: "catalog: openrouter"}},
	}, newAuthority(t), "gw-a", "gw-b")
	for _, price := range []string{"1", "3"} {
		market.Publish(fake.ListOpenRouter, fake.Listed{ID: "acme/nova", Input: price, Output: "4"})
		for _, p := range s.Pairs {
			eventually(t, p.Name+"'s list", func() bool {
				m, _ := show(t, p.Gateway, "acme/nova")
				return m.Price.Source == "provider" && m.Price.Output == 4 && (m.Price.Input == 1) == (price == "1")
			})
			if _, status := costs(t, p.Gateway, "nova"); status != http.StatusOK {
				t.Errorf("%s: %d", p.Name, status)
			}
		}
	}
	eventually(t, "an event of each", func() bool {
		n := 0
		for _, e := range modelEvents(t, dir, "catalog:price_changed") {
			if e.Data.New.Input == 3 {
				n++
			}
		}
		return n == len(s.Pairs)
	})
}
