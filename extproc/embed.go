package extproc

import (
	"context"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// localModel is the model of this machine that serves the request; nil if a provider does. A request for embeddings that leaves the model to the
// gateway gets the operator's choice, here or at a provider.
func (x *exchange) localModel() *localembed.Model {
	r, e := x.Request, &x.Config.Embeddings
	if r.Op != chat.Embed {
		return nil
	}
	if m := e.Local; m != nil && (intent.Auto(r.Model) || strings.EqualFold(r.Model, string(m.ID))) {
		return m
	}
	if e.Remote != "" && intent.Auto(r.Model) {
		r.Model = e.Remote
	}
	return nil
}

// embed answers a request for embeddings by the local model. Nothing leaves this machine for it, so that it takes private requests, too.
func (x *exchange) embed(ctx context.Context, d stream.Client, m *localembed.Model) error {
	if x.dry {
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Route: %s runs in the gateway: it has no route to explain", m.ID)
	}
	r, err := m.Parse(&x.Request.Doc)
	if err != nil {
		return err
	}
	to := policy.Resolution{Provider: localembed.Provider, Model: m.ID, Upstream: m.About.Name, Context: m.About.Window, Prices: policy.Prices{Known: true}}
	x.ClientModel, x.Request.Model = x.Request.Model, string(m.ID)
	x.Found, x.Order = []policy.Resolution{to}, []policy.Resolution{to}
	if err := x.allot(ctx, x.Request.InputTokens, 0); err != nil {
		return err
	}
	if err := x.holdNothing(ctx); err != nil {
		return err
	}
	x.trace.Departs(x.Arrived, x.Waited)
	within, cancel := context.WithTimeout(ctx, x.Config.Timeouts.Total)
	defer cancel()
	a, err := m.Do(within, &r)
	if err != nil {
		return err
	}
	x.bill.AddPriced(&to, chat.Usage{Input: a.Tokens, Final: true}, 0)
	x.attempted(to, record.OK, "", telemetry.Served)
	sum, err := x.settle(ctx, nil, record.OK)
	if err != nil {
		return err
	}
	reply := x.Head.JSON(a.Body)
	reply.Header = append(append(reply.Header, x.answerHeaders(to)...), sum.headers(nil)...)
	return d.Reply(reply)
}
