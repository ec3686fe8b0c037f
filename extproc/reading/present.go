package reading

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// newPresenter prepares to show an answer's reasoning; nil where it goes out as it is and nobody wants to know more of it.
func newPresenter(r *report.Report, to *policy.Resolution, dialect chat.Dialect) *render.Presenter {
	v := r.Reading()
	if r.Request.Op != chat.Generate || r.Verbatim() || v == (render.View{}) && !r.Events().On() {
		return nil
	}
	recorder := reasoning.NewRecorder(reasoning.Of(r.Config.Provider(to.Provider).Reasoning, to, dialect), to)
	return render.NewPresenter(v, recorder, r.Request.Stream && wire.TakesComments(r.Dialect))
}

// Thinking is the comment that keeps a terminal's stream alive while the model thinks in silence; "" while it does not.
func (a *Answer) Thinking() string {
	if a == nil {
		return ""
	}
	return a.Reasoning.Heartbeat()
}

// present notes an event's reasoning, and reports whether the event goes out.
func (a *Answer) present(ev *chat.Event) (visible bool) {
	if a.Reasoning == nil {
		return true
	}
	a.Out, visible = a.Reasoning.Event(a.Out, ev, a.ownUsage != nil)
	return visible
}

// attachReasoning puts beside the answer what of its reasoning belongs there.
func (a *Answer) attachReasoning() {
	enc, ok := a.Encoder.(wire.Attacher)
	if !ok || a.Reasoning == nil || !a.Reasoning.View.Attaches() {
		return
	}
	own, err := render.Member(a.Chain(), a.Reasoning.View)
	if err != nil {
		a.Report.Logger.Error("an answer's reasoning cannot be written", "request", a.Report.ID, "error", err)
		return
	}
	a.Out = enc.Attach(a.Out, a.Report.WithVerification(own))
}

// Chain is what the answer showed of its reasoning, and what that took. It is for answers that are over, and were recorded.
func (a *Answer) Chain() *reasoning.Chain {
	u := a.Total()
	if a.Report.Stored != nil {
		u = a.Report.Stored.Usage
	}
	return a.Reasoning.Chain(&u, &a.By.Prices)
}
