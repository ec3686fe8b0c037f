package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

const bookshelf = `{"data":[{"id":"m"},{"id":"n"}]}`

func shelf(t *testing.T) (*modelLists, *config.Provider, modelList, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	l := newModelLists(home(t.TempDir()), slog.New(slog.NewTextHandler(&log, nil)))
	p := &config.Provider{Provider: kind.Provider{ID: "direct/p", Catalog: catalog.FormOpenAI}, Endpoints: []config.URL{{Scheme: "http", Host: "h", Path: "/v1"}}}
	models, err := catalog.Parse(p.Catalog, []byte(bookshelf))
	if err != nil {
		t.Fatal(err)
	}
	return l, p, modelList{Source: sourceOf(p), Format: p.Catalog, ETag: "e", Read: time.Now(), Body: []byte(bookshelf), parsed: models}, &log
}

func TestListsOutliveTheProcess(t *testing.T) {
	l, p, list, _ := shelf(t)
	if _, ok := l.of(p); ok {
		t.Error("a list out of nothing")
	}
	if err := l.put(p.ID, list); err != nil {
		t.Fatal(err)
	}
	next := &modelLists{dir: l.dir, log: l.log, lists: map[policy.ProviderID]modelList{}}
	got, ok := next.of(p)
	if !ok || len(got.parsed) != 2 || got.ETag != "e" || !got.Read.Equal(list.Read) {
		t.Errorf("%v, %+v", ok, got)
	}
	moved := *p
	moved.Endpoints = []config.URL{{Scheme: "http", Host: "elsewhere", Path: "/v1"}}
	if _, ok := next.of(&moved); ok {
		t.Error("a provider at another address has the list of the one before")
	}
	other := *p
	other.Catalog = catalog.FormVenice
	if _, ok := next.of(&other); ok {
		t.Error("a list is read in another form")
	}
	if n := len(next.all([]config.Provider{*p, {Provider: kind.Provider{ID: "q"}}, {Provider: kind.Provider{ID: "r", Catalog: catalog.FormOpenAI}}})); n != 1 {
		t.Errorf("%d lists", n)
	}
}

func TestAKeptListThatCannotBeUsedIsNone(t *testing.T) {
	for about, text := range map[string]string{"half a file": `{"source":"h`, "no list": `{"source":"http://h/v1","format":"openai","body":{}}`, "empty": ``} {
		l, p, list, log := shelf(t)
		if err := l.put(p.ID, list); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(l.dir, "*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v %v", files, err)
		}
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		next := &modelLists{dir: l.dir, log: l.log, lists: map[policy.ProviderID]modelList{}}
		if _, ok := next.of(p); ok || !strings.Contains(log.String(), "cannot be used") {
			t.Errorf("%s: %v, %s", about, ok, log)
		}
	}
}

func TestJitterIsATenth(t *testing.T) {
	for range 1000 {
		if d := jittered(time.Hour); d < 54*time.Minute || d > 66*time.Minute+1 {
			t.Fatal(d)
		}
	}
	if d := jittered(1); d < 1 || d > 2 {
		t.Error(d)
	}
}
