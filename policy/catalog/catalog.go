// Package catalog describes models: their prices, capabilities and the spellings of their ids. It merges the embedded file, the operator's files,
// providers' own lists and the configuration. It does not know which providers are enabled.
package catalog

import (
	_ "embed"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
)

//go:embed models.json
var embedded []byte

// Model is everything known about a model. A zero limit is unknown.
type Model struct {
	ID           policy.ModelID
	Upstream     string            // the provider's name for it
	Family       string            // "claude"; models of one family answer alike
	Vendor       policy.ProviderID // the ordinary provider that serves it, "" if none does
	Prices       policy.Prices
	Context      int                  // context window in tokens
	MaxOutput    int                  // maximum tokens of an answer
	Capabilities []policy.Feature     // nil: unknown
	Lacks        []policy.Feature     // features that it is known to lack
	Quality      policy.Quality       // as stated, else derived from its strengths
	Strengths    *modelfile.Strengths // nil if nothing is known of them
	Thinking     Thinking
	MinCache     int    // minimum tokens of a prompt that its provider caches
	Reasoning    string // "auto", "none" or a dialect
	ImplicitOpen bool   // answers start inside reasoning
	ToolFormat   string // format of tool calls in its text: "hermes", "qwen", "json"; "" if it calls tools natively
	LatencyP50   time.Duration

	NoSignatures  bool // its family is known not to sign reasoning, and to ignore signatures
	FixedSampling bool // accepts only the default temperature, top_p and penalties
	SchemaAlone   bool // accepts a response schema or functions, not both
	ResponsesOnly bool // only available in the Responses API
	NamedOnly     bool // only served when requested by name, never chosen

	PriceSource  Source
	PriceUpdated time.Time // time of the price; zero if unknown
	PriceUntil   time.Time // when the price may change by the time of day; zero: never
}

// Thinking is how a model's reasoning effort is controlled.
type Thinking struct {
	Control policy.ReasoningControl
	Efforts []string // supported efforts, lowest first; nil: any
	Default policy.ThinkingDefault
	Display bool // its reasoning can be requested in the answer
}

// Source is where a model's price comes from.
type Source string

// The sources, each overriding the ones before it.
const (
	SourceDefault  Source = "default"  // DefaultPrices
	SourceCatalog  Source = "catalog"  // the embedded file
	SourceProvider Source = "provider" // the provider's own list
	SourceOperator Source = "operator" // the operator's file or configuration
	SourceLocal    Source = "local"    // free: the gateway runs the model itself
)

// DefaultPrices are used where no price is known: those of a good general model, so that a missing price seldom causes a loss. Known is false.
var DefaultPrices = policy.Prices{
	Input: 3 * dollar, Output: 15 * dollar, CachedInput: dollar * 3 / 10, CacheWrite: dollar * 15 / 4, CacheWrite1h: 6 * dollar,
}

const dollar = policy.Price(policy.USD)

// Catalog is the merged view. It is immutable, so it may be shared, and is swapped as a whole.
type Catalog struct {
	entries  []modelfile.Model // merged, in order of first appearance
	index    Index[int]
	models   []Model                // of the entries, by the same position
	operator Index[modelfile.Model] // the operator's files alone, which override providers' lists
	families []modelfile.Model      // defaults for ids with a common prefix, longest prefixes first
	vendors  []modelfile.Vendor
	caches   map[policy.ProviderID]kind.PromptCache // by provider, which has the name of its kind
	lists    map[policy.ProviderID]*listed
	now      time.Time // for prices by the time of day; zero: the regular prices
}

// New merges files of entries; of two entries for one model, the later one wins, field by field. The first file is the embedded one; the others are
// the operator's, which also override providers' own lists.
func New(files ...modelfile.File) *Catalog {
	c := &Catalog{}
	for i, f := range files {
		for _, m := range f.Models {
			m.Price = withOrigin(m.Price, i > 0, f.AsOf)
			c.add(m)
			if i > 0 {
				c.addOperator(m)
			}
		}
		c.families = append(c.families, f.Families...)
		c.vendors = append(c.vendors, f.Vendors...)
	}
	slices.SortStableFunc(c.families, func(a, b modelfile.Model) int { return len(b.ID) - len(a.ID) })
	for _, e := range c.entries {
		c.models = append(c.models, c.complete("", c.withFamily(e, e.ID, e.UpstreamID)))
	}
	return c
}

// addOperator adds an operator's entry for a model; of two entries, the later one wins, field by field.
func (c *Catalog) addOperator(m modelfile.Model) {
	if before, suffix, ok := c.operator.Find(m.ID); ok && suffix == "" {
		c.operator.replace(m.ID, merge(before, m))
		return
	}
	c.operator.Add(m.ID, m)
}

// withOrigin returns a price with its source and time.
func withOrigin(p *modelfile.Price, operator bool, asOf string) *modelfile.Price {
	if p == nil {
		return nil
	}
	out := *p
	out.Source = string(SourceCatalog)
	if operator {
		out.Source = string(SourceOperator)
	}
	out.Updated, _ = time.Parse(time.DateOnly, asOf) // an invalid time counts as unknown
	return &out
}

// Embedded returns the embedded file of models: models.yaml, converted to models.json, which takes a fifth of the time to read at the start. A test
// generates models.json, and compares both.
var Embedded = sync.OnceValue(func() (file modelfile.File) {
	_ = json.Unmarshal(embedded, &file) // a test reads it
	return file
})

// add merges an entry into the one that it names, or adds a new one; a dated snapshot starts as a copy of its model.
func (c *Catalog) add(m modelfile.Model) {
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

// base returns the entry that m extends: found by its id, else by the provider's name for it. The fields that identify the base itself are left
// empty.
func (c *Catalog) base(m modelfile.Model) (modelfile.Model, bool) {
	for _, id := range []string{m.ID, m.UpstreamID} {
		if at, _, ok := c.index.Find(id); ok {
			base := c.entries[at]
			base.Aliases, base.UpstreamID = nil, ""
			return base, true
		}
	}
	return modelfile.Model{}, false
}

// Lookup finds a model by any spelling of its id: an alias, dots for dashes between digits, a dated snapshot or "-latest". For a snapshot that the
// catalog does not list, it returns the model's own data.
func (c *Catalog) Lookup(id string) (Model, bool) {
	at, _, ok := c.index.Find(id)
	if !ok {
		return Model{}, false
	}
	return c.models[at], true
}

// At returns the data of a model at a provider. Each field comes from the first source that states it: the configuration (m), the operator's file for
// this model at this provider (an entry with the id "provider/model"), the operator's file for the model, the provider's own list, the catalog's
// entry, its family, the defaults.
func (c *Catalog) At(p policy.ProviderID, m modelfile.Model) Model {
	m.Price = withOrigin(m.Price, true, "")
	merged := m
	base, known := c.modelOf(m)
	if known {
		merged = base
		merged.Price = c.nonVendorPrice(p, &base)
	}
	lacks := c.lacks(p, base.ID, m.ID, m.UpstreamID)
	merged.Capabilities = without(merged.Capabilities, lacks)
	if l, ok := c.lists[p].find(m); ok {
		merged = l.override(merged)
	}
	for _, id := range []string{base.ID, m.ID, string(p) + "/" + base.ID, string(p) + "/" + m.ID} {
		if own, suffix, ok := c.operator.Find(id); ok && suffix == "" {
			merged = merge(merged, own)
		}
	}
	merged = merge(merged, m)
	out := c.complete(p, c.withFamily(merged, base.ID, m.ID, m.UpstreamID))
	if out.Capabilities == nil {
		out.Lacks = slices.Concat(out.Lacks, lacks)
	}
	return out
}

// lacks returns the features that the models of a family have elsewhere but not at this provider, from the families with ids "provider/prefix*". The
// provider's own list overrides it.
func (c *Catalog) lacks(p policy.ProviderID, names ...string) (features []policy.Feature) {
	for _, f := range c.families {
		at, begins, ok := strings.Cut(strings.TrimSuffix(f.ID, "*"), "/")
		if !ok || at != string(p) {
			continue
		}
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(plain(name), begins) }) {
			features = append(features, f.Lacks...)
		}
	}
	return features
}

// Unlisted returns the assumed data of an id that the provider does not list.
func (c *Catalog) Unlisted(p policy.ProviderID, id string) Model {
	return c.At(p, modelfile.Model{ID: id})
}

// modelOf is base that also accepts marketplace ids: after an organisation's name, before a variant ("deepseek/deepseek-r1:free").
func (c *Catalog) modelOf(m modelfile.Model) (modelfile.Model, bool) {
	if base, ok := c.base(m); ok {
		return base, true
	}
	return c.base(modelfile.Model{ID: plain(m.ID), UpstreamID: plain(m.UpstreamID)})
}

// withFamily completes a model from the families that it belongs to, by the first of its names that belongs to any.
func (c *Catalog) withFamily(m modelfile.Model, names ...string) modelfile.Model {
	for _, name := range names {
		if with, belongs := c.ofFamily(m, plain(name)); belongs {
			return with
		}
	}
	return m
}

func (c *Catalog) ofFamily(m modelfile.Model, name string) (with modelfile.Model, belongs bool) {
	for _, f := range c.families {
		if strings.HasPrefix(name, strings.TrimSuffix(f.ID, "*")) {
			f.ID, f.UpstreamID, f.Aliases = "", "", nil
			m, belongs = merge(f, m), true
		}
	}
	return m, belongs
}

// Of lists the models of a vendor, in the order of the catalog, as listings for At to complete.
func (c *Catalog) Of(vendor policy.ProviderID) []modelfile.Model {
	var out []modelfile.Model
	for i, m := range c.models {
		if m.Vendor == vendor {
			e := c.entries[i]
			out = append(out, modelfile.Model{ID: e.ID, UpstreamID: e.UpstreamID, Aliases: e.Aliases})
		}
	}
	return out
}

// All lists all models, with and without a vendor, in the order of the catalog, as listings for At to complete.
func (c *Catalog) All() []modelfile.Model {
	var out []modelfile.Model
	for _, e := range c.entries {
		if !strings.Contains(e.ID, "/") { // entries with a slash hold for one provider only
			out = append(out, modelfile.Model{ID: e.ID, UpstreamID: e.UpstreamID, Aliases: e.Aliases})
		}
	}
	return out
}

// Near returns up to n ids similar to id, best first.
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
