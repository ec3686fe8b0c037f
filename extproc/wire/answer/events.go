package answer

import "bardo.money/gateway/extproc/chat"

// Emit adds an event to those of the piece at hand.
func (r *Reader) Emit(ev chat.Event) { r.Events = append(r.Events, ev) }

// Next adds an event as Emit does, and gives it to be filled in.
func (r *Reader) Next() *chat.Event { return chat.Add(&r.Events) }

// End says that the answer is complete.
func (r *Reader) End() {
	r.Over = true
	r.Emit(chat.Event{Kind: chat.End})
}

// Fail ends an answer that is none, in the gateway's words.
func (r *Reader) Fail(kind, message string) { r.FailWith(invalid(kind, message)) }

// FailWith ends an answer with what the provider said.
func (r *Reader) FailWith(err *chat.ProviderError) {
	r.Over = true
	r.Emit(chat.Event{Kind: chat.Error, Err: err})
}

// Own gives the events from the first on the bytes that they came from; the first carries them. Bytes without an event
// become an Other event. What came with an error is no answer.
func (r *Reader) Own(first int, raw []byte, model chat.Span) {
	switch n := len(r.Events); {
	case n == first:
		r.Emit(chat.Event{Kind: chat.Other})
	case r.Events[n-1].Kind == chat.Error:
		r.Events = append(r.Events[:first], r.Events[n-1])
	}
	r.Carry(first, first, raw, model)
}

// Carry gives the events from the first on the bytes that they came from, if those may pass: one of them carries the bytes
// and where they name the model, the others are its tail.
func (r *Reader) Carry(first, carrier int, raw []byte, model chat.Span) {
	if !r.Passes {
		return
	}
	for i := first; i < len(r.Events); i++ {
		r.Events[i].Tail = i != carrier
	}
	r.Events[carrier].Raw, r.Events[carrier].ModelSpan = raw, model
}
