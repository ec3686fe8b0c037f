package dryrun

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// Floor is why free models alone would serve a request (B-20).
type Floor struct {
	Asked  string `json:"asked"`  // the model; "auto" where none is named
	Reason string `json:"reason"` // what is empty
}

// applyFloor replaces the candidates by the models that cost nothing, as the gateway does: where the wallet that would pay for the request, or the caller's balance,
// is empty, the operator wants it so, and a free model may serve it.
func (e *Result) applyFloor(rt *runtime.Config, ask *Query, built *intent.Built, d *resolve.Decision) {
	why := emptiness(ask, d)
	if why == "" || !rt.Cheaper.Free || intent.Critical(ask.Hints.Subsystem) || ask.Request != nil && ask.Request.Op != chat.Generate {
		return
	}
	v := request.View{Exchange: pipeline.Exchange{Principal: ask.Principal, Hints: ask.Hints, Request: ask.Request}, Config: rt, OwnKey: ask.OwnKey}
	if ask.Broke && len(d.Order) > 0 && (rt.Resolver.Direct(d.Order[0].Provider) || v.IsFree(&d.Order[0])) {
		return
	}
	var free []policy.Resolution
	if ask.Request != nil {
		free = v.FreeInstead(&built.Intent, d.Order)
	} else {
		free = v.FreeFor(ask.Facts, &built.Intent, d.Order)
	}
	if len(free) == 0 {
		return
	}
	e.Floor = &Floor{Asked: askedModel(ask), Reason: why}
	for i := range free {
		free[i].Why = "it costs nothing"
	}
	d.Order, d.Err = free, nil
}

// emptiness is what cannot pay for a request; "" for nothing. Who has a balance is not served from the wallet's earnings alone.
func emptiness(ask *Query, d *resolve.Decision) string {
	switch {
	case ask.Broke:
		return "the balance is empty"
	case d.Unfunded != "" && !ask.Principal.Prepaid:
		return "the credit at " + string(d.Unfunded) + " is used up"
	}
	return ""
}

func askedModel(ask *Query) string {
	if ask.Facts.Model == "" {
		return "auto"
	}
	return ask.Facts.Model
}
