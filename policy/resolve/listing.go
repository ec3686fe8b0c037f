package resolve

import (
	"cmp"
	"slices"
	"strings"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Offer is one model of the merged listing.
type Offer struct {
	catalog.Model                     // as its first provider offers it
	Providers     []policy.ProviderID // providers that serve it, in the configured order
	Offers        []catalog.Model     // as each of them offers it
	Abilities     []Ability           // what the model can do at each provider
}

// Ability is what a model can do at a provider.
type Ability struct {
	Features  []policy.Feature // those of the model and of the provider; shared, and not changed
	Documents bool             // it reads documents such as PDF
	Vendor    bool             // the provider is the models' vendor, or a user's own key there
}

// Models returns the merged listing of the enabled providers' models, by id. The caller owns it.
func (r *Resolver) Models() []Offer {
	out := make([]Offer, 0, len(r.listings))
	for _, l := range r.listings {
		if !l.alias {
			out = append(out, l.offer())
		}
	}
	slices.SortFunc(out, func(a, b Offer) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Model returns one model of the listing by any spelling of its id, or, as provider/model, as that provider offers it.
func (r *Resolver) Model(id string) (Offer, bool) {
	if l, _, ok := r.index.Find(id); ok {
		return l.offer(), true
	}
	provider, id, _ := strings.Cut(id, "/")
	l, _, ok := r.index.Find(id)
	if !ok {
		return Offer{}, false
	}
	o := l.offer()
	at := slices.Index(o.Providers, policy.ProviderID(provider))
	if at < 0 {
		return Offer{}, false
	}
	only := Offer{Model: o.Offers[at], Providers: o.Providers[at : at+1], Offers: o.Offers[at : at+1], Abilities: o.Abilities[at : at+1]}
	only.ID = o.ID
	return only, true
}

func (l *listing) offer() Offer {
	o := Offer{Model: l.entries[0].model}
	if !l.alias {
		o.ID = policy.ModelID(l.id)
	}
	for _, e := range l.entries {
		o.Providers = append(o.Providers, e.resolution.Provider)
		o.Offers = append(o.Offers, e.model)
		o.Abilities = append(o.Abilities, Ability{e.resolution.Features, e.model.Capabilities != nil && e.option.has.has(mayDocuments), e.vendor})
	}
	return o
}

// HasFree reports whether callers whose plan bars these providers can reach something free: a user's own key, the demo, a provider that staked credit
// pays, or a model without a price.
func (r *Resolver) HasFree(barred []policy.ProviderID) bool {
	in := policy.Intent{Barred: barred}
	for i := range r.providers {
		p := &r.providers[i]
		if (p.Direct || p.Free || p.DIEM) && !in.Bars(p.ID) {
			return true
		}
	}
	for _, l := range r.listings {
		for _, e := range l.entries {
			if e.option.has.has(isFree) && !in.Bars(e.resolution.Provider) {
				return true
			}
		}
	}
	return false
}
