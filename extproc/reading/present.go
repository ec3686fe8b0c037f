package reading

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// newPresenter returns the presenter of an answer's reasoning; nil if it is sent unchanged and not recorded.
func newPresenter(r *report.Report, to *policy.Resolution, dialect chat.Dialect) *render.Presenter {
	v := r.Reading()
	if r.Request.Op != chat.Generate || r.Verbatim() || v == (render.View{}) && !r.Events().On() {
		return nil
	}
	recorder := reasoning.NewRecorder(reasoning.Of(r.Config.Provider(to.Provider).Reasoning, to, dialect), to)
	return render.NewPresenter(v, recorder, r.Request.Stream && wire.TakesComments(r.Dialect))
}

// Thinking returns the comment that keeps a terminal's stream alive while the model thinks silently, else "".
func (a *Answer) Thinking() string {
	if a == nil {
		return ""
	}
	return a.Reasoning.Heartbeat()
}

// present records an event's reasoning, and reports whether the event is sent.
func (a *Answer) present(ev *chat.Event) (visible bool) {
	if a.Reasoning == nil {
		return true
	}
	a.Out, visible = a.Reasoning.Event(a.Out, ev, a.ownUsage != nil)
	return visible
}

// attachReasoning adds the part of the reasoning that is reported beside the answer.
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

// Chain returns the reasoning that the answer showed, and its duration. It is for complete answers whose reasoning was recorded.
func (a *Answer) Chain() *reasoning.Chain {
	u := a.Total()
	if a.Report.Stored != nil {
		u = a.Report.Stored.Usage
	}
	return a.Reasoning.Chain(&u, &a.By.Prices)
}
