package extproc

import (
	"hash/maphash"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/ledger"
)

// What the governor of the layers is told of requests. While it is off, nothing here costs anything.

// eventGovernor is the event of a knob that was changed, or would be.
const eventGovernor = "governor:changed"

// govern gives the layers of a request the governor's values.
func (x *exchange) govern() {
	if !x.gw.Governor.Enabled() || x.Request.Op != chat.Generate {
		return
	}
	if p := x.Profile; p != "" && p != pipeline.ProfileStandard && p != pipeline.ProfileFull {
		return // none of the governed layers runs
	}
	x.requestSize = len(x.Request.Doc.Bytes)
	talk, request := x.conversation()
	x.choice = x.gw.Governor.Choose(x.task, talk, request)
	x.Knobs = x.choice.Knobs
}

var governorSeed = maphash.MakeSeed()

// conversation is a hash of what the requests of a conversation have in common, and one of this request.
func (x *exchange) conversation() (talk, request uint64) {
	var h maphash.Hash
	h.SetSeed(governorSeed)
	write := func(b []byte) {
		_, _ = h.Write(b) // never fails
		_ = h.WriteByte(0)
	}
	doc := &x.Request.Doc
	write([]byte(x.Principal.Account))
	write([]byte(x.Hints.SessionID))
	if x.Hints.SessionID == "" {
		write(doc.Get("system").Raw)
		write(doc.Get("instructions").Raw)
		for _, key := range [...]string{"messages", "input", "contents"} {
			writeOpening(doc.Get(key), write)
		}
	}
	talk = h.Sum64() | 1
	write(doc.Bytes)
	return talk, h.Sum64() | 1
}

// writeOpening writes the messages up to the user's first one, which all requests of a conversation begin with.
func writeOpening(list jsonx.Value, write func([]byte)) {
	for _, m := range list.Each {
		write(m.Raw)
		if m.Get("role").Equal("user") {
			return
		}
	}
}

// governed tells the governor what became of the request.
func (x *exchange) governed() {
	s := x.trace.Settled
	if !x.choice.Active() || s == nil || s.Outcome != record.OK && s.Outcome != record.Invalid {
		return
	}
	o := governor.Outcome{
		RequestID: x.ID, Regime: x.Hints.Regime, Size: x.requestSize, Input: s.Usage.TotalInput(), Cached: s.Usage.Cached, Cost: s.Charged,
		Retried: x.choice.Again && (!s.Stored || x.trace.Cache == record.CacheSemantic), SchemaFailure: s.Outcome == record.Invalid || x.failedValidation != nil,
		Overridden: x.Hints.Pipeline != "" || x.Hints.NoCache,
	}
	for i := range x.Log {
		e := &x.Log[i]
		l := governor.LayerOutcome{Layer: e.Layer, Recalled: e.Recalled}
		for k := range s.Savings {
			if s.Savings[k].Layer == e.Layer {
				l.Tokens, l.Saved = s.Savings[k].Tokens, s.Savings[k].Amount
			}
		}
		o.Layers = append(o.Layers, l)
	}
	x.gw.Governor.Observe(&x.choice, &o)
}

// rated tells the governor what a caller said of an answer.
func (g *Gateway) rated(f, before *ledger.Feedback) {
	var was *float64
	if before != nil {
		score := float64(before.Score) / ledger.PerfectScore
		was = &score
	}
	g.Governor.Rate(f.RequestID, float64(f.Score)/ledger.PerfectScore, was)
}

// knobChanged tells operators of a knob that was changed, or would be.
func (g *Gateway) knobChanged(c *governor.Change) {
	g.Metrics.KnobChanged(c.Knob, c.Applied)
	g.Log.Info("the governor changes a setting of a layer", "task", c.Task, "knob", c.Knob, "from", c.From, "to", c.To, "applied", c.Applied)
	g.Events.Emit(eventGovernor, "", c)
}
