package dryrun

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Hedge is the candidate that is called as well if the first one is slow.
type Hedge struct {
	Provider policy.ProviderID `json:"provider"`
	Model    policy.ModelID    `json:"model"`
	After    float64           `json:"after_ms"`  // without content
	SharePct int               `json:"share_pct"` // maximum percentage of the gateway's requests that have a second call
}

// setHedge sets the second candidate of a request that is hedged. order has the candidates of e.Order. A request whose content is not known is taken for an
// empty one: content can only exclude a second call.
func (e *Result) setHedge(rt *runtime.Config, ask *Query, built *intent.Built, order []policy.Resolution) {
	if len(order) == 0 || request.HintsSearch(&ask.Hints) || slices.ContainsFunc(e.Order, func(c Candidate) bool { return c.Direct }) {
		return
	}
	r := ask.Request
	if r == nil {
		r = &chat.Request{Op: chat.Generate}
	}
	v := request.View{
		Config: rt, OwnKey: ask.OwnKey,
		Exchange: pipeline.Exchange{Principal: ask.Principal, Hints: ask.Hints, Request: r, Intent: built.Intent, Found: order, Order: order},
	}
	at := v.HedgeAt()
	if at > 0 {
		e.Hedge = &Hedge{
			Provider: order[at].Provider, Model: order[at].Model, After: float64(rt.Hedging.After) / float64(time.Millisecond), SharePct: rt.Hedging.SharePct,
		}
	}
}

// text returns the line of a request that is hedged.
func (h *Hedge) text(first *Candidate) string {
	after := strconv.FormatFloat(h.After, 'f', -1, 64)
	return fmt.Sprintf("hedged: if %s gives no content for %s ms, %s/%s is called as well, for at most %d %% of requests\n", first.Provider, after, h.Provider, h.Model, h.SharePct)
}
