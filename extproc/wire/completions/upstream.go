package completions

import (
	"cmp"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/answer"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// Serves reports whether a model is known to be served at this endpoint.
func Serves(to *policy.Resolution) bool {
	return slices.Contains(to.Features, policy.TextCompletions) && !to.Without.Completions
}

// NewCall writes one attempt at a provider that has the endpoint: the client's own bytes, with the provider's name of the model, the option
// that requests usage in a stream, and the profile's limit of the answer.
func NewCall(buf []byte, req *chat.Request, to *policy.Resolution, at provider.Endpoint) *provider.Call {
	if p := req.Profile; p != nil && p.MaxTokens > 0 {
		limited := *req
		limited.Edit = req.Edit.Clone()
		limited.Edit.Set(&limited.Doc, openai.MaxTokens, strconv.AppendInt(nil, int64(p.MaxTokens), 10))
		req = &limited
	}
	return openai.Passthrough(buf, req, at, "/completions", cmp.Or(to.Upstream, string(to.Model)))
}

const (
	// maxEvent is the maximum size of a stream's event in bytes.
	maxEvent = 16 << 20

	// terminator is the data of a stream's last frame.
	terminator = "[DONE]"
)

// Decoder reads a provider's answer: a stream of text_completion chunks, one text_completion, or an error. It implements provider.Decoder.
type Decoder struct {
	answer.Reader
	began     bool
	requested int // number of requested choices
	stopped   int // choices that have their finish_reason
}

var _ provider.Decoder = (*Decoder)(nil)

// NewDecoder returns a decoder of the answer to a request made with NewCall.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.Completions, MaxEvent: maxEvent, Terminator: terminator}
	n, _ := req.Doc.Get("n").Int()
	return &Decoder{Reader: answer.NewReader(f, req, status, h), requested: max(int(n), 1) * max(req.Prompts, 1)}
}

// Decode reads the next piece of the body. It implements provider.Decoder.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for f := range d.Take(chunk, end) {
		d.frame(f)
	}
	switch {
	case d.Ended || !end:
	case d.Stream:
		d.close()
	default:
		d.whole()
	}
	return d.Events
}

// frame reads one SSE event. The first of its chat events carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong: // its bytes are dropped; the stream continues
		return
	case string(f.Data) == terminator:
		d.done()
	case f.Data != nil:
		model, usageChunk = d.piece(f)
	}
	d.AttachFrame(first, f.Raw, model)
	d.Events[first].UsageChunk = usageChunk && d.Passes
}

// piece reads the data of one event. It returns the position of the model's name, and whether the event holds the usage only.
func (d *Decoder) piece(f *sse.Frame) (model chat.Span, usageChunk bool) {
	v, err := d.Parse(f.Data)
	if err != nil {
		return chat.Span{}, false
	}
	if !v.Get("error").IsNull() || string(f.Event) == "error" {
		d.FailWith(errbody.InStream(v))
		return chat.Span{}, false
	}
	empty := d.object(v)
	return wire.ModelSpan(v.Get("model"), f.DataAt), empty && v.Get("usage").Kind() == jsonx.Object
}

// object reads an answer, or a chunk of one, and reports whether it has no choices.
func (d *Decoder) object(v jsonx.Value) (empty bool) {
	if !d.began {
		d.began = true
		id, _ := v.Get("id").Str()
		model, _ := v.Get("model").Str()
		d.Emit(chat.Event{Kind: chat.Start, ID: id, Model: model})
	}
	empty = true
	for i, c := range v.Get("choices").Each {
		empty = false
		d.choice(i, c)
	}
	if usage := v.Get("usage"); usage.Kind() == jsonx.Object {
		u := chatcompletion.ReadUsage(usage)
		u.Final = empty || d.stopped >= d.requested
		d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: usage.Raw})
	}
	return empty
}

func (d *Decoder) choice(i int, v jsonx.Value) {
	index := i
	if n, ok := v.Get("index").Int(); ok && n >= 0 {
		index = int(n)
	}
	if text, ok := v.Get("text").Text(&d.Arena); ok && len(text) > 0 {
		d.Emit(chat.Event{Kind: chat.Text, Choice: index, Text: text})
	}
	if !v.Get("logprobs").IsNull() { // an Extra for clients that do not get the provider's bytes
		d.Emit(chat.Event{Kind: chat.Extra, ID: "logprobs", Choice: index})
	}
	if why, ok := v.Get("finish_reason").Str(); ok {
		d.stopped++
		d.Emit(chat.Event{Kind: chat.Stop, Choice: index, Reason: reasonOf(why)})
	}
}

func reasonOf(word string) chat.StopReason {
	switch word {
	case "length":
		return chat.StopLength
	case "content_filter":
		return chat.StopRefusal
	}
	return chat.StopEnd
}

// done handles the terminator. An answer that consists of nothing else is an error.
func (d *Decoder) done() {
	if !d.began {
		d.Fail("empty", "the provider ended its stream without an answer")
		return
	}
	d.End()
}

// close handles the end of the body. Some servers omit the terminator: an answer whose choices all have their finish_reason is complete.
func (d *Decoder) close() {
	if d.stopped >= d.requested {
		d.done()
		return
	}
	d.Fail("truncated", "the provider's stream ended before its answer was complete")
}

// whole reads a complete JSON answer. One without choices is an error, whatever its status.
func (d *Decoder) whole() {
	v, err := d.JSON()
	if err != nil {
		d.FailWith(err)
		return
	}
	if !v.Get("error").IsNull() {
		d.FailWith(errbody.InStream(v))
		return
	}
	d.requested = 0 // the usage is final
	if d.object(v) {
		d.Events = d.Events[:0]
		d.Fail("empty", "the provider's answer has no choices")
		return
	}
	d.done()
	d.AttachBytes(0, 0, d.Body, wire.ModelSpan(v.Get("model"), 0))
}

// appendRaw appends a provider's own bytes, with the client's name of the model.
func (e *envelope) appendRaw(dst []byte, ev *chat.Event) []byte {
	return wire.AppendRenamed(dst, ev.Raw, ev.ModelSpan, e.opts.Model)
}
