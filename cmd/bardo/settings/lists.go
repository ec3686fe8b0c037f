package settings

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

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Lists are providers' own lists of models: the last ones read, or those saved by an earlier run. Each process with a data path, such as each sidecar, reads
// them itself. Safe for concurrent use.
type Lists struct {
	dir string // where they are saved
	log *slog.Logger

	mu    sync.Mutex
	lists map[policy.ProviderID]List
}

// List is one provider's list as it is saved.
type List struct {
	Source string          `json:"source"` // the provider's address: a list of another address is not used
	Format string          `json:"format"`
	ETag   string          `json:"etag,omitempty"`
	Read   time.Time       `json:"read"`
	Body   json.RawMessage `json:"body"`

	Parsed []config.Model `json:"-"` // from Body
}

// NewLists returns the lists saved in a state directory. Files are read on first use.
func NewLists(h home.Dir, log *slog.Logger) *Lists {
	return &Lists{dir: h.Path("catalog"), log: log, lists: map[policy.ProviderID]List{}}
}

// SourceOf is the source of a provider's list.
func SourceOf(p *config.Provider) string { return p.Endpoints[0].String() }

// ReadsList reports whether a provider's list is to be read.
func ReadsList(p *config.Provider) bool { return p.Catalog != "" && len(p.Endpoints) > 0 }

// Of returns a provider's list, as saved by an earlier run if this one has not read it.
func (l *Lists) Of(p *config.Provider) (List, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, ok := l.lists[p.ID]
	if !ok {
		m, ok = l.load(p.ID)
	}
	if !ok || m.Source != SourceOf(p) || m.Format != p.Catalog {
		return List{}, false
	}
	l.lists[p.ID] = m
	return m, true
}

// load reads a saved list. An unusable one is logged and ignored.
func (l *Lists) load(id policy.ProviderID) (m List, ok bool) {
	b, err := os.ReadFile(l.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return m, false
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil {
		m.Parsed, err = catalog.Parse(m.Format, m.Body)
	}
	if err != nil {
		l.log.Warn("a kept list of models cannot be used", "provider", string(id), "error", err)
	}
	return m, err == nil
}

// Put sets a list, and saves it for the next run.
func (l *Lists) Put(id policy.ProviderID, m List) error {
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

// file is the path of a provider's saved list.
func (l *Lists) file(id policy.ProviderID) string {
	return filepath.Join(l.dir, strings.ReplaceAll(string(id), "/", "_")+".json")
}

// all returns the lists of a configuration's providers, for the catalog.
func (l *Lists) all(providers []config.Provider) map[policy.ProviderID]catalog.List {
	out := map[policy.ProviderID]catalog.List{}
	for i := range providers {
		p := &providers[i]
		if !ReadsList(p) {
			continue
		}
		if m, ok := l.Of(p); ok {
			out[p.ID] = catalog.List{Format: m.Format, Models: m.Parsed, Read: m.Read}
		}
	}
	return out
}

// Models is the embedded catalog, overridden by providers' own lists, overridden by the operator's file, with the prices of this time of day. lists may be nil.
func Models(cfg *config.Config, lists *Lists) (*catalog.Catalog, error) {
	c, err := Catalog(cfg)
	if err != nil {
		return c, err
	}
	if c = c.AsOf(time.Now()); lists == nil {
		return c, nil
	}
	return c.With(lists.all(cfg.Enabled())), nil
}
