package openai

import (
	"bytes"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Members of an answer that other dialects do not have, as chat.Extra names them: on the answer, on a choice, and on its
// message. Where a server is named, it alone writes them.
const (
	systemFingerprint = "system_fingerprint"
	upstreamName      = "provider"       // OpenRouter: who answered behind it
	citations         = "citations"      // Perplexity: addresses
	searchResults     = "search_results" // Perplexity
	veniceParameters  = "venice_parameters"

	logprobs      = "logprobs"
	filterResults = "content_filter_results" // Azure
	vllmStop      = "stop_reason"            // vLLM: the stop sequence that matched
	sglangStop    = "matched_stop"           // SGLang: the same

	reasoning        = "reasoning" // OpenRouter, vLLM: says that thinking has this name, not reasoning_content
	annotations      = "annotations"
	pictures         = "images" // OpenRouter
	sound            = "audio"
	reasoningDetails = "reasoning_details"
)

// Names of what no encoder can write.
const (
	usageDetails  = "usage_details"    // a breakdown of the usage
	unknownMember = "unknown_member"   // a member of the message that this package does not know
	oversized     = "oversized_event"  // an event of the stream that was too long to keep
	unreadable    = "unreadable_event" // an event of the stream that is not JSON
)

// answerExtras tells what only this dialect has beside the choices. Who answered behind a provider, and with which build
// of its software, is no part of the answer.
func (d *Decoder) answerExtras(v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case chat.ServiceTier:
			d.once(&d.said.tier, chat.ServiceTier, m, false)
		case systemFingerprint:
			d.once(&d.said.fingerprint, systemFingerprint, m, true)
		case upstreamName:
			d.once(&d.said.provider, upstreamName, m, true)
		case citations:
			d.extra(0, citations, m, false)
		case searchResults:
			d.extra(0, searchResults, m, false)
		}
	}
}

// choiceExtras tells what only this dialect has on a choice. It returns what a server says it stopped at, which Stop
// says too.
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

// messageExtras tells what only this dialect has on a message.
func (d *Decoder) messageExtras(c *choice, n int, v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case "role", "content", "reasoning_content", reasoning, reasoningDetails, "refusal", "tool_calls":
		case "function_call": // as calls were made before there were tools
			if m.Kind() == jsonx.Object {
				d.call(c, n, jsonx.Value{}, "", m)
			}
		case annotations:
			if !d.crosses {
				d.extra(n, annotations, m, false)
			}
		case pictures:
			d.extra(n, pictures, m, false)
		case sound:
			d.extra(n, sound, m, false)
		default:
			d.unknown(m)
		}
	}
}

// extra tells a member that only this dialect has, unless it is null or empty. said: other events say it too.
func (d *Decoder) extra(choice int, name string, v jsonx.Value, said bool) {
	if says(v) {
		d.Emit(chat.Event{Kind: chat.Extra, ID: name, Choice: choice, Text: v.Raw, Said: said})
	}
}

// once tells a word that every chunk repeats.
func (d *Decoder) once(told *bool, name string, v jsonx.Value, said bool) {
	if *told || v.Kind() != jsonx.String {
		return
	}
	*told = true
	d.extra(0, name, v, said)
}

// named tells that thinking is called reasoning here, before there is any.
func (d *Decoder) named(v jsonx.Value) {
	if !d.said.reasoning && says(v) {
		d.said.reasoning = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: reasoning, Said: true})
	}
}

// unknown notes that a message has a member nobody here knows.
func (d *Decoder) unknown(v jsonx.Value) {
	if !d.said.unknown && says(v) {
		d.said.unknown = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
	}
}

// says reports whether a value is more than null, an empty string, array or object.
func says(v jsonx.Value) bool {
	switch v.Kind() {
	case jsonx.String:
		return len(v.Raw) > len(`""`)
	case jsonx.Array:
		for range v.Each {
			return true
		}
		return false
	case jsonx.Object:
		for range v.Members {
			return true
		}
		return false
	default:
		return !v.IsNull()
	}
}

// place is the object that a member belongs to.
type place uint8

const (
	nowhere place = iota // not of this dialect, or nothing to write
	ofAnswer
	ofChoice
	ofMessage
)

func placeOf(name string) place {
	switch name {
	case chat.ServiceTier, systemFingerprint, upstreamName, citations, searchResults:
		return ofAnswer
	case logprobs, filterResults, vllmStop, sglangStop:
		return ofChoice
	case annotations, pictures, sound, reasoningDetails:
		return ofMessage
	}
	return nowhere
}

// keeps reports where an extra is written, and names one that is not.
func (e *envelope) keeps(ev *chat.Event) place {
	if e.opts.Same {
		switch p := placeOf(ev.ID); {
		case ev.ID == reasoning:
			e.thoughtKey = reasoning
		case p != nowhere && len(ev.Text) > 0:
			return p
		case ev.ID == usageDetails: // in the provider's own usage
			return nowhere
		}
	}
	if ev.ID == chat.ServiceTier && e.translateTier(ev.Text) {
		return nowhere
	}
	if !ev.Said && len(ev.Cites) == 0 {
		e.Lose(ev.ID)
	}
	return nowhere
}

// translateTier says another format's word for a service tier in OpenAI's, if there is one. Responses has the same words.
func (e *envelope) translateTier(said []byte) bool {
	switch string(said) {
	case `"standard"`:
		e.top(chat.ServiceTier, []byte(`"default"`))
	case `"default"`, `"flex"`, `"priority"`, `"scale"`:
		e.top(chat.ServiceTier, said)
	default:
		return false
	}
	return true
}

// top sets a member that stands beside the choices.
func (e *envelope) top(key string, json []byte) {
	for i := range e.tops {
		if t := &e.tops[i]; t.key == key {
			t.json = append(t.json[:0], json...)
			return
		}
	}
	e.tops = append(e.tops, member{key, bytes.Clone(json)})
}

func appendMembers(dst []byte, ms []member) []byte {
	for _, m := range ms {
		dst = append(append(append(dst, `,"`...), m.key...), `":`...)
		dst = wire.AppendLine(dst, m.json)
	}
	return dst
}

// extra writes a member in a chunk of its own, except for words that every chunk repeats.
func (e *streamEncoder) extra(dst []byte, ev *chat.Event) []byte {
	if notes := e.cited(ev); notes != nil {
		dst = append(e.delta(e.begin(dst), ev.Choice), `"`+annotations+`":`...)
		return e.close(append(dst, notes...))
	}
	switch e.keeps(ev) {
	case ofAnswer:
		if ev.Text[0] == '"' {
			e.top(ev.ID, ev.Text)
			return dst
		}
		dst = e.begin(dst)
		e.tops = append(e.tops, member{ev.ID, ev.Text})
		dst = e.close(e.delta(dst, 0))
		e.tops = e.tops[:len(e.tops)-1]
	case ofChoice:
		if ev.ID == vllmStop || ev.ID == sglangStop {
			e.atStop = append(e.atStop, member{ev.ID, bytes.Clone(ev.Text)})
			return dst
		}
		dst = append(e.delta(e.begin(dst), ev.Choice), `},"`...)
		dst = wire.AppendLine(append(append(dst, ev.ID...), `":`...), ev.Text)
		return append(dst, `,"finish_reason":null}]}`+"\n\n"...)
	case ofMessage:
		if ev.ID == reasoningDetails {
			e.hold(ev)
			return dst
		}
		dst = append(e.delta(e.begin(dst), ev.Choice), '"')
		return e.close(wire.AppendLine(append(append(dst, ev.ID...), `":`...), ev.Text))
	case nowhere:
	}
	return dst
}

// extra gathers a member.
func (e *bodyEncoder) extra(ev *chat.Event) {
	if notes := e.cited(ev); notes != nil {
		e.choice(ev.Choice).extras.add(ofMessage, &chat.Event{ID: annotations, Text: notes})
		return
	}
	switch p := e.keeps(ev); p {
	case ofAnswer:
		e.top(ev.ID, ev.Text)
	case ofChoice, ofMessage:
		e.choice(ev.Choice).extras.add(p, ev)
	case nowhere:
	}
}

// pieces are members whose values come in pieces, as a stream's chunks have them.
type pieces []piecedMember

type piecedMember struct {
	place place
	key   string
	json  []byte // the pieces, as the elements of an array without its brackets
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
	m.json = append(m.json, ev.Text...)
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
