// Package catalog knows models: what they cost, what they can do, how their ids are spelled. It merges the embedded
// file, the operator's file and what a provider's configuration says. It does not know which providers are enabled.
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
	Upstream     string            // the name that its provider knows it by
	Family       string            // "claude"; models of one family answer alike
	Vendor       policy.ProviderID // the ordinary provider that serves it, "" if none does
	Prices       policy.Prices
	Context      int                  // window in tokens
	MaxOutput    int                  // tokens of one answer
	Capabilities []policy.Feature     // nil: nobody said what it can do
	Lacks        []policy.Feature     // what it is known to be without, whatever else is known
	Quality      policy.Quality       // as it was said, else by its strengths
	Strengths    *modelfile.Strengths // nil if nothing is known of them
	Thinking     Thinking
	MinCache     int    // least tokens of a prompt that its provider caches
	Reasoning    string // "auto", "none" or a dialect
	ImplicitOpen bool   // answers begin inside reasoning
	ToolFormat   string // of the calls of tools in its text: "hermes", "qwen", "json"; "" if it calls them natively
	LatencyP50   time.Duration

	NoSignatures  bool // known not to sign its thinking, and to know nothing of another family's signatures
	FixedSampling bool // refuses any temperature, top_p and penalties but the usual ones
	SchemaAlone   bool // takes a schema of the answer or functions, not both
	ResponsesOnly bool // served in Responses alone
	NamedOnly     bool // serves those who ask for it by name, and is not chosen otherwise

	PriceSource  Source
	PriceUpdated time.Time // when the price was true; zero if nobody said
	PriceUntil   time.Time // when it may be another, by the time of the day; zero: never
}

// Thinking is how a model is told how hard to think.
type Thinking struct {
	Control policy.ReasoningControl
	Efforts []string // that it takes, least first; nil: whatever comes
	Default policy.ThinkingDefault
	Display bool // its thinking can be asked for in the answer
}

// Source is who said what a model costs.
type Source string

// The sources, each over the ones before it.
const (
	SourceDefault  Source = "default"  // nobody: DefaultPrices
	SourceCatalog  Source = "catalog"  // the embedded file
	SourceProvider Source = "provider" // the provider's own list
	SourceOperator Source = "operator" // the operator's file or configuration
	SourceLocal    Source = "local"    // nobody is paid: the gateway runs the model itself
)

// DefaultPrices are used where nothing is known: those of a good general model, so that a forgotten price is seldom a
// loss. Known is false.
var DefaultPrices = policy.Prices{
	Input: 3 * dollar, Output: 15 * dollar, CachedInput: dollar * 3 / 10, CacheWrite: dollar * 15 / 4, CacheWrite1h: 6 * dollar,
}

const dollar = policy.Price(policy.USD)

// Catalog is the merged view. It is immutable, so it may be shared, and is swapped as a whole.
type Catalog struct {
	entries  []modelfile.Model // merged, in order of first appearance
	index    Index[int]
	models   []Model                // of the entries, by the same position
	operator Index[modelfile.Model] // what the operator's files alone say, which overrides providers' lists
	families []modelfile.Model      // what holds for ids that begin alike, the longest beginnings first
	vendors  []modelfile.Vendor
	caches   map[policy.ProviderID]kind.PromptCache // by provider, which has the name of its kind
	lists    map[policy.ProviderID]*listed
	now      time.Time // of prices by the time of the day; zero: the usual prices
}

// New merges files of entries; of two entries for one model, the later one wins, field by field. The first file is what every
// gateway knows; later ones are the operator's, which also stand over what providers' own lists say.
func New(files ...modelfile.File) *Catalog {
	c := &Catalog{}
	for i, f := range files {
		for _, m := range f.Models {
			m.Price = stamped(m.Price, i > 0, f.AsOf)
			c.add(m)
			if i > 0 {
				c.overrule(m)
			}
		}
		c.families = append(c.families, f.Families...)
		c.vendors = append(c.vendors, f.Vendors...)
	}
	slices.SortStableFunc(c.families, func(a, b modelfile.Model) int { return len(b.ID) - len(a.ID) })
	for _, e := range c.entries {
		c.models = append(c.models, c.finish("", c.like(e, e.ID, e.UpstreamID)))
	}
	return c
}

// overrule notes what the operator says about a model; of two entries, the later one wins, field by field.
func (c *Catalog) overrule(m modelfile.Model) {
	if before, suffix, ok := c.operator.Find(m.ID); ok && suffix == "" {
		c.operator.replace(m.ID, merge(before, m))
		return
	}
	c.operator.Add(m.ID, m)
}

// stamped is a price with who said it, and when.
func stamped(p *modelfile.Price, operator bool, asOf string) *modelfile.Price {
	if p == nil {
		return nil
	}
	out := *p
	out.Source = string(SourceCatalog)
	if operator {
		out.Source = string(SourceOperator)
	}
	out.Updated, _ = time.Parse(time.DateOnly, asOf) // none is said otherwise
	return &out
}

// Embedded is the file of models that every gateway knows: models.yaml, in a form that takes a fifth of the time to read when a program starts. A test writes models.json, and
// compares both.
var Embedded = sync.OnceValue(func() (file modelfile.File) {
	_ = json.Unmarshal(embedded, &file) // the test has read it
	return file
})

// add merges an entry into the one it names, or makes a new one; a dated snapshot begins as a copy of its model.
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

// base is the entry that tells the rest about m: by its id, else by the name its provider knows it by. What names the
// base itself is left out.
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

// Lookup finds a model by any spelling of its id: an alias, dots for dashes between digits, a dated snapshot or
// "-latest". For a snapshot that the catalog does not list, it is the model's own data.
func (c *Catalog) Lookup(id string) (Model, bool) {
	at, _, ok := c.index.Find(id)
	if !ok {
		return Model{}, false
	}
	return c.models[at], true
}

// At is what a model at a provider amounts to: what the configuration says of it (m), else what the operator's file says of this
// model at this provider (an entry with the id "provider/model"), else of the model, else what the provider's own list says, else the
// catalog's entry, else what holds for its family, else the defaults.
func (c *Catalog) At(p policy.ProviderID, m modelfile.Model) Model {
	m.Price = stamped(m.Price, true, "")
	said := m
	base, known := c.modelOf(m)
	if known {
		said = base
		said.Price = c.elsewhere(p, &base)
	}
	lacks := c.lacks(p, base.ID, m.ID, m.UpstreamID)
	said.Capabilities = without(said.Capabilities, lacks)
	if l, ok := c.lists[p].find(m); ok {
		said = l.over(said)
	}
	for _, id := range []string{base.ID, m.ID, string(p) + "/" + base.ID, string(p) + "/" + m.ID} {
		if own, suffix, ok := c.operator.Find(id); ok && suffix == "" {
			said = merge(said, own)
		}
	}
	said = merge(said, m)
	out := c.finish(p, c.like(said, base.ID, m.ID, m.UpstreamID))
	if out.Capabilities == nil {
		out.Lacks = slices.Concat(out.Lacks, lacks)
	}
	return out
}

// lacks is what the models of a family have elsewhere and not at one provider, by the families with the ids "provider/beginning*". The
// provider's own list knows better.
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

// Unlisted is what is assumed about an id that the provider did not list.
func (c *Catalog) Unlisted(p policy.ProviderID, id string) Model {
	return c.At(p, modelfile.Model{ID: id})
}

// modelOf is base for ids as marketplaces write them, too: behind the name of an organisation, before a variant ("deepseek/deepseek-r1:free").
func (c *Catalog) modelOf(m modelfile.Model) (modelfile.Model, bool) {
	if base, ok := c.base(m); ok {
		return base, true
	}
	return c.base(modelfile.Model{ID: plain(m.ID), UpstreamID: plain(m.UpstreamID)})
}

// like fills what is not said from the families that the model belongs to, by the first of its names that belongs to any.
func (c *Catalog) like(m modelfile.Model, names ...string) modelfile.Model {
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

// All lists the models of every vendor and of none, in the order of the catalog, as listings for At to complete.
func (c *Catalog) All() []modelfile.Model {
	var out []modelfile.Model
	for _, e := range c.entries {
		if !strings.Contains(e.ID, "/") { // holds for one provider alone
			out = append(out, modelfile.Model{ID: e.ID, UpstreamID: e.UpstreamID, Aliases: e.Aliases})
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
