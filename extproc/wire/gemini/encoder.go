package gemini

import (
	"bytes"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
)

// NewEncoder returns the encoder of one answer for a Gemini client. It writes nothing for events of kind Error: the caller writes the
// client's error with Error.
func (d Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o, quoted: o.QuotedModel()}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e, array: d.array}
}

// envelope is the common state of both encoders.
type envelope struct {
	wire.DegradedNames
	opts       wire.Options
	quoted     []byte // opts.Model as a JSON string
	id         string
	model      string
	usage      chat.Usage
	ownUsage   []byte   // the provider's own usage, if it speaks this dialect
	topMembers []member // members next to the candidates
	ended      bool
	candidates []candidate
	own        []byte // the gateway's own member
}

// Attach keeps the gateway's own member until the answer, or a stream's last chunk, is written.
func (e *envelope) Attach(dst, own []byte) []byte {
	e.own = appendOneLine(nil, own)
	return dst
}

// candidate is the state of one candidate.
type candidate struct {
	calls     []openCallPart // calls that may get more arguments
	sign      []byte         // a signature for the next call
	reason    chat.StopReason
	ownReason []byte // the provider's own finish reason
	stopped   bool
	called    bool
	refused   bool
	members   []member

	text      []byte          // its text, to which citations of another format refer
	citations []chat.Citation // of another format
}

// openCallPart is a call whose arguments are not complete.
type openCallPart struct {
	block    int
	id, name string
	args     []byte
	sign     string
}

func (e *envelope) candidate(i int) *candidate {
	i = max(0, min(i, maxChoices-1))
	for len(e.candidates) <= i {
		e.candidates = append(e.candidates, candidate{})
	}
	return &e.candidates[i]
}

// start sets the answer's id and model. Ids of other dialects have another syntax, so the gateway generates one.
func (e *envelope) start(ev *chat.Event) {
	e.id = ev.ID
	if !e.opts.Same && e.opts.RequestID != "" || e.id == "" {
		e.id = e.opts.RequestID
	}
	e.model = ev.Model
	if e.opts.Model != "" {
		e.model = e.opts.Model
	}
}

// note records ids, usage, and what this format cannot express.
func (e *envelope) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		wire.MergeUsage(&e.usage, &e.ownUsage, ev, e.opts.Same)
		if e.usage.CacheWrite+e.usage.CacheWrite1h > 0 {
			e.Degrade("cache_creation_input_tokens")
		}
	case chat.Text:
		if !e.opts.Same {
			c := e.candidate(ev.Choice)
			c.text = append(c.text, ev.Text...)
		}
	case chat.Refusal:
		e.candidate(ev.Choice).refused = true
	case chat.ToolStart:
		e.candidate(ev.Choice).called = true
	case chat.Stop:
		c := e.candidate(ev.Choice)
		c.reason, c.stopped = ev.Reason, true
		switch {
		case e.opts.Same:
		case ev.Reason == chat.StopSequence:
			e.Degrade("stop_sequence")
		case ev.Reason == chat.StopPause:
			e.Degrade("pause_turn")
		}
	}
}

// extra handles an extra. It returns the parts of the content that it is, with commas between them; nil if it is none.
func (e *envelope) extra(ev *chat.Event) (parts []byte) {
	switch {
	case len(ev.Cites) > 0 && !e.opts.Same:
		e.cite(ev)
	case !e.opts.Same:
		if parts := picturesIn(ev); parts != nil {
			return parts
		}
		if tier := string(ev.Text); !ev.Redundant && (ev.ID != chat.ServiceTier || tier != `"default"` && tier != `"standard"`) {
			e.Degrade(ev.ID)
		}
	case len(ev.Text) == 0:
		if !ev.Redundant {
			e.Degrade(ev.ID)
		}
	case ev.ID == finishReason:
		c := e.candidate(ev.Choice)
		c.ownReason = append(c.ownReason[:0], ev.Text...)
	case slices.Contains(candidateMembers, ev.ID):
		c := e.candidate(ev.Choice)
		c.members = setMember(c.members, ev)
	case slices.Contains(answerMembers, ev.ID):
		e.topMembers = setMember(e.topMembers, ev)
	default:
		return ev.Text
	}
	return nil
}

// picturesIn returns another format's images as parts, with commas between them; nil if there is none.
func picturesIn(ev *chat.Event) (dst []byte) {
	for i, p := range wire.PicturesIn(ev) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonx.AppendString(append(dst, `{"inlineData":{"mimeType":`...), p.Media)
		dst = append(jsonx.AppendString(append(dst, `,"data":`...), p.Data), "}}"...)
	}
	return dst
}

// setMember sets a member; the last one of a name counts.
func setMember(ms []member, ev *chat.Event) []member {
	i := slices.IndexFunc(ms, func(m member) bool { return m.key == ev.ID })
	if i < 0 {
		i = len(ms)
		ms = append(ms, member{key: ev.ID})
	}
	ms[i].json = bytes.Clone(ev.Text)
	return ms
}

func appendMembers(dst []byte, ms []member) []byte {
	for _, m := range ms {
		dst = append(append(append(dst, `,"`...), m.key...), `":`...)
		dst = wire.AppendLine(dst, m.json)
	}
	return dst
}

// openCall begins a call, unless it is open.
func (c *candidate) openCall(ev *chat.Event) {
	for i := range c.calls {
		if c.calls[i].block == ev.Index {
			return
		}
	}
	c.calls = append(c.calls, openCallPart{block: ev.Index, id: ev.Tool.ID, name: ev.Tool.Name, sign: string(c.sign)})
	c.sign = nil
}

// args continues a call.
func (c *candidate) args(ev *chat.Event) {
	for i := range c.calls {
		if c.calls[i].block == ev.Index {
			c.calls[i].args = append(c.calls[i].args, ev.Text...)
			return
		}
	}
}

// closeCall removes and returns the open call of a block; ok is false if there is none.
func (c *candidate) closeCall(block int) (call openCallPart, ok bool) {
	i := slices.IndexFunc(c.calls, func(o openCallPart) bool { return o.block == block })
	if i < 0 {
		return call, false
	}
	call = c.calls[i]
	c.calls = slices.Delete(c.calls, i, i+1)
	return call, true
}

// appendTo appends a call's part.
func (o *openCallPart) appendTo(dst []byte) []byte {
	dst = jsonx.AppendString(append(dst, `{"functionCall":{"id":`...), o.id)
	dst = jsonx.AppendString(append(dst, `,"name":`...), o.name)
	dst = append(appendArgs(append(dst, `,"args":`...), o.args), '}')
	if o.sign != "" {
		dst = jsonx.AppendString(append(dst, `,"thoughtSignature":`...), o.sign)
	}
	return append(dst, '}')
}

// appendText appends a text part; sign is its signature or "".
func appendText(dst, text []byte, thought bool, sign string) []byte {
	dst = jsonx.AppendString(append(dst, `{"text":`...), text)
	if thought {
		dst = append(dst, `,"thought":true`...)
	}
	if sign != "" {
		dst = jsonx.AppendString(append(dst, `,"thoughtSignature":`...), sign)
	}
	return append(dst, '}')
}

// signs reports whether the format of a signature is known. Other signatures mean nothing to any client, and are named as degraded.
func (e *envelope) signs(ev *chat.Event) bool {
	if ev.ID == "" {
		e.Degrade("signature")
	}
	return ev.ID != ""
}

// finish appends the members that end a candidate, each with a comma before it.
func (c *candidate) finish(dst []byte) []byte {
	if c.stopped {
		dst = append(dst, `,"finishReason":`...)
		reason := c.reason
		if reason == chat.StopEnd && c.refused && !c.called {
			reason = chat.StopRefusal
		}
		if len(c.ownReason) > 0 {
			dst = append(dst, c.ownReason...)
		} else {
			dst = append(append(append(dst, '"'), plainReason(reason)...), '"')
		}
	}
	dst = c.appendGrounding(appendMembers(dst, c.members))
	c.members = nil
	return dst
}

// appendTail appends the members next to the candidates, each with a comma before it, and the end of the object.
func (e *envelope) appendTail(dst []byte, counted bool) []byte {
	dst = appendMembers(dst, e.topMembers)
	if counted {
		dst = e.appendUsage(append(dst, `,"usageMetadata":`...))
	}
	dst = jsonx.AppendString(append(dst, `,"modelVersion":`...), e.model)
	dst = jsonx.AppendString(append(dst, `,"responseId":`...), e.id)
	return append(wire.AppendOwn(dst, e.own), '}')
}

func (e *envelope) appendUsage(dst []byte) []byte {
	if e.ownUsage != nil {
		return append(dst, e.ownUsage...)
	}
	u := &e.usage
	output, thought := u.Output, int64(0)
	if u.Reasoning > 0 && !u.ReasoningEstimated {
		thought = min(u.Reasoning, u.Output)
		output -= thought
	}
	dst = strconv.AppendInt(append(dst, `{"promptTokenCount":`...), u.TotalInput(), 10)
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), output, 10)
	dst = strconv.AppendInt(append(dst, `,"totalTokenCount":`...), u.TotalInput()+u.Output, 10)
	if u.Cached > 0 {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.Cached, 10)
	}
	if thought > 0 {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), thought, 10)
	}
	return append(dst, '}')
}

// appendRaw appends a provider's own bytes, with the client's name of the model.
func (e *envelope) appendRaw(dst, raw []byte, at chat.Span) []byte {
	return wire.AppendQuoted(dst, raw, at, e.quoted)
}

// Error appends the error as an event of the stream.
func (e *streamEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	dst = appendError(append(dst, "data: "...), f, e.opts.RequestID)
	return append(dst, "\n\n"...)
}

// Error appends the error body.
func (e *bodyEncoder) Error(dst []byte, f *fault.Fault) []byte {
	e.ended = true
	return appendError(dst, f, e.opts.RequestID)
}
