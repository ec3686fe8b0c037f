package resolve

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Refusal is a provider that does not serve a request, and why.
type Refusal struct {
	Provider policy.ProviderID
	Model    string // the requested one, else the provider's best fit
	Reason   string
}

// refusals are the providers that are not candidates, in the configured order, and the model's vendor if it is not enabled.
func (d *ranking) refusals() []Refusal {
	pinned, name, isPinned := d.r.pinned(d.n.Model, string(d.n.Provider))
	var out []Refusal
	for i := range d.candidates {
		c := &d.candidates[i]
		if slices.ContainsFunc(d.picks, func(p pick) bool { return p.c == c }) {
			continue
		}
		var reason string
		model := name
		switch {
		case d.n.named && isPinned && c.p.ID != pinned:
			reason = "the request asks for " + clip(string(pinned)) + " alone"
		case c.role == barred:
			reason = c.why
		case d.n.named && len(c.options) == 0:
			reason = d.r.whyNot(c.p, name)
		default:
			model, reason = d.nearest(c)
		}
		out = append(out, Refusal{Provider: c.p.ID, Model: model, Reason: reason})
	}
	if v := d.r.vendorOf(name); d.n.named && !isPinned && v != "" && d.r.find(v) == nil {
		out = append(out, Refusal{Provider: v, Model: name, Reason: "it serves this model, and is not configured: " + d.r.available[v].EnabledBy})
	}
	return out
}

// nearest is a provider's model that fits best, and why it does not serve the request.
func (d *ranking) nearest(c *candidate) (model, reason string) {
	if !d.serves(c) {
		return d.n.Model, c.why
	}
	var best *option
	var lacking lack
	for i := range c.options {
		o := &c.options[i]
		if l := d.n.excluded(c, o); best == nil || l > lacking {
			best, lacking = o, l
		}
	}
	if best == nil {
		return "", "it lists no model"
	}
	return string(best.at.resolution.Model), d.n.missing(best, lacking)
}

// missing describes the lack that excludes an option.
func (n *need) missing(o *option, l lack) string {
	switch l {
	case lacksPrice:
		return "it has a price, and " + rulesOnly + " pays for none"
	case lacksDistance:
		return "its models are of the family that answered"
	case lacksBudget:
		return "this request may cost more there than its wallet affords for one"
	case lacksNative:
		return "it lacks what the vendor's own API was wanted for"
	case lacksPrivacy:
		return "the request is private, and it may retain what it gets"
	case lacksEnclave:
		return "the request's privacy tier is " + cmp.Or(n.PrivacyTier.String(), "tee") + ", which it does not offer"
	case lacksVision:
		return "the request holds images, and it takes none"
	case lacksAudio:
		return "the request holds audio, and it takes none"
	case lacksVideo:
		return "the request holds video, and it takes none"
	case lacksDocuments:
		return "the request holds documents, and it takes none"
	case lacksTools:
		return "the request has tools, and it calls none"
	case lacksWindow:
		return fmt.Sprintf("the request needs %d tokens, and its window has %d", n.tokens(o), o.context)
	case lacksSpeed:
		return fmt.Sprintf("it usually takes %s, and %s is the most", o.latency, n.relaxed)
	case lacksRoom:
		return fmt.Sprintf("it thinks first, and %d tokens leave no room for that", n.OutputTokens)
	case lacksNothing, relaxable, lacksTier, lacksFeature, lacksReasoning, lacksSchema, lacksQuality, lacksOutput, lacksPace:
	}
	return "others come before it"
}

// whyNamed returns the reason for a provider of a named model.
func (d *ranking) whyNamed(c *candidate) string {
	_, name, isPinned := d.r.pinned(d.n.Model, string(d.n.Provider))
	if c.role == specialist {
		return c.why
	}
	return d.r.why(c.p.ID, name, isPinned)
}

// pinned reports whether a request is for one provider only, and the model's name there.
func (r *Resolver) pinned(model, provider string) (p policy.ProviderID, name string, ok bool) {
	if provider != "" {
		return policy.ProviderID(provider), model, true
	}
	p, rest, ok := r.Split(model)
	if !ok {
		return "", model, false
	}
	if _, err := r.atProvider(p, rest); err == nil {
		return p, rest, true
	}
	if _, _, listed := r.index.Find(model); listed {
		return "", model, false
	}
	return p, rest, true
}

// entryOf returns a provider's own listing of a model, nil if it lists none.
func (r *Resolver) entryOf(p policy.ProviderID, model string) *entry {
	l, _, ok := r.index.Find(model)
	if !ok {
		return nil
	}
	i := slices.IndexFunc(l.entries, func(e *entry) bool { return e.resolution.Provider == p })
	if i < 0 {
		return nil
	}
	return l.entries[i]
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

// whyNot returns why an enabled provider does not serve a model.
func (r *Resolver) whyNot(p *kind.Provider, model string) string {
	_, err := r.atProvider(p.ID, model)
	var f *fault.Fault
	switch {
	case errors.As(err, &f):
		return f.Public
	case p.Any:
		return "it takes only models that no other provider lists"
	}
	return "it does not list the model, and takes it only when asked for: " + string(p.ID) + "/" + clip(model)
}

// vendorOf returns the vendor that is known to serve a model, "" if there is none.
func (r *Resolver) vendorOf(model string) policy.ProviderID {
	if m, ok := r.catalog.Lookup(model); ok {
		return m.Vendor
	}
	return r.catalog.VendorOf(model)
}
