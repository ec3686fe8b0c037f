package extproc

import (
	"bytes"
	"context"
	"time"
	"unicode/utf8"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
)

const (
	headerReplay = "x-bardo-replay"

	replayPause = 30 * time.Millisecond // between two pieces of a stored answer
	replayMost  = 10 * time.Second      // for all of it: the pieces of a long one are sent several at a time
	replayPiece = 32                    // bytes of a piece, where the answer was stored in one
	mostPieces  = 1024                  // of one text: those of a long one are larger
)

// hearReplay reads how a stored answer shall be streamed.
func (x *exchange) hearReplay() error {
	switch how := x.head.Header.Get(headerReplay); how {
	case "", "paced":
	case "fast":
		x.fast = true
	default:
		return fault.Newf(fault.InvalidRequest, "X-Bardo-Replay: %q, expected fast or paced", fault.Clip(how))
	}
	return nil
}

// storedEvents yields the events of the stored answer, as this client shall see them; step marks those that begin a piece of what it
// reads. The provider's own bytes are kept for a client that asked in the same way as the one whose answer this was; for any
// other the events say the same.
func (x *exchange) storedEvents(yield func(ev *chat.Event, step bool) bool) {
	raw := !x.view().Hides() && x.stored.Asked == cache.Form{Dialect: x.Request.Dialect, Stream: x.Request.Stream}
	for ev := range x.stored.Events {
		if raw && (ev.Raw != nil || ev.Tail) {
			if !yield(ev, ev.Raw != nil) {
				return
			}
			continue
		}
		ev.Raw, ev.Tail = nil, false
		if !x.inPieces(ev, yield) {
			return
		}
	}
}

// inPieces yields an event, its text as if a model had written it.
func (x *exchange) inPieces(ev *chat.Event, yield func(ev *chat.Event, step bool) bool) bool {
	switch ev.Kind {
	case chat.ToolArgs:
		return yield(ev, true)
	case chat.Thought:
		if x.view().Hides() { // nobody reads it
			return yield(ev, false)
		}
	case chat.Text, chat.Refusal:
	default:
		return yield(ev, false)
	}
	size := max(replayPiece, len(ev.Text)/mostPieces)
	for rest := ev.Text; ; {
		ev.Text, rest = rest, nil
		if x.Request.Stream {
			ev.Text, rest = firstPiece(ev.Text, size)
		}
		if !yield(ev, true) || len(rest) == 0 {
			return len(rest) == 0
		}
		ev.Text = rest
	}
}

// firstPiece cuts a text behind a word, or inside a long one behind a character, so that a piece has at most size bytes.
func firstPiece(text []byte, size int) (first, rest []byte) {
	if len(text) <= size {
		return text, nil
	}
	cut := bytes.LastIndexByte(text[:size], ' ') + 1
	for n := size; cut == 0 && n > 0; n-- {
		if utf8.RuneStart(text[n]) {
			cut = n
		}
	}
	if cut == 0 {
		cut = size
	}
	return text[:cut], text[cut:]
}

// play streams the stored answer.
func (s *drivenStream) play(ctx context.Context, a *answer) (err error) {
	s.content = true
	if err := s.start(a.res); err != nil {
		return err
	}
	p := s.x.newPacer()
	defer p.stop()
	s.x.storedEvents(func(ev *chat.Event, step bool) bool {
		if step && p.due() {
			if err = s.flush(a); err == nil {
				err = p.wait(ctx)
			}
			if err != nil {
				return false
			}
		}
		a.pass(ctx, ev)
		return !a.over()
	})
	if err != nil {
		return err
	}
	if err := a.incomplete(); err != nil {
		return s.fail(fault.From(err))
	}
	if err := s.flush(a); err != nil {
		return err
	}
	return s.finish(ctx, a)
}

// pacer spreads the pieces of an answer over time. The first goes out at once.
type pacer struct {
	pause *time.Ticker // nil: no pacing
	group int          // pieces at a time
	seen  int
}

func (x *exchange) newPacer() *pacer {
	if x.fast {
		return &pacer{}
	}
	steps := 0
	x.storedEvents(func(_ *chat.Event, step bool) bool {
		if step {
			steps++
		}
		return true
	})
	const most = int(replayMost / replayPause)
	return &pacer{pause: time.NewTicker(replayPause), group: 1 + (steps-1)/most}
}

// due counts a piece, and reports whether a pause comes before it.
func (p *pacer) due() bool {
	p.seen++
	return p.pause != nil && p.seen > 1 && (p.seen-1)%p.group == 0
}

func (p *pacer) wait(ctx context.Context) error {
	select {
	case <-p.pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (p *pacer) stop() {
	if p.pause != nil {
		p.pause.Stop()
	}
}
