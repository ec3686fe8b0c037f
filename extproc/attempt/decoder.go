package attempt

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
)

// Stage parses further content from the text of an answer: reasoning, tool calls, the JSON of a schema. The returned events and their texts are valid
// until the next call, like the event that was passed in. An event whose bytes no longer match its content has none (Raw, Tail). Not safe for
// concurrent use.
type Stage interface {
	Read(ev *chat.Event) []chat.Event
}

// Decoder returns the decoder of the attempt's answer, and the stages for its text, in order.
func (w *Writer) Decoder(t *Attempt, status int, h header.List) (provider.Decoder, []Stage) {
	w.mu.Lock() // a decoder reads the conversation, which an attempt's own stream may have parsed
	defer w.mu.Unlock()
	v, req := t.View, t.View.Request
	if t.Sent != nil {
		req = t.Sent
	}
	p := v.Config.Provider(t.To.Provider)
	if in, err := req.In(v.DialectAt(&t.To)); err == nil { // its request can be encoded
		req = in
	}
	return p.Adapter.NewDecoder(req, t.To, p.Endpoint, status, h), t.stages(status)
}

func (t *Attempt) stages(status int) (list []Stage) {
	v := t.View
	if status/100 != 2 || v.IsTokenCount() || v.Request.Op == chat.Embed || v.DialectAt(&t.To) == chat.Completions {
		return nil
	}
	calls := v.CallReader(t.To)
	if thoughts := v.ThoughtReader(t.To, calls != nil); thoughts != nil {
		list = append(list, thoughts)
	}
	if calls != nil {
		list = append(list, calls)
	}
	if t.Plan == nil {
		return list
	}
	if r := t.Plan.NewReader(); r != nil {
		list = append(list, r)
	}
	return list
}
