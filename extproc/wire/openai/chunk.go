package openai

import (
	"net/http"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// object is what the answer's objects have in common: a chunk and a whole completion.
type object struct {
	id, model, choices, usage, err jsonx.Value
	more                           bool // it has members that only this dialect has, and that were not told
}

func (d *Decoder) readObject(v jsonx.Value) (o object) {
	for key, m := range v.Members {
		switch string(key) {
		case "id":
			o.id = m
		case "model":
			o.model = m
		case "choices":
			o.choices = m
		case "usage":
			o.usage = wire.LargerReport(o.usage, m)
		case "error":
			o.err = m
		case chat.ServiceTier:
			o.more = o.more || !d.said.tier && !m.IsNull()
		case systemFingerprint:
			o.more = o.more || !d.said.fingerprint && !m.IsNull()
		case upstreamName:
			o.more = o.more || !d.said.provider && !m.IsNull()
		case citations, searchResults:
			o.more = o.more || !m.IsNull()
			d.searched = d.searched || says(m)
		case veniceParameters: // repeats what was asked, and cites what a search of the web found
			d.searched = d.searched || says(m.Get("web_search_citations"))
		}
	}
	return o
}

// citesPages reports whether annotations name pages of the web, which the provider found there.
func citesPages(v jsonx.Value) bool {
	for _, a := range v.Each {
		if a.Get("type").Equal("url_citation") {
			return true
		}
	}
	return false
}

// modelSpan is where, in a text that holds the object at offset, the model is named.
func (o *object) modelSpan(offset int) chat.Span {
	if o.model.Kind() != jsonx.String || offset < 0 {
		return chat.Span{}
	}
	at := offset + o.model.At
	return chat.Span{Start: at, End: at + len(o.model.Raw)}
}

// chunk reads the data of one frame. It returns where the frame names the model, and whether it is the usage chunk.
func (d *Decoder) chunk(f *sse.Frame) (model chat.Span, usageChunk bool) {
	v, err := d.Parse(f.Data)
	if err != nil {
		d.Emit(chat.Event{Kind: chat.Extra, ID: unreadable})
		return chat.Span{}, false
	}
	o := d.readObject(v)
	if !o.err.IsNull() || string(f.Event) == "error" {
		d.FailWith(errbody.InStream(v))
		return chat.Span{}, false
	}
	if v.Kind() != jsonx.Object || (!o.choices.Exists() && o.usage.IsNull()) {
		return chat.Span{}, false
	}
	d.begin(&o, v)
	empty := true
	for i, c := range o.choices.Each {
		empty = false
		if d.choiceObject(i, c, false); d.Over {
			return chat.Span{}, false
		}
	}
	counted := o.usage.Kind() == jsonx.Object
	if counted {
		d.usage(o.usage, empty || d.stopped())
	}
	return o.modelSpan(f.DataAt), counted && empty
}

func (d *Decoder) begin(o *object, v jsonx.Value) {
	if !d.began {
		d.began = true
		d.id, _ = o.id.Str()
		model, _ := o.model.Str()
		d.Emit(chat.Event{Kind: chat.Start, ID: d.id, Model: model})
	}
	if o.more {
		d.answerExtras(v)
	}
}

// choice returns the state of the choice that calls itself so. Numbers beyond what a request may ask for are one.
func (d *Decoder) choice(number int) (*choice, int) {
	number = max(0, min(number, maxChoices-1))
	for len(d.choices) <= number {
		d.choices = append(d.choices, choice{})
	}
	return &d.choices[number], number
}

// choiceObject reads a choice of a chunk, or of a whole answer.
func (d *Decoder) choiceObject(position int, v jsonx.Value, whole bool) {
	var delta, message, finish jsonx.Value
	number, more := int64(position), false
	for key, m := range v.Members {
		switch string(key) {
		case "index":
			if n, ok := m.Int(); ok {
				number = n
			}
		case "delta":
			delta = m
		case "message":
			message = m
		case "finish_reason":
			finish = m
		case logprobs, filterResults, vllmStop, sglangStop:
			more = more || !m.IsNull()
		case "error":
			if m.Kind() == jsonx.Object || m.Kind() == jsonx.String {
				d.FailWith(errbody.InStream(v))
				return
			}
		}
	}
	c, n := d.choice(int(min(number, maxChoices)))
	if delta.Exists() || whole || message.IsNull() {
		if whole {
			delta = message
		}
		d.message(c, n, delta)
	} else {
		d.final(c, n, message)
	}
	var sequence jsonx.Value
	if more {
		sequence = d.choiceExtras(n, v)
	}
	reason, _ := finish.Str()
	if reason == "" && whole {
		reason = "stop"
	}
	if reason != "" {
		d.stop(c, n, reason, sequence)
	}
}

// final reads the whole message in which some servers say again what a stream's deltas said, and with it what they did
// not: the arguments of calls, or everything.
func (d *Decoder) final(c *choice, n int, v jsonx.Value) {
	if !c.spoke {
		d.message(c, n, v)
		return
	}
	for _, call := range v.Get("tool_calls").Each {
		id, _ := call.Get("id").Str()
		if t := c.find(call.Get("index"), id); t == nil || !t.args {
			d.toolCall(c, n, call)
		}
	}
}

// message reads a delta, or the message of a whole answer, in the order in which a client should see its members.
func (d *Decoder) message(c *choice, n int, v jsonx.Value) {
	var content, thought, details, refusal, tools, notes jsonx.Value
	more := false
	for key, m := range v.Members {
		switch string(key) {
		case "role":
		case "content":
			content = m
		case "reasoning_content":
			if says(m) || thought.IsNull() {
				thought = m
			}
		case reasoning:
			if !says(thought) {
				thought = m
				d.named(m)
			}
		case reasoningDetails:
			details = m
		case "refusal":
			refusal = m
		case "tool_calls":
			tools = m
		case annotations:
			more = more || says(m) && !d.crosses
			notes = m
			d.searched = d.searched || citesPages(m)
		default:
			more = more || says(m)
		}
	}
	d.reasoning(c, n, thought, details)
	d.content(c, n, content)
	d.text(c, n, chat.Refusal, refusal)
	if d.crosses {
		d.annotations(c, n, notes)
	}
	for _, call := range tools.Each {
		d.toolCall(c, n, call)
	}
	if more {
		d.messageExtras(c, n, v)
	}
}

// content reads the answer's text: a string, or the array of typed parts in which some providers also think.
func (d *Decoder) content(c *choice, n int, v jsonx.Value) {
	d.text(c, n, chat.Text, v)
	for _, part := range v.Each {
		d.text(c, n, chat.Text, part.Get("text"))
		for _, thought := range part.Get("thinking").Each {
			d.thought(c, n, thought.Get("text"), "", -1)
		}
	}
}

// text emits a piece of an open block of this kind, opening one when another is open.
func (d *Decoder) text(c *choice, n int, kind chat.EventKind, v jsonx.Value) {
	t, ok := v.Text(&d.Arena)
	if !ok || len(t) == 0 {
		return
	}
	if c.open != kind {
		d.openBlock(c, n, kind)
	}
	ev := d.Next()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, c.block, n, t
}

func (d *Decoder) openBlock(c *choice, n int, kind chat.EventKind) {
	d.closeBlock(c, n)
	c.open, c.block, c.spoke = kind, d.blocks, true
	d.blocks++
}

func (d *Decoder) closeBlock(c *choice, n int) {
	if c.open != chat.Start {
		d.Emit(chat.Event{Kind: chat.BlockStop, Index: c.block, Choice: n})
		c.open = chat.Start
	}
}

// toolCall reads one element of tool_calls, which begins or continues a call.
func (d *Decoder) toolCall(c *choice, n int, v jsonx.Value) {
	id, _ := v.Get("id").Str()
	f := v.Get("function")
	if f.Kind() != jsonx.Object {
		if custom := v.Get(chat.CustomTool); custom.Kind() == jsonx.Object {
			f = custom
		}
	}
	d.call(c, n, v.Get("index"), id, f)
}

// call begins or continues a call with its function: a name and arguments, or the input of a custom tool.
func (d *Decoder) call(c *choice, n int, number jsonx.Value, id string, f jsonx.Value) {
	args, custom := f.Get("arguments"), ""
	if input := f.Get("input"); !args.Exists() && input.Exists() {
		args, custom = input, chat.CustomTool
	}
	t := c.find(number, id)
	switch {
	case d.Over:
		return
	case t == nil && len(c.tools) == maxCalls:
		d.Fail("invalid_response", "the provider's answer has too many tool calls")
		return
	case t == nil:
		d.closeBlock(c, n)
		index, ok := number.Int()
		if !ok {
			index = int64(len(c.tools))
		}
		c.tools = append(c.tools, call{index: index, id: id, block: d.blocks})
		t, c.spoke = &c.tools[len(c.tools)-1], true
		if id == "" { // a result must be able to name its call
			id = "call_" + d.id + "_" + strconv.Itoa(d.blocks)
		}
		d.blocks++
		name, _ := f.Get("name").Str()
		if whole, ok := d.names[name]; ok {
			name = whole
		}
		d.Emit(chat.Event{Kind: chat.ToolStart, ID: custom, Index: t.block, Choice: n, Tool: chat.ToolCall{ID: id, Name: name}})
	}
	text, ok := args.Text(&d.Arena)
	if !ok && args.Kind() == jsonx.Object { // some servers forget to quote them
		text = args.Raw
	}
	if len(text) > 0 {
		t.args = true
		d.Emit(chat.Event{Kind: chat.ToolArgs, Index: t.block, Choice: n, Text: text})
	}
}

// find returns the call that an element continues, nil when it begins one. Not all providers number their calls, and
// some give all of them the same number: then a new id tells a new call.
func (c *choice) find(index jsonx.Value, id string) *call {
	number, numbered := index.Int()
	for i := len(c.tools) - 1; i >= 0; i-- {
		t := &c.tools[i]
		switch {
		case numbered && t.index != number, id != "" && t.id != "" && t.id != id:
		default:
			return t
		}
	}
	return nil
}

// stop closes what is open and says why the choice ended. A turn that called tools ended for them. sequence is what a
// server says it stopped at, if it does and that was text.
func (d *Decoder) stop(c *choice, n int, said string, sequence jsonx.Value) {
	if status, broke := brokenOff[said]; broke {
		d.FailWith(&chat.ProviderError{Status: status, Type: said, Message: "the provider gave up its answer"})
		return
	}
	d.closeBlock(c, n)
	for i := range c.tools {
		if t := &c.tools[i]; !t.stopped {
			t.stopped = true
			d.Emit(chat.Event{Kind: chat.BlockStop, Index: t.block, Choice: n})
		}
	}
	reason, text := stopReason(said), []byte(nil)
	if reason == chat.StopEnd {
		text, _ = sequence.Text(&d.Arena)
	}
	switch {
	case reason == chat.StopEnd && len(c.tools) > 0:
		reason, text = chat.StopTool, nil
	case len(text) > 0:
		reason = chat.StopSequence
	}
	c.stopped = true
	d.Emit(chat.Event{Kind: chat.Stop, Choice: n, Reason: reason, Text: text})
}

// brokenOff are the finish reasons of answers that their provider did not finish, and the status that they imply.
var brokenOff = map[string]int{
	"error":                        http.StatusBadGateway,         // OpenRouter
	"abort":                        http.StatusBadGateway,         // vLLM, SGLang
	"insufficient_system_resource": http.StatusServiceUnavailable, // DeepSeek
}

func stopReason(said string) chat.StopReason {
	switch said {
	case "length", "max_tokens", "model_length":
		return chat.StopLength
	case "tool_calls", "function_call":
		return chat.StopTool
	case "content_filter":
		return chat.StopRefusal
	}
	return chat.StopEnd
}
