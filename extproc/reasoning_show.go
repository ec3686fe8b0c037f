package extproc

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// How an answer's reasoning is shown depends on where the answer is read: on its reader, that is, and not on who gave the answer. What
// is stored of an answer holds all of it.

// headerReasoning asks for the chain beside the answer.
const headerReasoning = "x-bardo-reasoning"

// hearReasoning reads how much of an answer's reasoning is asked for.
func (x *exchange) hearReasoning() error {
	switch how := x.head.Header.Get(headerReasoning); how {
	case "", "default":
	case "full":
		x.fullChain = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Reasoning: %q, expected full or default", fault.Clip(how))
	}
	return nil
}

// view is how this exchange's client is shown reasoning.
func (x *exchange) view() render.View {
	return render.View{Surface: render.SurfaceOf(x.Hints.Surface), Full: x.fullChain}
}

// shown is what becomes of one answer's reasoning.
type shown struct {
	view     render.View
	recorder *reasoning.Recorder
	whole    *reasoning.Chain // once somebody wanted to know it
	progress render.Progress
	comments bool // the client reads comments in a stream
	heard    int  // events of an answer that is held, whose thoughts the progress knows
}

// newShown prepares to show an answer's reasoning; nil where it goes out as it is and nobody wants to know more of it.
func (x *exchange) newShown(to *policy.Resolution, spoken chat.Dialect) *shown {
	v := x.view()
	if x.Request.Op != chat.Generate || x.verbatim() || v == (render.View{}) && !x.gw.Events.On() {
		return nil
	}
	kind := ""
	if p, ok := x.rt.Providers[to.Provider]; ok {
		kind = p.Adapter.Name()
	}
	_, plain := x.dialect.(wire.Plain)
	return &shown{
		view: v, recorder: reasoning.NewRecorder(reasoning.Of(kind, to, spoken), to), comments: x.Request.Stream && !plain && v.Progresses(),
	}
}

// take notes what an event says of the reasoning, and reports whether it goes out.
func (s *shown) take(a *answer, ev *chat.Event) (goesOn bool) {
	s.recorder.Add(ev)
	if !s.view.Hides() {
		return true
	}
	if s.comments && a.own == nil { // of one that was held, the progress was told before
		a.out = s.progressOf(a.out, ev)
	}
	return render.Hide(ev)
}

// progressOf appends, between two events of a stream, a sign that the model thinks, if one is due.
func (s *shown) progressOf(dst []byte, ev *chat.Event) []byte {
	switch now := time.Now(); {
	case ev.Kind == chat.Thought:
		if s.progress.Add(now, ev.Text) {
			return sse.AppendComment(dst, s.progress.Line(now))
		}
	case ev.Kind.IsContent() && !render.IsThought(ev):
		s.progress = render.Progress{} // it says something now; what it thinks later counts anew
	}
	return dst
}

// overhear notes what is new in an answer that is held, and is the signs that are due.
func (s *shown) overhear(held []chat.Event) (signs []byte) {
	if !s.comments {
		return nil
	}
	for ; s.heard < len(held); s.heard++ {
		signs = s.progressOf(signs, &held[s.heard])
	}
	return signs
}

// thinking is the comment that keeps a terminal's stream alive while the model thinks in silence; "" while it does not.
func (a *answer) thinking() string {
	if a == nil || a.shown == nil || !a.shown.progress.Thinks() {
		return ""
	}
	return string(sse.AppendComment(nil, a.shown.progress.Line(time.Now())))
}

// end puts beside the answer what of its reasoning belongs there.
func (s *shown) end(a *answer, ev *chat.Event) {
	s.take(a, ev)
	enc, ok := a.enc.(wire.Attacher)
	if !ok || !s.view.Attaches() {
		return
	}
	own, err := render.Member(a.chain(), s.view)
	if err != nil {
		a.x.gw.Log.Error("an answer's reasoning cannot be written", "request", a.x.ID, "error", err)
		return
	}
	a.out = enc.Attach(a.out, a.x.withVerification(own))
}

// chain is what the answer showed of its reasoning, and what that took. It is for answers that are over, and were recorded.
func (a *answer) chain() *reasoning.Chain {
	if a.shown.whole != nil {
		return a.shown.whole
	}
	u := a.total()
	if a.x.stored != nil {
		u = a.x.stored.Usage
	}
	c := a.shown.recorder.Chain(&u)
	if a.res.Prices.Known {
		usd := policy.Pico(float64(a.res.Prices.Output.Cost(c.Tokens)) * c.Cost.Discount)
		c.Cost.USD = &usd
	}
	a.shown.whole = &c
	return &c
}

// eventCaptured tells that an answer was thought about: how much, and not what.
const eventCaptured = "inference:reasoning_captured"

type reasoningCaptured struct {
	RequestID   string               `json:"request_id"`
	Subsystem   string               `json:"subsystem"`
	Provider    policy.ProviderID    `json:"provider"`
	Model       policy.ModelID       `json:"model"`
	Visibility  reasoning.Visibility `json:"visibility"`
	Tokens      int64                `json:"reasoning_tokens"`
	Estimated   bool                 `json:"estimated"`
	Interleaved bool                 `json:"interleaved"`
	Surface     string               `json:"surface"`
}

// tellReasoning reports that an answer showed reasoning, or that its provider counted some. Nothing was thought about a stored one.
func (x *exchange) tellReasoning(a *answer) {
	if !x.gw.Events.On() || a.shown == nil {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	x.gw.Events.Emit(eventCaptured, x.Principal.Account, reasoningCaptured{
		x.ID, x.Hints.Subsystem, c.Provider, c.Model, c.Visibility, c.Tokens, c.Estimated, c.Interleaved, a.shown.view.Surface.String(),
	})
}
