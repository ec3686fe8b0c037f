package catalog

import (
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// List is what a provider says that it serves.
type List struct {
	Format string            // in which form it was read: FormOpenRouter …
	Models []modelfile.Model // as Parse returned them
	Read   time.Time         // when it was true
}

// With is the same catalog with providers' lists in place of those that it had. Prices and limits that a list names stand over the
// embedded file's, and the operator's over both. Nothing is shared with lists that could change.
func (c *Catalog) With(lists map[policy.ProviderID]List) *Catalog {
	out := *c
	out.lists = map[policy.ProviderID]*listed{}
	for p, l := range lists {
		out.lists[p] = out.list(l)
	}
	return &out
}

// Listed are the models of a provider's own list, for At to complete; ok is false if no list of it is known. The id is the catalog's own
// where it knows the model, and the id of the list is an alias of it, and what the provider is asked for.
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
	models []modelfile.Model
	index  Index[int]
	speaks []policy.Feature // the features that the list's form can name: what it does not name of them is not there
}

// listedModel is one model of a list.
type listedModel struct {
	modelfile.Model
	speaks []policy.Feature
}

// list gives the models of a list the ids that the catalog knows them by.
func (c *Catalog) list(l List) *listed {
	out := &listed{speaks: forms[l.Format].speaks}
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

// canonical is the catalog's own id of a model that a list names, with the list's variant; a snapshot keeps its date. An id that the
// catalog does not know stays.
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

// has tells whether a list names an id.
func (l *listed) has(id string) bool {
	_, suffix, ok := l.index.Find(id)
	return ok && suffix == ""
}

// find is what a list says of a model that the provider is configured with.
func (l *listed) find(m modelfile.Model) (listedModel, bool) {
	if l == nil {
		return listedModel{}, false
	}
	for _, id := range []string{m.UpstreamID, m.ID} {
		if at, suffix, ok := l.index.Find(id); ok && suffix == "" {
			return listedModel{l.models[at], l.speaks}, true
		}
	}
	return listedModel{}, false
}

// over puts what the list says over what is known of the model: its price as a whole, since what a provider does not name it does not
// give; of the capabilities those that it can speak of.
func (l *listedModel) over(base modelfile.Model) modelfile.Model {
	m := merge(base, l.Model)
	if l.Price != nil {
		m.Price = l.Price
	}
	if l.Capabilities != nil {
		m.Capabilities = slices.DeleteFunc(slices.Clone(base.Capabilities), func(f policy.Feature) bool { return slices.Contains(l.speaks, f) })
		for _, f := range l.Capabilities {
			if !slices.Contains(m.Capabilities, f) {
				m.Capabilities = append(m.Capabilities, f)
			}
		}
	}
	return m
}
