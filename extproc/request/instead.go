package request

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// MayBeReplaced reports whether another model than the one that was asked for may serve the request: a generation that is not bound to a provider, and not sent
// with the caller's own key.
func (v *View) MayBeReplaced() bool {
	return v.Request.Op == chat.Generate && !v.Verbatim() && v.AnyProvider() && !v.OwnKey.IsSet() && len(v.Found) > 0 && !v.CallerPays(v.Found[0].Provider)
}

// Instead are the candidates that may serve the request with another model, best first; with "" the gateway chooses the model. Everything that restricts the
// request's own candidates restricts them: the plan and the scope of its key, its session, what it contains and needs, and how private it is.
func (v *View) Instead(model policy.ModelID) []policy.Resolution {
	return v.replacing(v.facts(), model, &v.Intent, &v.Found[0])
}

// FreeInstead are the candidates that cost nothing and may serve a request in the place of those that were found for its intent, of which there may be none.
func (v *View) FreeInstead(in *policy.Intent, found []policy.Resolution) []policy.Resolution {
	if v.Request.Op != chat.Generate || v.Verbatim() || !v.AnyProvider() {
		return nil
	}
	return v.FreeFor(v.facts(), in, found)
}

// FreeFor is FreeInstead for a generation of which only facts may be known: Request may be nil.
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

// replacing are the candidates that may serve the request of an intent with another model than first, which may be nil.
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

// canServe reports whether a candidate takes everything that the request contains, at a price that is known.
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
