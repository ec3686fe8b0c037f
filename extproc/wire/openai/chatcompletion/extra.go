package chatcompletion

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, by their names in chat.Extra: of the answer, of a choice, and of its message.
// Members of a single server are marked with its name.
const (
	systemFingerprint = "system_fingerprint"
	upstreamProvider  = "provider"       // OpenRouter: the provider that answered
	citations         = "citations"      // Perplexity: URLs
	searchResults     = "search_results" // Perplexity
	veniceParameters  = "venice_parameters"

	logprobs      = "logprobs"
	filterResults = "content_filter_results" // Azure
	vllmStop      = "stop_reason"            // vLLM: the stop sequence that matched
	sglangStop    = "matched_stop"           // SGLang: the same

	reasoning        = "reasoning" // OpenRouter, vLLM: thinking has this key instead of reasoning_content
	annotations      = "annotations"
	images           = wire.ChatPictures
	audio            = "audio"
	reasoningDetails = "reasoning_details"
	executedTools    = "executed_tools" // Groq: calls of its own tools, and their results
)

// Names of what no encoder can write.
const (
	usageDetails  = "usage_details"    // the parts of a usage number
	unknownMember = "unknown_member"   // a member of the message that this package does not know
	oversized     = "oversized_event"  // an event of the stream above the maximum size
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
)

// answerExtras emits the members next to the choices that only this dialect has. The upstream provider and the build of its software are
// redundant: clients lose nothing without them.
func (d *Decoder) answerExtras(v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case chat.ServiceTier:
			d.emitOnce(&d.sent.tier, chat.ServiceTier, m, false)
		case systemFingerprint:
			d.emitOnce(&d.sent.fingerprint, systemFingerprint, m, true)
		case upstreamProvider:
			d.emitOnce(&d.sent.provider, upstreamProvider, m, true)
		case citations:
			d.extra(0, citations, m, false)
		case searchResults:
			d.extra(0, searchResults, m, false)
		}
	}
}

// choiceExtras emits the members of a choice that only this dialect has. It returns the stop sequence that a server reports, which Stop
// repeats.
func (d *Decoder) choiceExtras(n int, v jsonx.Value) (sequence jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case logprobs:
			d.extra(n, logprobs, m, false)
		case filterResults:
			d.extra(n, filterResults, m, false)
		case vllmStop:
			sequence = m
			d.extra(n, vllmStop, m, true)
		case sglangStop:
			sequence = m
			d.extra(n, sglangStop, m, true)
		}
	}
	return sequence
}

// messageExtras emits the members of a message that only this dialect has.
func (d *Decoder) messageExtras(c *choice, n int, v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case "role", "content", "reasoning_content", reasoning, reasoningDetails, "refusal", "tool_calls":
		case "function_call": // the predecessor of tool_calls
			if !isEmptyCall(m) {
				d.call(c, n, c.find(jsonx.Value{}, ""), jsonx.Value{}, m)
			}
		case annotations:
			if !d.translates {
				d.extra(n, annotations, m, false)
			}
		case images:
			d.extra(n, images, m, false)
		case audio:
			d.extra(n, audio, m, false)
		case executedTools:
			d.executed(c, n, m)
		default:
			d.noteUnknown(m)
		}
	}
}

// isEmptyCall reports whether a function_call is none: some servers write all members of a message, this one with an empty name and no arguments.
func isEmptyCall(v jsonx.Value) bool {
	name, _ := v.Get("name").Str()
	args, _ := v.Get("arguments").Str()
	return v.Kind() != jsonx.Object || name == "" && args == ""
}

// executed emits the calls of tools that the provider ran, each in a separate block. In a stream, the result may follow the call.
func (d *Decoder) executed(c *choice, n int, list jsonx.Value) {
	for i, v := range list.Each {
		index, ok := v.Get("index").Int()
		if !ok {
			index = int64(i)
		}
		tool := chat.ToolCall{ID: executedTools + " " + strconv.FormatInt(int64(n), 10) + " " + strconv.FormatInt(index, 10)}
		block, known := c.executed[index]
		if !known {
			d.CloseBlock(&c.open, n)
			if block = d.Blocks; len(c.executed) >= maxCalls {
				d.Fail("invalid_response", "the provider's answer has too many tool calls")
				return
			}
			d.Blocks++
			if c.executed == nil {
				c.executed = map[int64]int{}
			}
			c.executed[index], c.open.Any = block, true
		}
		if !known || !wire.IsEmpty(v.Get("arguments")) {
			tool.Name, _ = v.Get("type").Str()
			tool.Name = cmp.Or(tool.Name, executedTools)
		}
		d.Emit(chat.Event{Kind: chat.Extra, ID: executedTools, Choice: n, Index: block, Text: v.Raw, Tool: tool})
	}
}

// extra emits a member that only this dialect has, unless it is empty. repeats is whether other events express it as well.
func (d *Decoder) extra(choice int, name string, v jsonx.Value, repeats bool) {
	if !wire.IsEmpty(v) {
		d.Emit(chat.Event{Kind: chat.Extra, ID: name, Choice: choice, Text: v.Raw, Redundant: repeats})
	}
}

// emitOnce emits a string that every chunk repeats, the first time.
func (d *Decoder) emitOnce(emitted *bool, name string, v jsonx.Value, repeats bool) {
	if *emitted || v.Kind() != jsonx.String {
		return
	}
	*emitted = true
	d.extra(0, name, v, repeats)
}

// noteReasoningKey emits, before any thinking, that its key is "reasoning".
func (d *Decoder) noteReasoningKey(v jsonx.Value) {
	if !d.sent.reasoning && !wire.IsEmpty(v) {
		d.sent.reasoning = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: reasoning, Redundant: true})
	}
}

// noteUnknown emits, once, that a message has an unknown member.
func (d *Decoder) noteUnknown(v jsonx.Value) {
	if !d.sent.unknown && !wire.IsEmpty(v) {
		d.sent.unknown = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
	}
}

// place is the object that a member belongs to.
type place uint8

const (
	noPlace place = iota // another dialect's, or nothing to write
	inAnswer
	inChoice
	inMessage
)

func placeOf(name string) place {
	switch name {
	case chat.ServiceTier, systemFingerprint, upstreamProvider, citations, searchResults:
		return inAnswer
	case logprobs, filterResults, vllmStop, sglangStop:
		return inChoice
	case annotations, images, audio, reasoningDetails, executedTools:
		return inMessage
	}
	return noPlace
}

// placeExtra returns where to write an extra. One that cannot be written is named as degraded.
func (e *envelope) placeExtra(ev *chat.Event) place {
	if e.opts.Same {
		switch p := placeOf(ev.ID); {
		case ev.ID == reasoning:
			e.thoughtKey = reasoning
		case p != noPlace && len(ev.Text) > 0:
			return p
		case ev.ID == usageDetails: // written with the provider's own usage
			return noPlace
		}
	}
	if ev.ID == chat.ServiceTier && e.translateTier(ev.Text) {
		return noPlace
	}
	if !ev.Redundant && len(ev.Cites) == 0 {
		e.Degrade(ev.ID)
	}
	return noPlace
}

// translateTier translates another format's service tier, if OpenAI has an equivalent. Responses has the same values.
func (e *envelope) translateTier(tier []byte) bool {
	switch string(tier) {
	case `"standard"`:
		e.setTop(chat.ServiceTier, []byte(`"default"`))
	case `"default"`, `"flex"`, `"priority"`, `"scale"`:
		e.setTop(chat.ServiceTier, tier)
	default:
		return false
	}
	return true
}

// setTop sets a member next to the choices.
func (e *envelope) setTop(key string, json []byte) {
	for i := range e.topMembers {
		if t := &e.topMembers[i]; t.key == key {
			t.json = append(t.json[:0], json...)
			return
		}
	}
	e.topMembers = append(e.topMembers, member{key, bytes.Clone(json)})
}

func appendMembers(dst []byte, ms []member) []byte {
	for _, m := range ms {
		dst = append(append(append(dst, `,"`...), m.key...), `":`...)
		dst = wire.AppendLine(dst, m.json)
	}
	return dst
}

// toMember returns the member of a message that has the content of another format's extra, and its value; nil if there is none.
func (e *envelope) toMember(ev *chat.Event) (key string, value []byte) {
	if value := e.annotationsFor(ev); value != nil {
		return annotations, value
	}
	if value := e.imagesFor(ev); value != nil {
		return images, value
	}
	return "", nil
}

// imagesFor returns another format's images as an array; nil if there is none.
func (e *envelope) imagesFor(ev *chat.Event) (dst []byte) {
	if e.opts.Same {
		return nil
	}
	for _, p := range wire.PicturesIn(ev) {
		dst = append(dst, `,{"type":"image_url","image_url":{"url":"data:`...)
		dst = append(jsonx.AppendEscaped(dst, p.Media), ";base64,"...)
		dst = append(jsonx.AppendEscaped(dst, p.Data), `"}}`...)
	}
	if dst == nil {
		return nil
	}
	dst[0] = '['
	return append(dst, ']')
}

// extra writes a member in a separate chunk, except for strings that every chunk repeats.
func (e *streamEncoder) extra(dst []byte, ev *chat.Event) []byte {
	if key, value := e.toMember(ev); value != nil {
		dst = append(e.delta(e.begin(dst), ev.Choice), `"`+key+`":`...)
		return e.close(append(dst, value...))
	}
	switch e.placeExtra(ev) {
	case inAnswer:
		if ev.Text[0] == '"' {
			e.setTop(ev.ID, ev.Text)
			return dst
		}
		dst = e.begin(dst)
		e.topMembers = append(e.topMembers, member{ev.ID, ev.Text})
		dst = e.close(e.delta(dst, 0))
		e.topMembers = e.topMembers[:len(e.topMembers)-1]
	case inChoice:
		if ev.ID == vllmStop || ev.ID == sglangStop {
			e.atStop = append(e.atStop, member{ev.ID, bytes.Clone(ev.Text)})
			return dst
		}
		dst = append(e.delta(e.begin(dst), ev.Choice), `},"`...)
		dst = wire.AppendLine(append(append(dst, ev.ID...), `":`...), ev.Text)
		return append(dst, `,"finish_reason":null}]}`+"\n\n"...)
	case inMessage:
		if ev.ID == reasoningDetails {
			e.holdDetails(ev)
			return dst
		}
		dst = append(e.delta(e.begin(dst), ev.Choice), '"')
		return e.close(wire.AppendLine(append(append(dst, ev.ID...), `":`...), asMember(ev)))
	case noPlace:
	}
	return dst
}

// extra collects a member.
func (e *bodyEncoder) extra(ev *chat.Event) {
	if key, value := e.toMember(ev); value != nil {
		e.choice(ev.Choice).extras.add(inMessage, &chat.Event{ID: key, Text: value})
		return
	}
	switch p := e.placeExtra(ev); p {
	case inAnswer:
		e.setTop(ev.ID, ev.Text)
	case inChoice, inMessage:
		e.choice(ev.Choice).extras.add(p, ev)
	case noPlace:
	}
}

// asMember returns the value of an extra's member: for an executed tool, a list with one element.
func asMember(ev *chat.Event) []byte {
	if ev.ID != executedTools {
		return ev.Text
	}
	return append(append([]byte{'['}, ev.Text...), ']')
}

// pieces are members whose values are split over the chunks of a stream.
type pieces []piecedMember

type piecedMember struct {
	place place
	key   string
	json  []byte // the pieces, as the elements of an array without its closing bracket
}

func (p *pieces) add(at place, ev *chat.Event) {
	i := slices.IndexFunc(*p, func(m piecedMember) bool { return m.key == ev.ID })
	if i < 0 {
		i = len(*p)
		*p = append(*p, piecedMember{place: at, key: ev.ID, json: []byte{'['}})
	}
	m := &(*p)[i]
	if len(m.json) > 1 {
		m.json = append(m.json, ',')
	}
	m.json = append(m.json, asMember(ev)...)
}

// appendTo appends the members of one object.
func (p *pieces) appendTo(dst []byte, at place) []byte {
	for _, m := range *p {
		if m.place != at {
			continue
		}
		dst = append(append(append(dst, `,"`...), m.key...), `":`...)
		var values []jsonx.Value
		for _, v := range (jsonx.Value{Raw: append(m.json, ']')}).Each {
			values = append(values, v)
		}
		if m.key == reasoningDetails {
			dst = joinDetails(dst, values)
		} else {
			dst = join(dst, m.key, values)
		}
	}
	return dst
}
