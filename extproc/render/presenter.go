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
	seen     int // number of events of a held answer that the progress has counted
}

// NewPresenter returns the presenter of an answer in a view. comments: the client reads comments in a stream.
func NewPresenter(v View, r *reasoning.Recorder, comments bool) *Presenter {
	return &Presenter{View: v, recorder: r, comments: comments && v.Progresses()}
}

// Event records the reasoning in an event, and reports whether the event is sent. A due progress comment is appended to dst, to be sent before it.
// held: the answer was held, and its progress was sent before.
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

// appendProgress appends, between two events of a stream, a progress comment if one is due.
func (p *Presenter) appendProgress(dst []byte, ev *chat.Event) []byte {
	switch now := time.Now(); {
	case ev.Kind == chat.Thought:
		if p.progress.Add(now, ev.Text) {
			return sse.AppendComment(dst, p.progress.Line(now))
		}
	case ev.Kind.IsContent() && !IsThought(ev):
		p.progress = Progress{} // the answer has begun; later reasoning is counted anew
	}
	return dst
}

// HeldProgress counts the new events of a held answer, and returns the due progress comments.
func (p *Presenter) HeldProgress(held []chat.Event) (comments []byte) {
	if !p.comments {
		return nil
	}
	for ; p.seen < len(held); p.seen++ {
		comments = p.appendProgress(comments, &held[p.seen])
	}
	return comments
}

// Heartbeat returns the comment that keeps a terminal's stream alive while the model thinks silently, else "". p may be nil.
func (p *Presenter) Heartbeat() string {
	if p == nil || !p.progress.Started() {
		return ""
	}
	return string(sse.AppendComment(nil, p.progress.Line(time.Now())))
}

// Chain returns the reasoning that the answer showed, and its duration. It is for complete answers: the first call fixes the result.
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
