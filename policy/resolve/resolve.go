// Package resolve turns an intent into an ordered list of candidates. It is pure: the catalog, the providers, their order and the operator's
// rules are values. It does not know requests, health or time; callers put healthy candidates first.
package resolve

import (
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Resolver finds the providers for a model or an intent. It is immutable and replaced as a whole.
type Resolver struct {
	catalog   *catalog.Catalog
	providers []kind.Provider // first choice first
	index     catalog.Index[*listing]
	listings  []*listing
	options   []providerOptions // of the providers, by the same position
	rules     Rules
	available map[policy.ProviderID]Available
	until     time.Time
}

// listing is one id that clients may use, with all providers that list it, first choice first.
type listing struct {
	id      string
	alias   bool // only an alias, not any provider's id
	entries []*entry
}

// entry is one provider's offer of one model.
type entry struct {
	resolution policy.Resolution
	model      catalog.Model
	vendor     bool // the provider is a vendor, which accepts the ids of its models' snapshots
	provider   int  // the provider's position
	option     option
	name       string // the model's name, without an organisation and in one spelling
}

// New returns a resolver for the enabled providers, first choice first.
func New(c *catalog.Catalog, providers []kind.Provider) *Resolver {
	r := &Resolver{catalog: c, providers: slices.Clone(providers), until: c.PricesUntil()}
	r.options = make([]providerOptions, len(r.providers))
	for i := range r.providers {
		p := &r.providers[i]
		r.options[i] = newProviderOptions(p)
		for _, m := range offered(c, p) {
			r.list(i, m)
		}
		r.options[i].sort()
	}
	for _, l := range r.listings {
		r.joinSnapshot(l)
	}
	return r
}

// PricesUntil returns when prices may change by the time of day; zero: never.
func (r *Resolver) PricesUntil() time.Time { return r.until }

// offered returns the models that a provider serves.
func offered(c *catalog.Catalog, p *kind.Provider) []modelfile.Model {
	models := p.Models
	switch listed, ok := c.Listed(p.ID); {
	case p.Vendor:
		models = c.Of(p.Of)
	case len(models) > 0:
	case ok: // its own list is complete
		models, p.Any = listed, false
	case p.Broad:
		models = c.All()
	}
	if p.Only == nil {
		return models
	}
	return slices.DeleteFunc(slices.Clone(models), func(m modelfile.Model) bool {
		return !slices.ContainsFunc(p.Only, func(part string) bool { return strings.Contains(m.ID, part) })
	})
}

func (r *Resolver) list(at int, m modelfile.Model) {
	e := r.entry(at, r.catalog.At(r.providers[at].ID, m))
	if u := e.model.PriceUntil; r.until.IsZero() || !u.IsZero() && u.Before(r.until) {
		r.until = u
	}
	chosen := !e.model.NamedOnly || len(r.providers[at].Models) > 0 // the operator listed it explicitly
	chosen = chosen && policy.Special(e.model.Capabilities) == ""
	if r.listing(m.ID, false).add(e) && chosen {
		r.options[at].options = append(r.options[at].options, e.option)
	}
	for _, id := range m.Aliases {
		r.listing(id, true).add(e)
	}
}

// listing finds or creates the listing of an id.
func (r *Resolver) listing(id string, alias bool) *listing {
	l, suffix, ok := r.index.Find(id)
	if !ok || suffix != "" {
		l = &listing{id: id, alias: true}
		r.listings = append(r.listings, l)
		r.index.Add(id, l)
	}
	if l.alias && !alias {
		l.id, l.alias = id, false
	}
	return l
}

// add adds a provider's offer; of two with one id, the first one stays.
func (l *listing) add(e *entry) bool {
	if l.serves(e.resolution.Provider) {
		return false
	}
	l.entries = append(l.entries, e)
	return true
}

func (l *listing) serves(p policy.ProviderID) bool {
	return slices.ContainsFunc(l.entries, func(e *entry) bool { return e.resolution.Provider == p })
}

// joinSnapshot adds vendors that list a model to the listing of a snapshot that another provider lists by its full id.
func (r *Resolver) joinSnapshot(l *listing) {
	base, suffix, ok := r.index.FindBase(l.id)
	if !ok {
		return
	}
	for _, e := range base.entries {
		if e.vendor && !l.serves(e.resolution.Provider) {
			dated := *e
			dated.resolution = e.snapshot(l.id, suffix)
			l.entries = append(l.entries, &dated)
		}
	}
	slices.SortStableFunc(l.entries, func(a, b *entry) int {
		return a.provider - b.provider
	})
}

// entry is a model at the provider at a position.
func (r *Resolver) entry(at int, m catalog.Model) *entry {
	p := &r.providers[at]
	if p.Free {
		m.Prices = policy.Prices{Known: true}
	}
	e := &entry{model: m, vendor: p.Vendor, provider: at, resolution: policy.Resolution{
		Provider: p.ID, Model: m.ID, Upstream: m.Upstream, Prices: m.Prices, MaxOutput: m.MaxOutput, Context: m.Context,
		AdaptiveThinking:  m.Thinking.Control == policy.ControlAdaptive || slices.Contains(m.Capabilities, policy.AdaptiveThinking),
		StructuredOutputs: slices.Contains(m.Capabilities, policy.StructuredOutputs),
		NoSignatures:      m.NoSignatures,
		FixedSampling:     m.FixedSampling,
		SchemaAlone:       m.SchemaAlone,
		ResponsesOnly:     m.ResponsesOnly,
		Undescribed:       m.Capabilities == nil,
		Lacks:             m.Lacks,
		ToolFormat:        m.ToolFormat,
		Family:            m.Family,
		Reasoning:         m.Reasoning,
		ImplicitOpen:      m.ImplicitOpen,
		Control:           m.Thinking.Control,
		Efforts:           m.Thinking.Efforts,
		Thinks:            m.Thinking.Default,
		MinCache:          m.MinCache,
		Private:           p.Private,
	}}
	e.resolution.Features = r.options[at].features(m.Capabilities)
	e.option, e.name = newOption(e, &p.Traits), plain(m.ID)
	return e
}

// snapshot returns the resolution for a snapshot of the model. A vendor gets the snapshot's id, in its own spelling of the model; any other provider
// the one name that it is known to accept.
func (e *entry) snapshot(id, suffix string) policy.Resolution {
	res := e.resolution
	if suffix == "" || !e.vendor || res.Upstream != string(res.Model) {
		return res
	}
	if base := strings.TrimSuffix(id, suffix); base != res.Upstream && catalog.Same(base, res.Upstream) {
		id = res.Upstream + suffix
	}
	res.Model, res.Upstream = policy.ModelID(id), id
	return res
}

// way is one offer of a named model.
type way struct {
	at         *entry
	id, suffix string // the requested id, and its snapshot suffix
}

func (w *way) resolution() policy.Resolution { return w.at.snapshot(w.id, w.suffix) }

// Resolve lists the candidates for a model in the configured order. With provider, or a configured provider before the first slash of model, only
// that one. The error is the fault ModelNotFound: with similar names for an unknown model, or with the provider to enable for a model that no
// configured provider serves (D-88).
func (r *Resolver) Resolve(model, provider string) ([]policy.Resolution, error) {
	ways, err := r.ways(model, policy.ProviderID(provider))
	if err != nil {
		return nil, err
	}
	out := make([]policy.Resolution, len(ways))
	for i := range ways {
		out[i] = ways[i].resolution()
	}
	return out, nil
}

// ways returns the offers of a model in the configured order.
func (r *Resolver) ways(model string, provider policy.ProviderID) ([]way, error) {
	if provider != "" {
		return r.atProvider(provider, model)
	}
	p, rest, forced := r.Split(model)
	if forced {
		if one, err := r.atProvider(p, rest); err == nil {
			return one, nil
		}
	}
	if l, suffix, ok := r.index.Find(model); ok {
		return l.ways(model, suffix), nil
	}
	if forced {
		return r.atProvider(p, rest)
	}
	if out := r.unlisted(model); out != nil {
		return out, nil
	}
	return nil, r.unknown(model)
}

// Split separates a "provider/model" id whose provider is configured. Any other id stays whole.
func (r *Resolver) Split(id string) (p policy.ProviderID, model string, ok bool) {
	prefix, rest, _ := strings.Cut(id, "/")
	if prefix == "direct" { // users' own keys are direct/vendor
		vendor, model, _ := strings.Cut(rest, "/")
		prefix, rest = prefix+"/"+vendor, model
	}
	if rest == "" || r.find(policy.ProviderID(prefix)) == nil {
		return "", id, false
	}
	return policy.ProviderID(prefix), rest, true
}

// Direct reports whether a provider is a user's own key.
func (r *Resolver) Direct(id policy.ProviderID) bool {
	at := r.position(id)
	return at >= 0 && r.options[at].direct() && !r.providers[at].ContextEngineering
}

func (r *Resolver) position(id policy.ProviderID) int {
	return slices.IndexFunc(r.providers, func(p kind.Provider) bool { return p.ID == id })
}

func (r *Resolver) find(id policy.ProviderID) *kind.Provider {
	for i := range r.providers {
		if r.providers[i].ID == id {
			return &r.providers[i]
		}
	}
	return nil
}

func (l *listing) ways(id, suffix string) []way {
	out := make([]way, len(l.entries))
	for i := range l.entries {
		out[i] = way{l.entries[i], id, suffix}
	}
	return out
}

// atProvider returns the offers of one provider.
func (r *Resolver) atProvider(id policy.ProviderID, model string) ([]way, error) {
	p := r.find(id)
	if p == nil {
		return nil, r.unconfigured(id, model)
	}
	if l, suffix, ok := r.index.Find(model); ok {
		for i := range l.entries {
			if l.entries[i].resolution.Provider == id {
				return []way{{l.entries[i], model, suffix}}, nil
			}
		}
	}
	for _, v := range r.variants(model) {
		if v.at.resolution.Provider == id {
			return []way{v}, nil
		}
	}
	if p.Any || p.AnyNamed || p.Vendor && r.mayBeOf(p, model) {
		return []way{{at: r.passthrough(p, model)}}, nil
	}
	return nil, notFound(model, " at "+string(id), near.Names(model, r.idsOf(id), 3))
}

// mayBeOf reports whether an unlisted model could be one of a vendor's: unless the catalog or its prefix names another vendor.
func (r *Resolver) mayBeOf(p *kind.Provider, id string) bool {
	if p.Only != nil {
		return false
	}
	if m, ok := r.catalog.Lookup(id); ok {
		return m.Vendor == p.Of
	}
	v := r.catalog.VendorOf(id)
	return v == p.Of || v == ""
}

// passthrough returns an entry for an unlisted id that is sent to a provider unchanged.
func (r *Resolver) passthrough(p *kind.Provider, id string) *entry {
	e := r.entry(r.position(p.ID), r.catalog.Unlisted(p.ID, id))
	e.resolution.Model, e.resolution.Upstream = policy.ModelID(id), id
	if m, ok := r.catalog.Lookup(id); ok && m.Vendor == p.ID && m.Upstream != string(m.ID) {
		e.resolution.Upstream = m.Upstream
	}
	return e
}

// unlisted returns the offers for an unlisted id: of the vendor with its prefix, else of providers that accept any id.
func (r *Resolver) unlisted(id string) []way {
	if out := r.variants(id); out != nil {
		return out
	}
	if v := r.catalog.VendorOf(id); v != "" {
		if p := r.find(v); p != nil && p.Vendor {
			return []way{{at: r.passthrough(p, id)}}
		}
	}
	if m, ok := r.catalog.Lookup(id); ok && m.Vendor != "" {
		if p := r.find(m.Vendor); p != nil && p.AnyNamed { // it has no list and accepts the model by name
			return []way{{at: r.passthrough(p, id)}}
		}
	}
	var out []way
	for i := range r.providers {
		if r.providers[i].Any {
			out = append(out, way{at: r.passthrough(&r.providers[i], id)})
		}
	}
	return out
}

// variants returns the offers of a model with a variant suffix, at providers that accept unlisted variants, such as "model:nitro" at a marketplace.
// They have the model's price.
func (r *Resolver) variants(id string) (out []way) {
	at := strings.LastIndexByte(id, ':')
	if at <= 0 || at == len(id)-1 {
		return nil
	}
	l, suffix, ok := r.index.Find(id[:at])
	if !ok || suffix != "" {
		return nil
	}
	for _, e := range l.entries {
		if r.providers[e.provider].Catalog == catalog.FormOpenRouter {
			v := *e
			v.resolution.Model, v.resolution.Upstream = policy.ModelID(id), v.resolution.Upstream+id[at:]
			out = append(out, way{at: &v})
		}
	}
	return out
}

// unknown returns the error for a model that no provider serves.
func (r *Resolver) unknown(id string) error {
	if prefix, rest, ok := strings.Cut(id, "/"); ok && r.knows(policy.ProviderID(prefix)) && r.find(policy.ProviderID(prefix)) == nil {
		return r.unconfigured(policy.ProviderID(prefix), rest)
	}
	if at := r.servedBy(id); at != "" {
		return r.unconfigured(at, id)
	}
	ids := make([]string, len(r.listings))
	for i, l := range r.listings {
		ids[i] = l.id
	}
	like := near.Names(id, ids, 3)
	if _, rest, ok := strings.Cut(id, "/"); ok && len(like) == 0 { // the provider may be misspelled
		like = near.Names(rest, ids, 3)
	}
	f := notFound(id, "", like)
	if len(like) == 0 {
		f.Public += "; GET /v1/models lists those that do"
	}
	return f
}

// servedBy returns the provider that would serve a model if it were configured: its vendor, else a marketplace for a model in the catalog; "" if none
// is known.
func (r *Resolver) servedBy(model string) policy.ProviderID {
	if v := r.vendorOf(model); v != "" && r.knows(v) {
		return v
	}
	if _, ok := r.catalog.Lookup(model); ok {
		return r.marketplace()
	}
	return ""
}

// knows reports whether a provider could be enabled.
func (r *Resolver) knows(id policy.ProviderID) bool {
	_, ok := r.available[id]
	return ok
}

// unconfigured returns the error for a provider that is not enabled, with how to enable it.
func (r *Resolver) unconfigured(id policy.ProviderID, model string) *fault.Fault {
	var f *fault.Fault
	switch {
	case !r.knows(id):
		names := make([]string, len(r.providers))
		for i := range r.providers {
			names[i] = string(r.providers[i].ID)
		}
		f = fault.Newf(fault.ModelNotFound, "the provider %q is not configured; the providers are %s", clip(string(id)), strings.Join(names, ", "))
	case model == "":
		f = fault.Newf(fault.ModelNotFound, "the provider %s is not configured: %s", id, r.available[id].EnabledBy)
	default:
		f = fault.Newf(fault.ModelNotFound, "the model %q is served by %s, which is not configured: %s", clip(model), id, r.available[id].EnabledBy)
	}
	f.Param = "model"
	return f
}

func (r *Resolver) idsOf(p policy.ProviderID) []string {
	var out []string
	for _, l := range r.listings {
		if l.serves(p) {
			out = append(out, l.id)
		}
	}
	return out
}

func notFound(id, where string, like []string) *fault.Fault {
	f := fault.Newf(fault.ModelNotFound, "the model %q does not exist%s", clip(id), where)
	if len(like) > 0 {
		f.Public += "; did you mean " + strings.Join(like, ", ") + "?"
	}
	f.Param = "model"
	return f
}

// clip limits client input that is quoted in an error.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
