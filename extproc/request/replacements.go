package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// MayBeReplaced reports whether another model than the requested one may serve the request: it is a generation, is not bound to a provider, and does
// not use the caller's own key.
func (v *View) MayBeReplaced() bool {
	return v.Request.Op == chat.Generate && !v.Verbatim() && v.AnyProvider() && !v.OwnKey.IsSet() && len(v.Found) > 0 && !v.CallerPays(v.Found[0].Provider)
}

// Replacements returns the candidates that may serve the request with another model, best first; with "" the gateway chooses the model. All
// restrictions of the request's own candidates apply: its key's plan and scope, its session, its content and needs, and its privacy.
func (v *View) Replacements(model policy.ModelID) []policy.Resolution {
	return v.replacing(v.facts(), model, &v.Intent, &v.Found[0])
}

// FreeReplacements returns the free candidates that may serve the request instead of those found for its intent, which may be none.
func (v *View) FreeReplacements(in *policy.Intent, found []policy.Resolution) []policy.Resolution {
	if v.Request.Op != chat.Generate || v.Verbatim() || !v.AnyProvider() {
		return nil
	}
	return v.FreeFor(v.facts(), in, found)
}

// FreeFor is FreeReplacements for a generation of which only facts are known: Request may be nil.
func (v *View) FreeFor(f intent.Facts, in *policy.Intent, found []policy.Resolution) []policy.Resolution {
	if v.OwnKey.IsSet() || len(found) > 0 && v.CallerPays(found[0].Provider) {
		return nil
	}
	var first *policy.Resolution
	if len(found) > 0 {
		first = &found[0]
	}
	return slices.DeleteFunc(v.replacing(f, "", in, first), func(to policy.Resolution) bool { return !v.IsFree(&to) })
}

func (v *View) facts() intent.Facts { return hint.Facts(v.Request, int64(v.Request.MaxTokens)) }

// replacing returns the candidates that may serve a request of the intent with another model than that of first, which may be nil.
func (v *View) replacing(f intent.Facts, model policy.ModelID, in *policy.Intent, first *policy.Resolution) []policy.Resolution {
	f.Model, f.Provider = string(model), ""
	built := v.Config.Needs(&v.Hints, &f, &v.Principal)
	d := v.Config.Resolver.Decide(&built.Intent)
	if d.Err != nil {
		return nil
	}
	return slices.DeleteFunc(d.Order, func(to policy.Resolution) bool {
		p := v.Config.Provider(to.Provider)
		return p.Free || v.CallerPays(to.Provider) || !v.MayCall(&to) || first != nil && resolve.Weaker(in, first, &to) || v.Request != nil && !v.canServe(&to)
	})
}

// canServe reports whether a candidate supports everything that the request contains, at a known price.
func (v *View) canServe(to *policy.Resolution) bool {
	return v.HasPrices(to) && v.Config.UnservedReason(v.Request, to) == "" && v.Config.UnsupportedContent(v.Request, to) == nil && !v.lacksNeed(to)
}

func (v *View) lacksNeed(to *policy.Resolution) bool {
	for _, n := range v.Request.Needs {
		if !v.meets(to, n.Feature) {
			return true
		}
	}
	return false
}
