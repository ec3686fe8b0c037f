// Package resolve turns what a request needs into the ordered list of ways to serve it. It is pure: the catalog, the providers, their
// order and the operator's rules go in as values. It knows nothing of requests, health or time; who calls it puts those first that work
// right now.
package resolve

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Resolver answers which providers serve a model. It is immutable, so it may be shared, and is swapped as a whole.
type Resolver struct {
	catalog   *catalog.Catalog
	providers []kind.Provider // first choice first
	index     catalog.Index[*listing]
	listings  []*listing
	seats     []seat // of the providers, by the same position
	rules     Rules
	available map[policy.ProviderID]Available
}

// listing is one id that clients may use, with everyone who lists it, first choice first.
type listing struct {
	id      string
	alias   bool // nobody's own id of a model
	entries []*entry
}

// entry is one provider's offer of one model.
type entry struct {
	resolution policy.Resolution
	model      catalog.Model
	vendor     bool // an ordinary provider, which knows the snapshots of its models by name
	seat       int  // the provider's position
	option     option
	name       string // of the model, without an organisation and in one spelling
}

// New makes a resolver for the enabled providers, first choice first. Nothing is changed afterwards.
func New(c *catalog.Catalog, providers []kind.Provider) *Resolver {
	r := &Resolver{catalog: c, providers: slices.Clone(providers)}
	r.seats = make([]seat, len(r.providers))
	for i := range r.providers {
		p := &r.providers[i]
		r.seats[i] = newSeat(p)
		for _, m := range offered(c, p) {
			r.list(i, m)
		}
		r.seats[i].sort()
	}
	for _, l := range r.listings {
		r.joinSnapshot(l)
	}
	return r
}

// offered are the models that a provider serves.
func offered(c *catalog.Catalog, p *kind.Provider) []modelfile.Model {
	models := p.Models
	switch listed, ok := c.Listed(p.ID); {
	case p.Vendor:
		models = c.Of(p.Of)
	case len(models) > 0:
	case ok: // its own list: it has nothing else
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
	chosen := !e.model.NamedOnly || len(r.providers[at].Models) > 0 // an operator who lists it wants it used
	chosen = chosen && !slices.Contains(e.model.Capabilities, policy.Embeddings)
	if r.listing(m.ID, false).add(e) && chosen {
		r.seats[at].options = append(r.seats[at].options, e.option)
	}
	for _, id := range m.Aliases {
		r.listing(id, true).add(e)
	}
}

// listing finds or makes the listing of an id.
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

// add adds a provider's offer; of two under one id, the first one stays.
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

// joinSnapshot lets vendors that list a model serve a snapshot of it that another provider lists by its full id.
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
		return a.seat - b.seat
	})
}

// entry is a model at the provider at a position.
func (r *Resolver) entry(at int, m catalog.Model) *entry {
	p := &r.providers[at]
	if p.Free {
		m.Prices = policy.Prices{Known: true}
	}
	e := &entry{model: m, vendor: p.Vendor, seat: at, resolution: policy.Resolution{
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
	e.resolution.Features = r.seats[at].features(m.Capabilities)
	e.option, e.name = newOption(e, &p.Traits), plain(m.ID)
	return e
}

// snapshot is the resolution for a snapshot of the model. A vendor gets the snapshot's id, in its own spelling of the
// model; any other provider the one name that it is known to have.
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

// way is one way to serve a model that was named.
type way struct {
	at         *entry
	id, suffix string // as it was named, and what of that is a snapshot's
}

func (w *way) resolution() policy.Resolution { return w.at.snapshot(w.id, w.suffix) }

// Resolve lists the ways to serve a model, in the configured order. The provider, if given, or else a configured provider before
// the first slash of model, is the only one asked. The error is a fault: ModelNotFound, with near names for a model that
// nobody knows, and with who serves it and what enables that one for a model that no configured provider serves (D-88).
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

// ways are the ways to serve a model, in the configured order.
func (r *Resolver) ways(model string, provider policy.ProviderID) ([]way, error) {
	if provider != "" {
		return r.only(provider, model)
	}
	p, rest, forced := r.Split(model)
	if forced {
		if one, err := r.only(p, rest); err == nil {
			return one, nil
		}
	}
	if l, suffix, ok := r.index.Find(model); ok {
		return l.ways(model, suffix), nil
	}
	if forced {
		return r.only(p, rest)
	}
	if out := r.unlisted(model); out != nil {
		return out, nil
	}
	return nil, r.unknown(model)
}

// Split separates a "provider/model" id whose provider is configured. Any other id stays whole.
func (r *Resolver) Split(id string) (p policy.ProviderID, model string, ok bool) {
	prefix, rest, _ := strings.Cut(id, "/")
	if prefix == "direct" { // users' own keys have the vendor in their names
		vendor, model, _ := strings.Cut(rest, "/")
		prefix, rest = prefix+"/"+vendor, model
	}
	if rest == "" || r.find(policy.ProviderID(prefix)) == nil {
		return "", id, false
	}
	return policy.ProviderID(prefix), rest, true
}

// Direct tells whether a provider is a user's own key: its user pays.
func (r *Resolver) Direct(id policy.ProviderID) bool {
	at := r.position(id)
	return at >= 0 && r.seats[at].direct() && !r.providers[at].ContextEngineering
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

// only asks one provider.
func (r *Resolver) only(id policy.ProviderID, model string) ([]way, error) {
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
		return []way{{at: r.pass(p, model)}}, nil
	}
	return nil, notFound(model, " at "+string(id), near.Names(model, r.idsOf(id), 3))
}

// mayBeOf tells whether a model that a vendor does not list could still be one of its own: nobody says otherwise.
func (r *Resolver) mayBeOf(p *kind.Provider, id string) bool {
	if p.Only != nil {
		return false
	}
	if m, ok := r.catalog.Lookup(id); ok {
		return m.Vendor == p.Of
	}
	v := catalog.VendorOf(id)
	return v == p.Of || v == ""
}

// pass sends an id that nobody lists to a provider as it is.
func (r *Resolver) pass(p *kind.Provider, id string) *entry {
	e := r.entry(r.position(p.ID), r.catalog.Unlisted(p.ID, id))
	e.resolution.Model, e.resolution.Upstream = policy.ModelID(id), id
	return e
}

// unlisted finds who would take an id that nobody lists: the vendor whose prefix it has, else those that take any.
func (r *Resolver) unlisted(id string) []way {
	if out := r.variants(id); out != nil {
		return out
	}
	if v := catalog.VendorOf(id); v != "" {
		if p := r.find(v); p != nil && p.Vendor {
			return []way{{at: r.pass(p, id)}}
		}
	}
	var out []way
	for i := range r.providers {
		if r.providers[i].Any {
			out = append(out, way{at: r.pass(&r.providers[i], id)})
		}
	}
	return out
}

// variants finds who lists the model that an id is a variant of, where a provider takes variants that it does not list:
// "model:nitro" at OpenRouter. They cost what the model does.
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
		if r.providers[e.seat].Catalog == catalog.FormOpenRouter {
			v := *e
			v.resolution.Model, v.resolution.Upstream = policy.ModelID(id), v.resolution.Upstream+id[at:]
			out = append(out, way{at: &v})
		}
	}
	return out
}

// unknown says why nobody serves a model.
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
	if _, rest, ok := strings.Cut(id, "/"); ok && len(like) == 0 { // the provider may be what was misspelled
		like = near.Names(rest, ids, 3)
	}
	f := notFound(id, "", like)
	if len(like) == 0 {
		f.Public += "; GET /v1/models lists those that do"
	}
	return f
}

// servedBy is the provider that would serve a model if it were configured, "" if none is known: the model's vendor, else for a model of
// the catalog a marketplace.
func (r *Resolver) servedBy(model string) policy.ProviderID {
	if v := r.vendorOf(model); v != "" && r.knows(v) {
		return v
	}
	if _, ok := r.catalog.Lookup(model); ok {
		return r.marketplace()
	}
	return ""
}

// knows tells whether a provider could be enabled.
func (r *Resolver) knows(id policy.ProviderID) bool {
	_, ok := r.available[id]
	return ok
}

// unconfigured says that a provider is not there, and what enables it.
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

// clip keeps what a client sent from filling an error.
func clip(s string) string {
	const most = 100
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
