package chatcompletion

import (
	"net/http"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// object holds the members that a chunk and a whole completion share.
type object struct {
	id, model, choices, usage, err jsonx.Value
	hasExtras                      bool // it has members of this dialect only that were not emitted yet
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
			o.hasExtras = o.hasExtras || !d.sent.tier && !m.IsNull()
		case systemFingerprint:
			o.hasExtras = o.hasExtras || !d.sent.fingerprint && !m.IsNull()
		case upstreamProvider:
			o.hasExtras = o.hasExtras || !d.sent.provider && !m.IsNull()
		case citations, searchResults:
			o.hasExtras = o.hasExtras || !m.IsNull()
			d.searched = d.searched || !wire.IsEmpty(m)
		case veniceParameters: // repeats the request, and cites the results of a web search
			d.searched = d.searched || !wire.IsEmpty(m.Get("web_search_citations"))
		}
	}
	return o
}

// citesPages reports whether annotations cite web pages, which means that the provider searched the web.
func citesPages(v jsonx.Value) bool {
	for _, a := range v.Each {
		if a.Get("type").Equal("url_citation") {
			return true
		}
	}
	return false
}

// chunk reads the data of one frame. It returns the position of the model's name, and whether the frame is the usage chunk.
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
		if d.choiceObject(i, c, false); d.Ended {
			return chat.Span{}, false
		}
	}
	counted := o.usage.Kind() == jsonx.Object
	if counted {
		d.usage(o.usage, empty || d.stopped())
	}
	return wire.ModelSpan(o.model, f.DataAt), counted && empty
}

func (d *Decoder) begin(o *object, v jsonx.Value) {
	if !d.began {
		d.began = true
		d.id, _ = o.id.Str()
		model, _ := o.model.Str()
		d.Emit(chat.Event{Kind: chat.Start, ID: d.id, Model: model})
	}
	if o.hasExtras {
		d.answerExtras(v)
	}
}

// choice returns the state of the choice with this number. Numbers above a request's maximum are treated as the last one.
func (d *Decoder) choice(number int) (*choice, int) {
	number = max(0, min(number, MaxChoices-1))
	for len(d.choices) <= number {
		d.choices = append(d.choices, choice{})
	}
	return &d.choices[number], number
}

// choiceObject reads a choice of a chunk, or of a whole answer. position is its index in the list, for choices without a number.
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
	reason, _ := finish.Str()
	if delta.Kind() != jsonx.Object && message.Kind() != jsonx.Object && reason == "" && !more {
		return // it says nothing
	}
	c, n := d.choice(int(min(number, MaxChoices)))
	switch {
	case whole:
		d.message(c, n, message, true)
	case delta.Exists() || message.IsNull():
		d.message(c, n, delta, false)
	default:
		d.finalMessage(c, n, message)
	}
	var sequence jsonx.Value
	if more {
		sequence = d.choiceExtras(n, v)
	}
	if reason == "" && whole {
		reason = "stop"
	}
	if reason != "" {
		d.stop(c, n, reason, sequence)
	}
}

// finalMessage reads the whole message with which some servers end a stream. It repeats the deltas, and may contain what they omitted: the
// arguments of calls, or everything.
func (d *Decoder) finalMessage(c *choice, n int, v jsonx.Value) {
	if !c.open.Any {
		d.message(c, n, v, true)
		return
	}
	for i, v := range v.Get("tool_calls").Each {
		t := c.continued(v)
		if t == nil && unmarked(v) && i < len(c.tools) {
			t = &c.tools[i]
		}
		if t == nil || !t.args {
			d.toolCall(c, n, t, v)
		}
	}
}

// message reads a delta, or a whole message, in which each element of tool_calls is a call. Events are emitted in the order in which a client should see the members.
func (d *Decoder) message(c *choice, n int, v jsonx.Value, whole bool) {
	var content, thought, details, refusal, tools, notes jsonx.Value
	more := false
	for key, m := range v.Members {
		switch string(key) {
		case "role":
		case "content":
			content = m
		case "reasoning_content":
			if !wire.IsEmpty(m) || thought.IsNull() {
				thought = m
			}
		case reasoning:
			if wire.IsEmpty(thought) {
				thought = m
				d.noteReasoningKey(m)
			}
		case reasoningDetails:
			details = m
		case "refusal":
			refusal = m
		case "tool_calls":
			tools = m
		case annotations:
			more = more || !wire.IsEmpty(m) && !d.translates
			notes = m
			d.searched = d.searched || citesPages(m)
		default:
			more = more || !wire.IsEmpty(m)
		}
	}
	d.reasoning(c, n, thought, details)
	d.content(c, n, content)
	d.text(c, n, chat.Refusal, refusal)
	if d.translates {
		d.annotations(c, n, notes)
	}
	for _, v := range tools.Each {
		var t *call
		if !whole {
			t = c.continued(v)
		}
		d.toolCall(c, n, t, v)
	}
	if more {
		d.messageExtras(c, n, v)
	}
}

// content reads the answer's text: a string, or an array of typed parts, which may include reasoning.
func (d *Decoder) content(c *choice, n int, v jsonx.Value) {
	d.text(c, n, chat.Text, v)
	for _, part := range v.Each {
		d.text(c, n, chat.Text, part.Get("text"))
		for _, thought := range part.Get("thinking").Each {
			d.thought(c, n, thought.Get("text"), "", -1)
		}
	}
}

// text emits text in the open block if that is of the same kind, else in a new one.
func (d *Decoder) text(c *choice, n int, kind chat.EventKind, v jsonx.Value) {
	t, ok := v.Text(&d.Arena)
	if !ok || len(t) == 0 {
		return
	}
	if c.open.Kind != kind {
		d.OpenBlock(&c.open, n, kind)
	}
	ev := d.Next()
	ev.Kind, ev.Index, ev.Choice, ev.Text = kind, c.open.Index, n, t
}

// toolCall reads one element of tool_calls, which continues the call t, or begins one if t is nil.
func (d *Decoder) toolCall(c *choice, n int, t *call, v jsonx.Value) {
	f := v.Get("function")
	if f.Kind() != jsonx.Object {
		if custom := v.Get(chat.CustomTool); custom.Kind() == jsonx.Object {
			f = custom
		}
	}
	if kind := v.Get("type"); f.Kind() != jsonx.Object && kind.Kind() == jsonx.String { // a call of the provider's own tool
		f = jsonx.Value{Raw: append(append([]byte(`{"name":`), kind.Raw...), `,"arguments":"{}"}`...)}
	}
	d.call(c, n, t, v, f)
}

// call continues the tool call t, or begins the one of the element v if t is nil. f holds its name and arguments, or the input of a custom tool.
func (d *Decoder) call(c *choice, n int, t *call, v, f jsonx.Value) {
	args, custom := f.Get("arguments"), ""
	if input := f.Get("input"); !args.Exists() && input.Exists() {
		args, custom = input, chat.CustomTool
	}
	switch {
	case d.Ended:
		return
	case t == nil && len(c.tools) == maxCalls:
		d.Fail("invalid_response", "the provider's answer has too many tool calls")
		return
	case t == nil:
		d.CloseBlock(&c.open, n)
		id, _ := v.Get("id").Str()
		index, ok := v.Get("index").Int()
		if !ok {
			index = int64(len(c.tools))
		}
		c.tools = append(c.tools, call{index: index, id: id, block: d.Blocks})
		t, c.open.Any = &c.tools[len(c.tools)-1], true
		if id == "" { // a tool result must be able to refer to its call
			id = "call_" + d.id + "_" + strconv.Itoa(d.Blocks)
		}
		d.Blocks++
		name, _ := f.Get("name").Str()
		if own, ok := d.ownNames[name]; ok {
			name = own
		}
		d.Emit(chat.Event{Kind: chat.ToolStart, ID: custom, Index: t.block, Choice: n, Tool: chat.ToolCall{ID: id, Name: name}})
	}
	text, ok := args.Text(&d.Arena)
	if !ok && args.Kind() == jsonx.Object { // some servers send the arguments as an object
		text = args.Raw
	}
	if !t.args && custom == "" && string(text) == "null" { // some servers send no arguments as null
		text = nil
	}
	if len(text) > 0 {
		t.args = true
		d.Emit(chat.Event{Kind: chat.ToolArgs, Index: t.block, Choice: n, Text: text})
	}
}

// continued returns the call that an element of a delta continues; nil if it starts one. Some providers do not number calls, or give all of them the
// same number: then a new id starts a new call. Without ids, too, a name does.
func (c *choice) continued(v jsonx.Value) *call {
	if name, _ := v.Get("function").Get("name").Str(); name != "" && unmarked(v) {
		return nil
	}
	id, _ := v.Get("id").Str()
	return c.find(v.Get("index"), id)
}

// unmarked reports whether an element of tool_calls has neither a number nor an id.
func unmarked(v jsonx.Value) bool {
	id, _ := v.Get("id").Str()
	_, numbered := v.Get("index").Int()
	return id == "" && !numbered
}

// find returns the latest call with this number and id, of which either may be unknown; nil if there is none.
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

// stop closes the open blocks and emits the stop reason of the choice. It is tool use for a turn with tool calls. sequence is the stop
// sequence that a server reports, if it is a string.
func (d *Decoder) stop(c *choice, n int, finish string, sequence jsonx.Value) {
	if status, broke := unfinished[finish]; broke {
		d.FailWith(&chat.ProviderError{Status: status, Type: finish, Message: "the provider gave up its answer", Unusable: status == http.StatusBadGateway})
		return
	}
	d.CloseBlock(&c.open, n)
	for i := range c.tools {
		if t := &c.tools[i]; !t.stopped {
			t.stopped = true
			d.Emit(chat.Event{Kind: chat.BlockStop, Index: t.block, Choice: n})
		}
	}
	reason, text := stopReason(finish), []byte(nil)
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

// unfinished maps the finish reasons of answers that their provider aborted to the HTTP statuses of the resulting errors.
var unfinished = map[string]int{
	"error":                        http.StatusBadGateway,         // OpenRouter
	"abort":                        http.StatusBadGateway,         // vLLM, SGLang
	"insufficient_system_resource": http.StatusServiceUnavailable, // DeepSeek
}

func stopReason(finish string) chat.StopReason {
	switch finish {
	case "length", "max_tokens", "model_length":
		return chat.StopLength
	case "tool_calls", "function_call":
		return chat.StopTool
	case "content_filter":
		return chat.StopRefusal
	}
	return chat.StopEnd
}
