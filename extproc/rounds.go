package extproc

import (
	"cmp"
	"context"
	"fmt"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
)

// Tool rounds: the model is called again with the results of calls that the gateway answers itself (package rounds).

// nextRound bills a complete answer whose calls are answered inside the gateway, and appends answer and results to the request. The error is a fault.
func (s *drivenStream) nextRound(ctx context.Context, a *reading.Answer) error {
	x := s.x
	next, err := x.continued(ctx, a)
	if err != nil {
		return fmt.Errorf("answering calls of the gateway's own tools: %w", err)
	}
	x.outcome.Charge(a)
	x.outcome.RecordAnswered(a, outcomeRound)
	x.trace.Attempts[len(x.trace.Attempts)-1].Reason = "the model called tools of the gateway"
	x.outcome.RecordDecision(upstream.Decision{Move: upstream.ToolRound, Why: "the model gets the results of its calls"})
	x.Request = next
	r := &x.rounds
	a.Gate.Close()
	x.lastRound = a
	switch {
	case a.Whole():
		r.Shown = contentOf(a)
		r.Texts = r.Texts && a.Form == nil
	case s.content && r.Encoder == nil:
		r.Encoder, r.Reasoning, r.Dialect = a.Encoder, a.Reasoning, a.Dialect
	}
	return nil
}

// outcomeRound is the outcome, in the request's record, of a call whose answer was answered inside the gateway.
const outcomeRound = "tool_round"

// contentOf returns the events that the client gets of a held answer and of the rounds before it, after the last round. For an answer with a schema,
// the text of earlier rounds is dropped: it is not part of the JSON.
func contentOf(a *reading.Answer) (out []chat.Event) {
	for i := range a.Held {
		ev := &a.Held[i]
		switch ev.Kind { //nolint:exhaustive // the rest is content
		case chat.Start, chat.UsageInfo:
			continue
		case chat.Text, chat.Refusal:
			if a.Form != nil {
				continue
			}
		}
		out = append(out, *ev)
	}
	a.Held = nil
	return out
}

// continued returns the request with an answer and the results of its calls appended to the messages, in the client's own format: any candidate can
// be called with it, as if the client had sent it.
func (x *exchange) continued(ctx context.Context, a *reading.Answer) (*chat.Request, error) {
	enc := x.Dialect.NewEncoder(wire.Options{Same: a.Dialect == x.Request.Dialect, RequestID: x.ID, Created: x.Started.Unix(), Request: x.Request})
	var body []byte
	for i := range a.Gate.Whole {
		body = enc.Append(body, &a.Gate.Whole[i])
	}
	a.Gate.Whole = nil
	calls := a.Gate.Calls
	results := make([]wire.CallResult, len(calls))
	for i, res := range x.RoundResults(ctx, calls) {
		if !res.IsError {
			x.gw.Metrics.LayerCalled(res.Layer)
		}
		x.rounds.Layer = cmp.Or(x.rounds.Layer, res.Layer)
		results[i] = wire.CallResult{ID: calls[i].ID, Name: calls[i].Name, Text: res.Text, IsError: res.IsError}
	}
	return x.Dialect.(wire.Continuer).Continue(x.Request, body, results) //nolint:forcetypeassert // see mayCallTools
}

// rounds calls one candidate, again for each round. The answer is complete if failure and error are nil; the error means that the client has
// disconnected.
func (s *drivenStream) rounds(ctx context.Context, call func() *attempt.Attempt) (a *reading.Answer, f *upstream.Failure, err error) {
	for {
		s.sending = false
		if a, f, err = s.callWith(ctx, call(), s.deliver); f != nil || err != nil || !a.NeedsRound() {
			return a, f, err
		}
		if err := s.nextRound(ctx, a); err != nil {
			return a, &upstream.Failure{Provider: a.By.Provider, Kind: upstream.NotEncoded, Cause: err}, nil //nolint:nilerr // the failure has it
		}
	}
}
