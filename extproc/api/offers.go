package api

import (
	"slices"

	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// offers returns the models that the caller may use: those of its key, at the providers of its plan, by id.
func (c *Caller) offers() []resolve.Offer {
	all := c.Catalog.Models()
	out := all[:0]
	for i := range all {
		if o, ok := c.ofPlan(&all[i]); ok && c.Principal.Scope.AllowsModel(o.ID) {
			out = append(out, o)
		}
	}
	return out
}

// ofPlan returns a model at the providers of the caller's plan; ok is false if none of them has it.
func (c *Caller) ofPlan(o *resolve.Offer) (of resolve.Offer, ok bool) {
	in := policy.Intent{Barred: c.Barred}
	if !slices.ContainsFunc(o.Providers, in.Bars) {
		return *o, true
	}
	of.Offers = []catalog.Model{}
	for i, p := range o.Providers {
		if !in.Bars(p) {
			of.Providers, of.Offers, of.Abilities = append(of.Providers, p), append(of.Offers, o.Offers[i]), append(of.Abilities, o.Abilities[i])
		}
	}
	if len(of.Providers) == 0 {
		return of, false
	}
	of.Model = of.Offers[0]
	of.ID = o.ID
	return of, true
}

// local returns the local model; nil if there is none, or the caller's key may not use it.
func (c *Caller) local() *localembed.Model {
	if c.Local == nil || !c.Principal.Scope.AllowsModel(c.Local.ID) {
		return nil
	}
	return c.Local
}

// model returns the model that a path names after root. The error is a fault.
func (c *Caller) model(root string) (o resolve.Offer, err error) {
	id := c.Head.Arg(root)
	o, ok := c.Catalog.Model(id)
	if !ok {
		if _, err = c.Catalog.Resolve(id, ""); err == nil {
			err = fault.Newf(fault.ModelNotFound, "no provider lists the model %q", fault.Clip(id))
		}
		return o, err
	}
	of, ok := c.ofPlan(&o)
	if !ok || !c.Principal.Scope.AllowsModel(o.ID) {
		return o, fault.Newf(fault.ModelNotFound, "the model %q is not for this key", fault.Clip(id))
	}
	return of, nil
}
