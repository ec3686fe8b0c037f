package catalog

import (
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// List is a provider's own list of models.
type List struct {
	Format string            // the form in which it was read: FormOpenRouter …
	Models []modelfile.Model // as Parse returned them
	Read   time.Time         // when the list was fetched
}

// With returns the same catalog with providers' lists in place of its current ones. Prices and limits in a list override the embedded file's, and the
// operator's override both. The result shares no memory with lists.
func (c *Catalog) With(lists map[policy.ProviderID]List) *Catalog {
	out := *c
	out.lists = map[policy.ProviderID]*listed{}
	for p, l := range lists {
		out.lists[p] = out.list(l)
	}
	return &out
}

// Listed returns the models of a provider's own list, for At to complete; ok is false if no list of it is known. The id is the catalog's own where it
// knows the model; the list's id is then an alias, and the name sent to the provider.
func (c *Catalog) Listed(p policy.ProviderID) (models []modelfile.Model, ok bool) {
	l := c.lists[p]
	if l == nil {
		return nil, false
	}
	for _, m := range l.models {
		models = append(models, modelfile.Model{ID: m.ID, UpstreamID: m.UpstreamID, Aliases: m.Aliases})
	}
	return models, true
}

// listed is a provider's list under the catalog's ids.
type listed struct {
	models      []modelfile.Model
	index       Index[int]
	expressible []policy.Feature // features that the list's form can express: those among them that it does not name are missing
}

// listedModel is one model of a list.
type listedModel struct {
	modelfile.Model
	expressible []policy.Feature
}

// list gives the models of a list the ids that the catalog knows them by.
func (c *Catalog) list(l List) *listed {
	out := &listed{expressible: forms[l.Format].expressible}
	names := map[string]int{}
	for _, m := range l.Models {
		names[plain(m.ID)]++
	}
	taken := map[string]bool{}
	for _, m := range l.Models {
		m.UpstreamID = m.ID
		if m.Price != nil {
			p := *m.Price
			p.Source, p.Updated = string(SourceProvider), l.Read
			m.Price = &p
		}
		id := c.canonical(m.ID)
		if taken[id] {
			id = m.ID
		}
		if last := lastPart(m.ID); id == m.ID && last != m.ID && names[plain(m.ID)] == 1 {
			m.Aliases = append(slices.Clip(m.Aliases), last)
		}
		if id != m.ID {
			m.ID, m.Aliases = id, append(slices.Clip(m.Aliases), m.ID)
		}
		if taken[m.ID] {
			continue // the list names it twice
		}
		taken[m.ID] = true
		at := len(out.models)
		out.models = append(out.models, m)
		for _, id := range append([]string{m.UpstreamID, m.ID}, m.Aliases...) {
			out.index.Add(id, at)
		}
	}
	return out
}

// canonical returns the catalog's own id of a listed model, with the list's variant; a snapshot keeps its date. An id that the catalog does not know
// is returned unchanged.
func (c *Catalog) canonical(id string) string {
	name := plain(id)
	at, suffix, ok := c.index.Find(name)
	if !ok {
		return id
	}
	if suffix == "" {
		name = c.entries[at].ID
	}
	if _, variant, ok := strings.Cut(id, ":"); ok {
		name += ":" + variant
	}
	return name
}

// has reports whether a list contains an id.
func (l *listed) has(id string) bool {
	_, suffix, ok := l.index.Find(id)
	return ok && suffix == ""
}

// find returns the list's entry for a model that the provider is configured with.
func (l *listed) find(m modelfile.Model) (listedModel, bool) {
	if l == nil {
		return listedModel{}, false
	}
	for _, id := range []string{m.UpstreamID, m.ID} {
		if at, suffix, ok := l.index.Find(id); ok && suffix == "" {
			return listedModel{l.models[at], l.expressible}, true
		}
	}
	return listedModel{}, false
}

// override overrides base with the list's values: the price as a whole, because a part that the provider does not name is not available; of the
// capabilities, those that its form can express.
func (l *listedModel) override(base modelfile.Model) modelfile.Model {
	m := merge(base, l.Model)
	if l.Price != nil {
		m.Price = l.Price
	}
	if l.Capabilities != nil {
		m.Capabilities = slices.DeleteFunc(slices.Clone(base.Capabilities), func(f policy.Feature) bool { return slices.Contains(l.expressible, f) })
		for _, f := range l.Capabilities {
			if !slices.Contains(m.Capabilities, f) {
				m.Capabilities = append(m.Capabilities, f)
			}
		}
	}
	return m
}
