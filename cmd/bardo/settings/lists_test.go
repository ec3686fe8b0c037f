package settings

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

const bookshelf = `{"data":[{"id":"m"},{"id":"n"}]}`

func shelf(t *testing.T) (*Lists, *config.Provider, List, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l := NewLists(home.Dir(t.TempDir()), slog.New(slog.NewTextHandler(&log, nil)))
	p := &config.Provider{Provider: kind.Provider{ID: "direct/p", Catalog: catalog.FormOpenAI}, Endpoints: []config.URL{{Scheme: "http", Host: "h", Path: "/v1"}}}
	models, err := catalog.Parse(p.Catalog, []byte(bookshelf))
	if err != nil {
		t.Fatal(err)
	}
	return l, p, List{Source: SourceOf(p), Format: p.Catalog, ETag: "e", Read: time.Now(), Body: []byte(bookshelf), Parsed: models}, &log
}

func TestListsOutliveTheProcess(t *testing.T) {
	l, p, list, _ := shelf(t)
	if _, ok := l.Of(p); ok {
		t.Error("a list out of nothing")
	}
	if err := l.Put(p.ID, list); err != nil {
		t.Fatal(err)
	}
	next := &Lists{dir: l.dir, log: l.log, lists: map[policy.ProviderID]List{}}
	got, ok := next.Of(p)
	if !ok || len(got.Parsed) != 2 || got.ETag != "e" || !got.Read.Equal(list.Read) {
		t.Errorf("%v, %+v", ok, got)
	}
	moved := *p
	moved.Endpoints = []config.URL{{Scheme: "http", Host: "elsewhere", Path: "/v1"}}
	if _, ok := next.Of(&moved); ok {
		t.Error("a provider at another address has the list of the one before")
	}
	other := *p
	other.Catalog = catalog.FormVenice
	if _, ok := next.Of(&other); ok {
		t.Error("a list is read in another form")
	}
	if n := len(next.all([]config.Provider{*p, {Provider: kind.Provider{ID: "q"}}, {Provider: kind.Provider{ID: "r", Catalog: catalog.FormOpenAI}}})); n != 1 {
		t.Errorf("%d lists", n)
	}
}

func TestAKeptListThatCannotBeUsedIsNone(t *testing.T) {
	for about, text := range map[string]string{"half a file": `{"source":"h`, "no list": `{"source":"http://h/v1","format":"openai","body":{}}`, "empty": ``} {
		l, p, list, log := shelf(t)
		if err := l.Put(p.ID, list); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v %v", files, err)
		}
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		next := &Lists{dir: l.dir, log: l.log, lists: map[policy.ProviderID]List{}}
		if _, ok := next.Of(p); ok || !strings.Contains(log.String(), "cannot be used") {
			t.Errorf("%s: %v, %s", about, ok, log)
		}
	}
}

// TestB17ModelsHaveThePricesOfTheirTime: whenever they are created, and with or without lists.
func TestB17ModelsHaveThePricesOfTheirTime(t *testing.T) {
	cfg, problems := config.Parse("c.yaml", []byte(`providers: {custom: [{id: p, endpoints: ["http://localhost:1/v1"], models: [{id: m, price: {input: 1, output: 2, hours: [{from: "16:30", to: "24:00", pct: 50}]}}]}]}`), func(string) (string, bool) { return "", false })
	if config.Failed(problems) {
		t.Fatal(problems)
	}
	synctest.Test(t, func(t *testing.T) { // starts at midnight UTC
		for _, want := range []policy.Price{1_000_000, 500_000, 1_000_000} {
			for _, lists := range []*Lists{nil, NewLists(home.Dir(t.TempDir()), slog.New(slog.DiscardHandler))} {
				c, err := Models(cfg, lists)
				if err != nil {
					t.Fatal(err)
				}
				r := Resolver(nil, c, cfg)
				found, err := r.Resolve("m", "")
				if err != nil || found[0].Prices.Input != want || r.PricesUntil().Before(time.Now()) || r.PricesUntil().After(time.Now().Add(17*time.Hour)) {
					t.Errorf("%v, %v until %s", err, found, r.PricesUntil())
				}
			}
			time.Sleep(16*time.Hour + 30*time.Minute) //nolint:forbidigo // synctest's
		}
	})
}
