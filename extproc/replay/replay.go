// Package replay sends a stored answer again: its events in the form for one client, paced as if a model were writing them now. It knows neither the
// store nor the client's connection.
package replay

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
	// Header sets the speed at which a stored answer is streamed.
	Header = "x-bardo-replay"

	pause       = 30 * time.Millisecond // between two pieces of a stored answer
	maxDuration = 10 * time.Second      // maximum duration: the pieces of a long answer are sent several at a time
	pieceSize   = 32                    // bytes of a piece, if the answer was stored in one
	maxPieces   = 1024                  // of one text: those of a long one are larger
)

// ParseFast parses the value of Header: whether a stored answer is streamed without pauses.
func ParseFast(value string) (bool, error) {
	switch value {
	case "", "paced":
		return false, nil
	case "fast":
		return true, nil
	}
	return false, fault.Newf(fault.InvalidRequest, "X-Bardo-Replay: %q, expected fast or paced", fault.Clip(value))
}

// Answer is a stored answer, for one client.
type Answer struct {
	Entry        *cache.Entry
	Format       cache.Format // the client's
	HideThoughts bool         // omit reasoning
	Fast         bool         // without pacing
}

// Events yields the events for the client; step marks those that begin a piece of visible output. The provider's own bytes are kept if the client's
// request has the same form as the original one; for any other, the events carry the same content.
func (a *Answer) Events(yield func(ev *chat.Event, step bool) bool) {
	raw := !a.HideThoughts && a.Entry.Format == a.Format
	for ev := range a.Entry.Events {
		if raw && (ev.Raw != nil || ev.Tail) {
			if !yield(ev, ev.Raw != nil) {
				return
			}
			continue
		}
		ev.Raw, ev.Tail, ev.Frame = nil, false, chat.NoCalls
		if !a.inPieces(ev, yield) {
			return
		}
	}
}

// inPieces yields an event with its text split as if a model were writing it.
func (a *Answer) inPieces(ev *chat.Event, yield func(ev *chat.Event, step bool) bool) bool {
	switch ev.Kind {
	case chat.ToolArgs:
		return yield(ev, true)
	case chat.Thought:
		if a.HideThoughts { // not visible
			return yield(ev, false)
		}
	case chat.Text, chat.Refusal:
	default:
		return yield(ev, false)
	}
	size := max(pieceSize, len(ev.Text)/maxPieces)
	for rest := ev.Text; ; {
		ev.Text, rest = rest, nil
		if a.Format.Stream {
			ev.Text, rest = firstPiece(ev.Text, size)
		}
		if !yield(ev, true) || len(rest) == 0 {
			return len(rest) == 0
		}
		ev.Text = rest
	}
}

// firstPiece cuts a text after a word, or inside a long word after a character, so that a piece has at most size bytes.
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

// Pacer distributes the pieces of an answer over time. The first is sent immediately.
type Pacer struct {
	tick  *time.Ticker // nil: no pacing
	group int          // pieces at a time
	seen  int
}

// NewPacer returns a pacer for the events of an answer. The caller stops it.
func (a *Answer) NewPacer() *Pacer {
	if a.Fast {
		return &Pacer{}
	}
	steps := 0
	a.Events(func(_ *chat.Event, step bool) bool {
		if step {
			steps++
		}
		return true
	})
	const maxSteps = int(maxDuration / pause)
	return &Pacer{tick: time.NewTicker(pause), group: 1 + (steps-1)/maxSteps}
}

// Due counts a piece, and reports whether a pause comes before it.
func (p *Pacer) Due() bool {
	p.seen++
	return p.tick != nil && p.seen > 1 && (p.seen-1)%p.group == 0
}

// Wait pauses before a piece. The error is the context's.
func (p *Pacer) Wait(ctx context.Context) error {
	select {
	case <-p.tick.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop ends the pacing.
func (p *Pacer) Stop() {
	if p.tick != nil {
		p.tick.Stop()
	}
}
