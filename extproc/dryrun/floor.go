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

// Floor is why only free models would serve a request (B-20).
type Floor struct {
	Asked  string `json:"asked"`  // the requested model; "auto" if none is named
	Reason string `json:"reason"` // the exhausted source of money
}

// applyFloor replaces the candidates by free models, as the gateway does: if the wallet that pays for the request, or the caller's balance, is empty,
// the operator has enabled it, and a free model may serve the request.
func (e *Result) applyFloor(rt *runtime.Config, ask *Query, built *intent.Built, d *resolve.Decision) {
	reason := exhaustedSource(ask, d)
	if reason == "" || !rt.Cheaper.Free || intent.Critical(ask.Hints.Subsystem) || ask.Request != nil && ask.Request.Op != chat.Generate {
		return
	}
	v := request.View{Exchange: pipeline.Exchange{Principal: ask.Principal, Hints: ask.Hints, Request: ask.Request}, Config: rt, OwnKey: ask.OwnKey}
	if ask.Broke && len(d.Order) > 0 && (rt.Resolver.Direct(d.Order[0].Provider) || v.IsFree(&d.Order[0])) {
		return
	}
	var free []policy.Resolution
	if ask.Request != nil {
		free = v.FreeReplacements(&built.Intent, d.Order)
	} else {
		free = v.FreeFor(ask.Facts, &built.Intent, d.Order)
	}
	if len(free) == 0 {
		return
	}
	e.Floor = &Floor{Asked: askedModel(ask), Reason: reason}
	for i := range free {
		free[i].Why = "it costs nothing"
	}
	d.Order, d.Err = free, nil
}

// exhaustedSource returns the exhausted source of money of a request; "" for none. A caller with a balance does not depend on the wallet's earnings.
func exhaustedSource(ask *Query, d *resolve.Decision) string {
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
