package render

import (
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/reasoning"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// Presenter shows the reasoning of one answer as its client's surface does, and records all of it. Not safe for concurrent use.
type Presenter struct {
	View View

	comments bool // the client reads comments in a stream
	recorder *reasoning.Recorder
	chain    *reasoning.Chain // once it was asked for
	progress Progress
	seen     int // events of an answer that is held, whose thoughts the progress knows
}

// NewPresenter shows an answer in a view. comments says that the client reads comments in a stream.
func NewPresenter(v View, r *reasoning.Recorder, comments bool) *Presenter {
	return &Presenter{View: v, recorder: r, comments: comments && v.Progresses()}
}

// Event notes what an event says of the reasoning, and reports whether it goes out. Before it goes what is appended to dst: a comment on the
// progress, if one is due. held says that the answer was held: its progress went out before.
func (p *Presenter) Event(dst []byte, ev *chat.Event, held bool) (out []byte, visible bool) {
	p.recorder.Add(ev)
	if !p.View.Hides() {
		return dst, true
	}
	if p.comments && !held {
		dst = p.appendProgress(dst, ev)
	}
	return dst, Hide(ev)
}

// appendProgress appends, between two events of a stream, a sign that the model thinks, if one is due.
func (p *Presenter) appendProgress(dst []byte, ev *chat.Event) []byte {
	switch now := time.Now(); {
	case ev.Kind == chat.Thought:
		if p.progress.Add(now, ev.Text) {
			return sse.AppendComment(dst, p.progress.Line(now))
		}
	case ev.Kind.IsContent() && !IsThought(ev):
		p.progress = Progress{} // it says something now; what it thinks later counts anew
	}
	return dst
}

// HeldProgress notes what is new among the events of an answer that is held, and returns the comments on the progress that are due.
func (p *Presenter) HeldProgress(held []chat.Event) (comments []byte) {
	if !p.comments {
		return nil
	}
	for ; p.seen < len(held); p.seen++ {
		comments = p.appendProgress(comments, &held[p.seen])
	}
	return comments
}

// Heartbeat is the comment that keeps a terminal's stream alive while the model thinks in silence; "" while it does not. p may be nil.
func (p *Presenter) Heartbeat() string {
	if p == nil || !p.progress.Started() {
		return ""
	}
	return string(sse.AppendComment(nil, p.progress.Line(time.Now())))
}

// Chain is what the answer showed of its reasoning, and what that took. It is for answers that are over: the first call decides.
func (p *Presenter) Chain(u *chat.Usage, prices *policy.Prices) *reasoning.Chain {
	if p.chain != nil {
		return p.chain
	}
	c := p.recorder.Chain(u)
	if prices.Known {
		usd := policy.Pico(float64(prices.Output.Cost(c.Tokens)) * c.Cost.Discount)
		c.Cost.USD = &usd
	}
	p.chain = &c
	return &c
}
