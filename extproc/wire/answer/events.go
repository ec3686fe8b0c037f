package answer

import "bardo.money/gateway/extproc/chat"

// Emit adds an event to those of the current piece.
func (r *Reader) Emit(ev chat.Event) { r.Events = append(r.Events, ev) }

// Next adds an event and returns it to be filled in.
func (r *Reader) Next() *chat.Event { return chat.Add(&r.Events) }

// End completes the answer.
func (r *Reader) End() {
	r.Ended = true
	r.Emit(chat.Event{Kind: chat.End})
}

// Fail ends an answer with an error of the gateway.
func (r *Reader) Fail(kind, message string) { r.FailWith(invalid(kind, message)) }

// FailWith ends an answer with an error.
func (r *Reader) FailWith(err *chat.ProviderError) {
	r.Ended = true
	r.Emit(chat.Event{Kind: chat.Error, Err: err})
}

// AttachFrame attaches the bytes of a frame to the events from index first; the first of them carries the bytes. Bytes without an event become an
// Other event. If the last event is an error, it replaces the others.
func (r *Reader) AttachFrame(first int, raw []byte, model chat.Span) {
	switch n := len(r.Events); {
	case n == first:
		r.Emit(chat.Event{Kind: chat.Other})
	case r.Events[n-1].Kind == chat.Error:
		r.Events = append(r.Events[:first], r.Events[n-1])
	}
	r.AttachBytes(first, first, raw, model)
}

// AttachBytes attaches bytes to the events from index first, if they may pass to the client: carrier has the bytes and the position of the
// model's name, the others are its tail.
func (r *Reader) AttachBytes(first, carrier int, raw []byte, model chat.Span) {
	if !r.Passes {
		return
	}
	for i := first; i < len(r.Events); i++ {
		r.Events[i].Tail = i != carrier
	}
	r.Events[carrier].Raw, r.Events[carrier].ModelSpan = raw, model
}

// Block is the state of a choice's content blocks. The zero value is a choice without content.
type Block struct {
	Kind  chat.EventKind // of the open block: Text, Thought, Refusal or Redacted; Start if none is open
	Index int            // of the open block, or of the last one
	Any   bool           // the choice has content
}

// OpenBlock closes the open block of a choice and starts one with the next index of the answer.
func (r *Reader) OpenBlock(b *Block, choice int, kind chat.EventKind) {
	r.CloseBlock(b, choice)
	*b = Block{Kind: kind, Index: r.Blocks, Any: true}
	r.Blocks++
}

// CloseBlock closes the open block, if there is one.
func (r *Reader) CloseBlock(b *Block, choice int) {
	if b.Kind != chat.Start {
		r.Emit(chat.Event{Kind: chat.BlockStop, Index: b.Index, Choice: choice})
		b.Kind = chat.Start
	}
}
