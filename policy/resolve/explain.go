package resolve

import (
	"errors"
	"slices"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// Candidate is one way to serve a model, with what a dry run shows of it.
type Candidate struct {
	policy.Resolution
	Features []policy.Feature // what the model has there, by the catalog and the configuration
	Why      string           // why this provider is asked
}

// Refusal is a provider that does not serve a request, and why.
type Refusal struct {
	Provider policy.ProviderID
	Model    string // as it was asked for
	Reason   string
}

// Explanation is what Resolve answers, and what it leaves out.
type Explanation struct {
	Order   []Candidate // in the configured order
	Refused []Refusal   // the other providers, in the configured order; then the model's vendor if it is not enabled
	Err     error       // the fault of Resolve when Order is empty
}

// Explain tells who serves a model, as Resolve does, and why the others do not. It is for people: nothing on a request's path needs it.
func (r *Resolver) Explain(model, provider string) Explanation {
	found, err := r.Resolve(model, provider, nil)
	e := Explanation{Err: err}
	pinned, name, isPinned := r.pinned(model, provider)
	for _, res := range found {
		e.Order = append(e.Order, Candidate{Resolution: res, Features: r.features(res, name), Why: r.why(res.Provider, name, isPinned)})
	}
	for _, p := range r.providers {
		if slices.ContainsFunc(found, func(res policy.Resolution) bool { return res.Provider == p.ID }) {
			continue
		}
		reason := "the request asks for " + string(pinned) + " alone"
		if !isPinned || p.ID == pinned {
			reason = r.whyNot(p, name)
		}
		e.Refused = append(e.Refused, Refusal{Provider: p.ID, Model: name, Reason: reason})
	}
	if v := r.vendorOf(name); !isPinned && v != "" && r.find(v) == nil {
		e.Refused = append(e.Refused, Refusal{Provider: v, Model: name, Reason: "it serves this model, and is not configured"})
	}
	return e
}

// pinned says whether a request asks for one provider alone, and for which model there.
func (r *Resolver) pinned(model, provider string) (p policy.ProviderID, name string, ok bool) {
	if provider != "" {
		return policy.ProviderID(provider), model, true
	}
	p, rest, ok := r.Split(model)
	if !ok {
		return "", model, false
	}
	if _, err := r.only(p, rest); err == nil {
		return p, rest, true
	}
	if _, _, listed := r.index.Find(model); listed {
		return "", model, false
	}
	return p, rest, true
}

// entryOf is a provider's own listing of a model, nil if it lists none.
func (r *Resolver) entryOf(p policy.ProviderID, model string) *entry {
	l, _, ok := r.index.Find(model)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(l.entries, func(e entry) bool { return e.resolution.Provider == p })
	if i < 0 {
		return nil
	}
	return &l.entries[i]
}

func (r *Resolver) features(res policy.Resolution, model string) []policy.Feature {
	var out []policy.Feature
	if e := r.entryOf(res.Provider, model); e != nil {
		out = slices.Clone(e.model.Capabilities)
	} else {
		out = slices.Clone(r.catalog.Unlisted(res.Provider, model).Capabilities)
	}
	if p := r.find(res.Provider); p != nil && p.Private && !slices.Contains(out, policy.Privacy) {
		out = append(out, policy.Privacy)
	}
	return out
}

func (r *Resolver) why(id policy.ProviderID, model string, isPinned bool) string {
	switch p := r.find(id); {
	case isPinned:
		return "the request asks for it"
	case p != nil && p.Free:
		return "no provider is configured, so the demo answers"
	case r.entryOf(id, model) != nil:
		return "it lists the model"
	case p != nil && p.Any:
		return "it takes any model that nobody lists"
	}
	return "its vendor, by the model's name"
}

// whyNot is why a provider that is enabled does not serve a model.
func (r *Resolver) whyNot(p config.Provider, model string) string {
	_, err := r.only(p.ID, model)
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return f.Public
	case p.Any:
		return "it takes only models that no other provider lists"
	}
	return "it does not list the model, and takes it only when asked for: " + string(p.ID) + "/" + clip(model)
}

// vendorOf is the ordinary provider that is known to serve a model, "" if none is.
func (r *Resolver) vendorOf(model string) policy.ProviderID {
	if m, ok := r.catalog.Lookup(model); ok {
		return m.Vendor
	}
	return catalog.VendorOf(model)
}
