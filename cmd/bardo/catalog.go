package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// modelLists are providers' own lists of models: those that were read last, and those of the run before until then. Each process with a
// data path reads them for itself, in split mode each sidecar. Safe for concurrent use.
type modelLists struct {
	dir string // where they are kept
	log *slog.Logger

	mu    sync.Mutex
	lists map[policy.ProviderID]modelList
}

// modelList is one provider's list as it is kept.
type modelList struct {
	Source string          `json:"source"` // the provider's address: another one has another list
	Format string          `json:"format"`
	ETag   string          `json:"etag,omitempty"`
	Read   time.Time       `json:"read"`
	Body   json.RawMessage `json:"body"`

	parsed []config.Model
}

func newModelLists(h home, log *slog.Logger) *modelLists {
	return &modelLists{dir: h.path("catalog"), log: log, lists: map[policy.ProviderID]modelList{}}
}

// sourceOf names where a provider's list comes from.
func sourceOf(p *config.Provider) string { return p.Endpoints[0].String() }

// readsList tells whether a provider's list is to be read.
func readsList(p *config.Provider) bool { return p.Catalog != "" && len(p.Endpoints) > 0 }

// of is the list of a provider, from the run before if none was read in this one.
func (l *modelLists) of(p *config.Provider) (modelList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.lists[p.ID]
	if !ok {
		m, ok = l.kept(p.ID)
	}
	if !ok || m.Source != sourceOf(p) || m.Format != p.Catalog {
		return modelList{}, false
	}
	l.lists[p.ID] = m
	return m, true
}

// kept reads a list of the run before. One that cannot be used is none.
func (l *modelLists) kept(id policy.ProviderID) (m modelList, ok bool) {
	b, err := os.ReadFile(l.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil {
		m.parsed, err = catalog.Parse(m.Format, m.Body)
	}
	if err != nil {
		l.log.Warn("a kept list of models cannot be used", "provider", string(id), "error", err)
	}
	return m, err == nil
}

// put takes a list in and keeps it for the next run.
func (l *modelLists) put(id policy.ProviderID, m modelList) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists[id] = m
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	tmp := l.file(id) + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, l.file(id))
}

// file is where a provider's list is kept.
func (l *modelLists) file(id policy.ProviderID) string {
	return filepath.Join(l.dir, strings.ReplaceAll(string(id), "/", "_")+".json")
}

// all are the lists of a configuration's providers, as the catalog takes them.
func (l *modelLists) all(providers []config.Provider) map[policy.ProviderID]catalog.List {
	out := map[policy.ProviderID]catalog.List{}
	for i := range providers {
		p := &providers[i]
		if !readsList(p) {
			continue
		}
		if m, ok := l.of(p); ok {
			out[p.ID] = catalog.List{Format: m.Format, Models: m.parsed, Read: m.Read}
		}
	}
	return out
}

// knownModels is the embedded catalog, providers' own lists over it, and the operator's file over both. lists may be nil.
func knownModels(cfg *config.Config, lists *modelLists) (*catalog.Catalog, error) {
	c, err := loadCatalog(cfg)
	if err != nil || lists == nil {
		return c, err
	}
	return c.With(lists.all(cfg.Enabled())), nil
}
