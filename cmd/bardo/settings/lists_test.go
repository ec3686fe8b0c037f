package settings

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
