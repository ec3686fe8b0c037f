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
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// Listed reports whether a model is known to be served at the endpoint.
func Listed(to *policy.Resolution) bool {
	return slices.Contains(to.Features, policy.TextCompletions) && !to.Without.Completions
}

// NewCall writes one attempt at a provider that has the endpoint: the client's own bytes, but for the model's name, the usage that is asked
// for in a stream, and a limit of the answer where the gateway says one.
func NewCall(buf []byte, req *chat.Request, to *policy.Resolution, at provider.Endpoint) *provider.Call {
	if p := req.Profile; p != nil && p.MaxTokens > 0 {
		limited := *req
		limited.Edit = req.Edit.Clone()
		limited.Edit.Set(&limited.Doc, openai.MaxTokens, strconv.AppendInt(nil, int64(p.MaxTokens), 10))
		req = &limited
	}
	return openai.PassOn(buf, req, at, "/completions", cmp.Or(to.Upstream, string(to.Model)))
}

const (
	// maxEvent is the size in bytes of the longest event of a stream.
	maxEvent = 16 << 20

	// terminator is the data of a stream's last frame.
	terminator = "[DONE]"
)

// Decoder reads a provider's answer: a stream of text_completion chunks, one text_completion, or an error. It implements provider.Decoder.
type Decoder struct {
	answer.Reader
	began   bool
	wanted  int // choices that the request asked for
	stopped int // choices that have their finish_reason
}

var _ provider.Decoder = (*Decoder)(nil)

// NewDecoder reads the answer to a request made with NewCall.
func NewDecoder(req *chat.Request, status int, h header.List) *Decoder {
	f := answer.Format{Dialect: chat.Completions, MaxEvent: maxEvent, Terminator: terminator}
	n, _ := req.Doc.Get("n").Int()
	return &Decoder{Reader: answer.NewReader(f, req, status, h), wanted: max(int(n), 1) * max(req.Prompts, 1)}
}

// Decode reads the next piece of the body.
func (d *Decoder) Decode(chunk []byte, end bool) []chat.Event {
	for f := range d.Take(chunk, end) {
		d.frame(f)
	}
	switch {
	case d.Over || !end:
	case d.Stream:
		d.close()
	default:
		d.whole()
	}
	return d.Events
}

// frame reads one event of a stream. The first of the events that it means carries its bytes.
func (d *Decoder) frame(f *sse.Frame) {
	first := len(d.Events)
	var model chat.Span
	var usageChunk bool
	switch {
	case f.TooLong: // its bytes are lost; the stream goes on
		return
	case string(f.Data) == terminator:
		d.done()
	case f.Data != nil:
		model, usageChunk = d.piece(f)
	}
	d.Own(first, f.Raw, model)
	d.Events[first].UsageChunk = usageChunk && d.Passes
}

// piece reads the data of one event. It returns where that names the model, and whether it has the usage and nothing else.
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
	named := v.Get("model")
	if named.Kind() == jsonx.String && f.DataAt >= 0 {
		at := f.DataAt + named.At
		model = chat.Span{Start: at, End: at + len(named.Raw)}
	}
	return model, empty && v.Get("usage").Kind() == jsonx.Object
}

// object reads an answer, or a piece of one, and reports whether it has no choices.
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
		u := openai.ReadUsage(usage)
		u.Final = empty || d.stopped >= d.wanted
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
	if !d.Passes && !v.Get("logprobs").IsNull() {
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

// done is the terminator. A provider that sends it and nothing else has not answered.
func (d *Decoder) done() {
	if !d.began {
		d.Fail("empty", "the provider ended its stream without an answer")
		return
	}
	d.End()
}

// close is the end of the body. Some servers leave out the terminator: an answer whose choices all have their finish_reason is complete.
func (d *Decoder) close() {
	if d.stopped >= d.wanted {
		d.done()
		return
	}
	d.Fail("truncated", "the provider's stream ended before its answer was complete")
}

// whole reads a complete JSON answer. One without choices is no answer, whatever its status says.
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
	d.wanted = 0 // all of it is there
	if d.object(v) {
		d.Events = d.Events[:0]
		d.Fail("empty", "the provider's answer has no choices")
		return
	}
	d.done()
	var at chat.Span
	if named := v.Get("model"); named.Kind() == jsonx.String {
		at = chat.Span{Start: named.At, End: named.At + len(named.Raw)}
	}
	d.Carry(0, 0, d.Body, at)
}

// appendRaw appends a provider's own bytes, with the model's name as the client shall see it.
func (e *envelope) appendRaw(dst []byte, ev *chat.Event) []byte {
	return wire.AppendRenamed(dst, ev.Raw, ev.ModelSpan, e.opts.Model)
}
