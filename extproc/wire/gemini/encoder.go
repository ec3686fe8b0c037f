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

// NewEncoder writes one answer for a Gemini client. Events of kind Error write nothing: what a client may see of one is said with
// Error.
func (d Dialect) NewEncoder(o wire.Options) wire.Encoder {
	e := envelope{opts: o}
	if o.Model != "" {
		e.quoted = jsonx.AppendString(nil, o.Model)
	}
	if o.Stream {
		return &streamEncoder{envelope: e}
	}
	return &bodyEncoder{envelope: e, array: d.array}
}

// envelope is what both encoders know of an answer.
type envelope struct {
	wire.Losses
	opts     wire.Options
	quoted   []byte // opts.Model as a JSON string
	id       string
	model    string
	usage    chat.Usage
	ownUsage []byte   // the provider's own usage, if it speaks this dialect
	tops     []member // that stand beside the candidates
	ended    bool
	cands    []candidate
	own      []byte // the gateway's own member
}

// Attach keeps the gateway's own member: of the answer, or of a stream's last chunk.
func (e *envelope) Attach(dst, own []byte) []byte {
	e.own = appendOneLine(nil, own)
	return dst
}

// candidate is what is known of one candidate.
type candidate struct {
	calls   []openCallPart // whose arguments still come
	sign    []byte         // a signature that waits for its call
	reason  chat.StopReason
	own     []byte // the provider's own word for it
	stopped bool
	called  bool
	refused bool
	members []member

	said  []byte          // its text, where another format's citations count in it
	cites []chat.Citation // of another format
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
	for len(e.cands) <= i {
		e.cands = append(e.cands, candidate{})
	}
	return &e.cands[i]
}

// start learns the answer's names. A provider of another dialect has ids of another form, so the answer gets one of ours.
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

// note learns what an event says besides content: names, usage, and what this format has no words for.
func (e *envelope) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the rest is content
	case chat.Start:
		e.start(ev)
	case chat.UsageInfo:
		e.usage.Merge(ev.Usage)
		if e.opts.Same && ev.Text != nil {
			e.ownUsage = wire.AppendMerged(nil, jsonx.Value{Raw: e.ownUsage}, jsonx.Value{Raw: ev.Text})
		}
		if e.usage.CacheWrite+e.usage.CacheWrite1h > 0 {
			e.Lose("cache_creation_input_tokens")
		}
	case chat.Text:
		if !e.opts.Same {
			c := e.candidate(ev.Choice)
			c.said = append(c.said, ev.Text...)
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
			e.Lose("stop_sequence")
		case ev.Reason == chat.StopPause:
			e.Lose("pause_turn")
		}
	}
}

// extra takes in what only one dialect says, and reports whether it is a part of the content.
func (e *envelope) extra(ev *chat.Event) (isPart bool) {
	switch {
	case len(ev.Cites) > 0 && !e.opts.Same:
		e.cite(ev)
	case !e.opts.Same:
		if tier := string(ev.Text); !ev.Said && (ev.ID != chat.ServiceTier || tier != `"default"` && tier != `"standard"`) {
			e.Lose(ev.ID)
		}
	case len(ev.Text) == 0:
		if !ev.Said {
			e.Lose(ev.ID)
		}
	case ev.ID == finishReason:
		c := e.candidate(ev.Choice)
		c.own = append(c.own[:0], ev.Text...)
	case slices.Contains(ofCandidate, ev.ID):
		c := e.candidate(ev.Choice)
		c.members = setMember(c.members, ev)
	case slices.Contains(ofAnswer, ev.ID):
		e.tops = setMember(e.tops, ev)
	default:
		return true
	}
	return false
}

// setMember keeps a member; the last of a name counts.
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

// openCall begins a call. A call that is announced twice is one.
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

// closeCall takes a complete call out; ok is false when none of that block is open.
func (c *candidate) closeCall(block int) (call openCallPart, ok bool) {
	i := slices.IndexFunc(c.calls, func(o openCallPart) bool { return o.block == block })
	if i < 0 {
		return call, false
	}
	call = c.calls[i]
	c.calls = slices.Delete(c.calls, i, i+1)
	return call, true
}

// appendCall appends a call's part.
func (o *openCallPart) appendTo(dst []byte) []byte {
	dst = jsonx.AppendString(append(dst, `{"functionCall":{"id":`...), o.id)
	dst = jsonx.AppendString(append(dst, `,"name":`...), o.name)
	dst = append(appendArgs(append(dst, `,"args":`...), o.args), '}')
	if o.sign != "" {
		dst = jsonx.AppendString(append(dst, `,"thoughtSignature":`...), o.sign)
	}
	return append(dst, '}')
}

// appendText appends a part with text, and what else it says.
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

// signs reports whether a signature's maker is known. Those of others mean nothing to anybody.
func (e *envelope) signs(ev *chat.Event) bool {
	if ev.ID == "" {
		e.Lose("signature")
	}
	return ev.ID != ""
}

// finish appends the members that say how a candidate ended, each behind a comma.
func (c *candidate) finish(dst []byte) []byte {
	if c.stopped {
		dst = append(dst, `,"finishReason":`...)
		reason := c.reason
		if reason == chat.StopEnd && c.refused && !c.called {
			reason = chat.StopRefusal
		}
		if len(c.own) > 0 {
			dst = append(dst, c.own...)
		} else {
			dst = append(append(append(dst, '"'), plainReason(reason)...), '"')
		}
	}
	dst = c.appendGrounding(appendMembers(dst, c.members))
	c.members = nil
	return dst
}

// appendTail appends what stands beside the candidates, behind commas, and the object's end.
func (e *envelope) appendTail(dst []byte, counted bool) []byte {
	dst = appendMembers(dst, e.tops)
	if counted {
		dst = e.appendUsage(append(dst, `,"usageMetadata":`...))
	}
	dst = jsonx.AppendString(append(dst, `,"modelVersion":`...), e.model)
	dst = jsonx.AppendString(append(dst, `,"responseId":`...), e.id)
	return append(wire.AppendBehind(dst, e.own), '}')
}

func (e *envelope) appendUsage(dst []byte) []byte {
	if e.ownUsage != nil {
		return append(dst, e.ownUsage...)
	}
	u := &e.usage
	said, thought := u.Output, int64(0)
	if u.Reasoning > 0 && !u.ReasoningEstimated {
		thought = min(u.Reasoning, u.Output)
		said -= thought
	}
	dst = strconv.AppendInt(append(dst, `{"promptTokenCount":`...), u.TotalInput(), 10)
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), said, 10)
	dst = strconv.AppendInt(append(dst, `,"totalTokenCount":`...), u.TotalInput()+u.Output, 10)
	if u.Cached > 0 {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.Cached, 10)
	}
	if thought > 0 {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), thought, 10)
	}
	return append(dst, '}')
}

// appendRaw appends a provider's own bytes, with the model's name as the client shall see it.
func (e *envelope) appendRaw(dst, raw []byte, at chat.Span) []byte {
	if e.quoted == nil || at.End <= at.Start || at.End > len(raw) || bytes.Equal(raw[at.Start:at.End], e.quoted) {
		return append(dst, raw...)
	}
	dst = append(dst, raw[:at.Start]...)
	dst = append(dst, e.quoted...)
	return append(dst, raw[at.End:]...)
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
