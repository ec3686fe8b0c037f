package extproc

import (
	"encoding/json"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// How an answer's reasoning is shown depends on where the answer is read: on its reader, that is, and not on who gave the answer. What
// is stored of an answer holds all of it.

// headerReasoning asks for the chain beside the answer.
const headerReasoning = "x-bardo-reasoning"

// parseReasoning reads how much of an answer's reasoning is asked for.
func (x *exchange) parseReasoning() error {
	switch how := x.Head.Header.Get(headerReasoning); how {
	case "", "default":
	case "full":
		x.report.FullChain = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Reasoning: %q, expected full or default", fault.Clip(how))
	}
	return nil
}

// view is how this exchange's client is shown reasoning.
func (x *exchange) view() render.View {
	return render.View{Surface: render.SurfaceOf(x.Hints.Surface), Full: x.report.FullChain}
}

// newPresenter prepares to show an answer's reasoning; nil where it goes out as it is and nobody wants to know more of it.
func (x *exchange) newPresenter(to *policy.Resolution, dialect chat.Dialect) *render.Presenter {
	v := x.view()
	if x.Request.Op != chat.Generate || x.Verbatim() || v == (render.View{}) && !x.report.Events().On() {
		return nil
	}
	recorder := reasoning.NewRecorder(reasoning.Of(x.Config.Providers[to.Provider].Reasoning, to, dialect), to)
	return render.NewPresenter(v, recorder, x.Request.Stream && wire.TakesComments(x.Dialect))
}

// thinking is the comment that keeps a terminal's stream alive while the model thinks in silence; "" while it does not.
func (a *answer) thinking() string {
	if a == nil {
		return ""
	}
	return a.reasoning.Heartbeat()
}

// present notes an event's reasoning, and reports whether the event goes out.
func (a *answer) present(ev *chat.Event) (visible bool) {
	if a.reasoning == nil {
		return true
	}
	a.out, visible = a.reasoning.Event(a.out, ev, a.ownUsage != nil)
	return visible
}

// attachReasoning puts beside the answer what of its reasoning belongs there.
func (a *answer) attachReasoning() {
	enc, ok := a.enc.(wire.Attacher)
	if !ok || a.reasoning == nil || !a.reasoning.View.Attaches() {
		return
	}
	own, err := render.Member(a.chain(), a.reasoning.View)
	if err != nil {
		a.x.gw.Log.Error("an answer's reasoning cannot be written", "request", a.x.ID, "error", err)
		return
	}
	a.out = enc.Attach(a.out, a.x.report.WithVerification(own))
}

// chain is what the answer showed of its reasoning, and what that took. It is for answers that are over, and were recorded.
func (a *answer) chain() *reasoning.Chain {
	u := a.total()
	if a.x.report.Stored != nil {
		u = a.x.report.Stored.Usage
	}
	return a.reasoning.Chain(&u, &a.res.Prices)
}

// tellReasoning reports the reasoning that an answer showed.
func (x *exchange) tellReasoning(a *answer) {
	if a.reasoning != nil && x.report.Events().On() {
		x.report.Reasoning(a.chain(), a.reasoning.View.Surface)
	}
}

// keepReasoning keeps an answer's reasoning for its own account, where the surface may ask for it afterwards.
func (x *exchange) keepReasoning(a *answer) {
	if a == nil || a.reasoning == nil || !a.reasoning.View.Stores() || !x.MayRetain() {
		return
	}
	c := a.chain()
	if c.Visibility == reasoning.None {
		return
	}
	b, err := json.Marshal(c)
	if err != nil {
		x.gw.Log.Error("an answer's reasoning cannot be kept", "request", x.ID, "error", err)
		return
	}
	x.gw.reasonings.Put(x.ID, x.Principal.Account, b)
}
