// Package catalog knows models: what they cost, what they can do, how their ids are spelled. It merges the embedded
// file, the operator's file and what a provider's configuration says. It does not know which providers are enabled.
package catalog

import (
	_ "embed"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
)

//go:embed models.yaml
var embedded []byte

// Model is everything known about a model. A zero limit is unknown.
type Model struct {
	ID           policy.ModelID
	Upstream     string            // the name that its provider knows it by
	Family       string            // "claude"; models of one family answer alike
	Vendor       policy.ProviderID // the ordinary provider that serves it, "" if none does
	Prices       policy.Prices
	Context      int // window in tokens
	MaxOutput    int // tokens of one answer
	Capabilities []policy.Feature
	Quality      string // "minimum" … "maximum", "" if unknown
	Reasoning    string // "auto", "none" or a dialect
	ImplicitOpen bool   // answers begin inside reasoning
	ToolFormat   string // of the calls of tools in its text: "hermes", "qwen", "json"; "" if it calls them natively
	LatencyP50   time.Duration

	NoSignatures  bool // known not to sign its thinking, and to know nothing of another family's signatures
	FixedSampling bool // refuses any temperature, top_p and penalties but the usual ones
}

// DefaultPrices are used where nothing is known: those of a good general model, so that a forgotten price is seldom a
// loss. Known is false.
var DefaultPrices = policy.Prices{
	Input: 3 * dollar, Output: 15 * dollar, CachedInput: dollar * 3 / 10, CacheWrite: dollar * 15 / 4, CacheWrite1h: 6 * dollar,
}

const dollar = policy.Price(policy.USD)

// Catalog is the merged view. It is immutable, so it may be shared, and is swapped as a whole.
type Catalog struct {
	entries []config.Model // merged, in order of first appearance
	index   Index[int]
	models  []Model // of the entries, by the same position
}

// New merges files of entries; of two entries for one model, the later one wins, field by field.
func New(files ...config.ModelFile) *Catalog {
	c := &Catalog{}
	for _, f := range files {
		for _, m := range f.Models {
			c.add(m)
		}
	}
	for _, e := range c.entries {
		c.models = append(c.models, finish(e))
	}
	return c
}

// Embedded is the file of models that every gateway knows.
var Embedded = sync.OnceValue(func() config.ModelFile {
	file, _ := config.ParseModels("models.yaml", embedded) // a test reads it without problems
	return file
})

// add merges an entry into the one it names, or makes a new one; a dated snapshot begins as a copy of its model.
func (c *Catalog) add(m config.Model) {
	at, suffix, known := c.index.Find(m.ID)
	switch {
	case known && suffix == "":
		id := c.entries[at].ID
		c.entries[at] = merge(c.entries[at], m)
		c.entries[at].ID = id
	default:
		if base, ok := c.base(m); ok {
			m = merge(base, m)
		}
		at = len(c.entries)
		c.entries = append(c.entries, m)
		c.index.Add(m.ID, at)
	}
	for _, alias := range m.Aliases {
		c.index.Add(alias, at)
	}
}

// base is the entry that tells the rest about m: by its id, else by the name its provider knows it by. What names the
// base itself is left out.
func (c *Catalog) base(m config.Model) (config.Model, bool) {
	for _, id := range []string{m.ID, m.UpstreamID} {
		if at, _, ok := c.index.Find(id); ok {
			base := c.entries[at]
			base.Aliases, base.UpstreamID = nil, ""
			return base, true
		}
	}
	return config.Model{}, false
}

// Lookup finds a model by any spelling of its id: an alias, dots for dashes between digits, a dated snapshot or
// "-latest". For a snapshot that the catalog does not list, it is the model's own data.
func (c *Catalog) Lookup(id string) (Model, bool) {
	at, _, ok := c.index.Find(id)
	if !ok {
		return Model{}, false
	}
	return c.models[at], true
}

// At is what a provider's listing of a model amounts to: what the listing says, else what the catalog says about this
// model at this provider (an entry with the id "provider/model"), else about the model, else the defaults.
func (c *Catalog) At(p policy.ProviderID, m config.Model) Model {
	said := m
	if at, suffix, ok := c.index.Find(string(p) + "/" + m.ID); ok && suffix == "" {
		said = merge(c.entries[at], m)
	}
	if base, ok := c.base(m); ok {
		said = merge(base, said)
	}
	return finish(said)
}

// Unlisted is what is assumed about an id that the provider did not list.
func (c *Catalog) Unlisted(p policy.ProviderID, id string) Model {
	return c.At(p, config.Model{ID: id})
}

// Of lists the models of a vendor, in the order of the catalog, as listings for At to complete.
func (c *Catalog) Of(vendor policy.ProviderID) []config.Model {
	var out []config.Model
	for i, m := range c.models {
		if m.Vendor == vendor {
			e := c.entries[i]
			out = append(out, config.Model{ID: e.ID, UpstreamID: e.UpstreamID, Aliases: e.Aliases})
		}
	}
	return out
}

// Near returns up to n ids that resemble id, best first.
func (c *Catalog) Near(id string, n int) []string {
	ids := make([]string, len(c.entries))
	for i, e := range c.entries {
		ids[i] = e.ID
	}
	return near.Names(id, ids, n)
}

// Families lists the families of the catalog's models, in order of first appearance.
func (c *Catalog) Families() []string {
	var out []string
	for _, m := range c.models {
		if !slices.Contains(out, m.Family) {
			out = append(out, m.Family)
		}
	}
	return out
}
