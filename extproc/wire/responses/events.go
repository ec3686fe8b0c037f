package responses

import (
	"bytes"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// outputItem is the state of one item of the answer.
type outputItem struct {
	kind   string
	id     jsonx.Raw
	phase  jsonx.Raw
	parts  []outputPart
	block  int    // of an item of this dialect only: one more than the index of its events; 0 if there are none yet
	signed string // the ID of its thinking events, if they are signed
	closed bool
}

// outputPart is a part of an item: of a message's content, of reasoning, or a whole call.
type outputPart struct {
	family      string // name of its events, without the last word
	kind        chat.EventKind
	event       string // name of the events with its text
	number      int64  // the provider's number
	block       int    // index of its chat events
	before      int    // code points of text before it
	emitted     bool   // text was emitted
	annotated   bool   // annotations were emitted
	hasLogprobs bool   // logprobs were emitted
	closed      bool
}

// streamEvent is the relevant members of an event.
type streamEvent struct {
	kind, response, item, err, delta, text, refusal, args, input jsonx.Value
	id, output, content, summary, annotation, logprobs           jsonx.Value
}

func (e *streamEvent) read(v jsonx.Value) {
	for key, m := range v.Members {
		switch string(key) {
		case "type":
			e.kind = m
		case "response":
			e.response = m
		case "item":
			e.item = m
		case "error":
			e.err = m
		case "delta":
			e.delta = m
		case "text":
			e.text = m
		case "refusal":
			e.refusal = m
		case "arguments":
			e.args = m
		case "input":
			e.input = m
		case "item_id":
			e.id = m
		case "output_index":
			e.output = m
		case "content_index":
			e.content = m
		case "summary_index":
			e.summary = m
		case "annotation":
			e.annotation = m
		case logprobs:
			e.logprobs = m
		}
	}
}

// data reads the data of one frame. It returns the position of the model's name.
func (d *Decoder) data(f *sse.Frame) (model chat.Span) {
	v, err := d.Parse(f.Data)
	if err != nil {
		if string(f.Data) != "[DONE]" { // the terminator of other formats
			d.Emit(chat.Event{Kind: chat.Extra, ID: unreadable})
		}
		return chat.Span{}
	}
	var e streamEvent
	e.read(v)
	kind, _ := e.kind.Text(&d.Arena)
	switch string(kind) {
	case "error":
		d.FailWith(errbody.InStream(v))
	case "response.created", "response.in_progress", "response.queued":
		d.begin(e.response)
	case "response.completed", "response.incomplete":
		d.begin(e.response)
		d.finish(e.response)
	case "response.failed", "response.cancelled":
		d.failed(e.response)
	case "response.output_item.added", "response.output_item.done":
		d.begin(jsonx.Value{})
		number, _ := e.output.Int()
		d.item(number, e.item, bytes.HasSuffix(kind, []byte("done")))
	case "":
		if !e.err.IsNull() {
			d.FailWith(errbody.InStream(v))
		}
	default:
		d.piece(kind, &e)
	}
	return wire.ModelSpan(e.response.Get("model"), f.DataAt)
}

// begin emits the Start event, once.
func (d *Decoder) begin(r jsonx.Value) {
	if d.began {
		return
	}
	d.began = true
	id, _ := r.Get("id").Str()
	model, _ := r.Get("model").Str()
	d.Emit(chat.Event{Kind: chat.Start, ID: id, Model: model})
}

// failed handles a response that its provider aborted. Its usage counts.
func (d *Decoder) failed(r jsonx.Value) {
	d.usage(r)
	e := errbody.InStream(r)
	if e.Message == "" && e.Code == "" {
		e.Type, e.Message = "failed", "the provider gave up its answer"
	}
	d.FailWith(e)
}

// response reads a whole response.
func (d *Decoder) response(v jsonx.Value) {
	status, _ := v.Get("status").Str()
	switch {
	case status == failed || status == "cancelled" || status == "" && !v.Get("error").IsNull():
		d.failed(v)
	case v.Get("output").Kind() != jsonx.Array:
		d.Fail("empty", "the provider's answer has no output")
	default:
		d.begin(v)
		d.finish(v)
	}
}

// finish ends the answer. r is the whole response: what earlier events did not contain is emitted now.
func (d *Decoder) finish(r jsonx.Value) {
	for i, item := range r.Get("output").Each {
		if d.item(int64(i), item, true); d.Ended {
			return
		}
	}
	if tier := r.Get(chat.ServiceTier); tier.Kind() == jsonx.String && !d.tier {
		d.tier = true
		d.Emit(chat.Event{Kind: chat.Extra, ID: chat.ServiceTier, Text: tier.Raw})
	}
	reason := chat.StopEnd
	why, _ := r.Get("incomplete_details").Get("reason").Str()
	switch {
	case r.Get("status").Equal(incomplete) && why == "content_filter":
		reason = chat.StopRefusal
	case r.Get("status").Equal(incomplete):
		reason = chat.StopLength
	case d.called:
		reason = chat.StopTool
	}
	d.Emit(chat.Event{Kind: chat.Stop, Reason: reason})
	d.usage(r)
	d.End()
}

// usage emits a usage object: its numbers, and the provider's own JSON.
func (d *Decoder) usage(r jsonx.Value) {
	var v jsonx.Value
	for key, m := range r.Members {
		if string(key) == "usage" {
			v = wire.LargerReport(v, m)
		}
	}
	if v.Kind() == jsonx.Object {
		counted := readReport(v)
		u := counted.usage()
		u.Final, u.Searches = true, searches(r.Get("output"))
		d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: v.Raw})
	}
}

// searches counts the web searches among an answer's items.
func searches(output jsonx.Value) (n int64) {
	for _, item := range output.Each {
		if item.Get("type").Equal("web_search_call") {
			n++
		}
	}
	return n
}

// family is a kind of events with text.
type family struct {
	name  string // event name without its last word
	kind  chat.EventKind
	place member // the member with the number of their part
	text  member // the member with the text of a whole part
}

// member identifies a member of an event.
type member uint8

const (
	noMember member = iota
	contentMember
	summaryMember
	textMember
	refusalMember
	argsMember
	inputMember
)

func (e *streamEvent) member(m member) jsonx.Value {
	switch m {
	case contentMember:
		return e.content
	case summaryMember:
		return e.summary
	case textMember:
		return e.text
	case refusalMember:
		return e.refusal
	case argsMember:
		return e.args
	case inputMember:
		return e.input
	case noMember:
	}
	return jsonx.Value{}
}

var families = func() map[string]*family {
	all := map[string]*family{}
	for _, f := range []family{
		{outputText, chat.Text, contentMember, textMember},
		{"response.refusal", chat.Refusal, contentMember, refusalMember},
		{"response.reasoning_text", chat.Thought, contentMember, textMember},
		{"response.reasoning_summary_text", chat.Thought, summaryMember, textMember},
		{"response.function_call_arguments", chat.ToolArgs, noMember, argsMember},
		{"response.custom_tool_call_input", chat.ToolArgs, noMember, inputMember},
	} {
		all[f.name] = &f
	}
	// Former names of the reasoning events, which some servers send instead of the current ones, or in addition. Their deltas are objects
	// with a text.
	all["response.reasoning_summary"] = all["response.reasoning_summary_text"]
	all["response.reasoning"] = all["response.reasoning_text"]
	return all
}()

// piece reads an event with text or an annotation; other events are for clients of this dialect only.
func (d *Decoder) piece(kind []byte, e *streamEvent) {
	number, _ := e.output.Int()
	if string(kind) == "response.output_text.annotation.added" {
		d.begin(jsonx.Value{})
		if it := d.at(number, ""); it != nil {
			place, _ := e.content.Int()
			d.note(it, place, e.annotation)
		}
		return
	}
	cut := bytes.LastIndexByte(kind, '.')
	if cut < 0 {
		return
	}
	f, known := families[string(kind[:cut])]
	last := string(kind[cut+1:])
	whole := last == "done"
	if !known || !whole && last != "delta" {
		return
	}
	d.begin(jsonx.Value{})
	it := d.at(number, "")
	if it == nil {
		return
	}
	if it.id == nil {
		it.id = present(e.id)
	}
	d.emitText(it, f, kind[:cut], e, whole)
}

// emitText emits a piece of a part, or a whole part. event is the name of its event without the last word.
func (d *Decoder) emitText(it *outputItem, f *family, event []byte, e *streamEvent, whole bool) {
	text := e.delta
	if text.Kind() == jsonx.Object {
		text = text.Get("text")
	}
	if whole {
		text = e.member(f.text)
		if f.name == "response.function_call_arguments" {
			d.empty.Add(text)
		}
	}
	place, _ := e.member(f.place).Int()
	p := it.find(f.name, place)
	if p != nil && p.event != "" && p.event != string(event) { // the part was emitted under its other event name
		return
	}
	d.text(it, f.name, place, text, whole)
	if p = it.find(f.name, place); p == nil {
		return
	}
	if p.emitted && p.event == "" {
		p.event = string(event)
	}
	if f.kind == chat.Text {
		d.probabilities(p, e.logprobs, whole)
	}
}

// at returns the state of the item with a number. An item without an added event is created with the given kind.
func (d *Decoder) at(number int64, kind string) *outputItem {
	it := d.items[number]
	if it == nil {
		if len(d.items) >= maxBlocks {
			d.tooMany()
			return nil
		}
		it = &outputItem{kind: kind}
		d.items[number] = it
	}
	return it
}

func (d *Decoder) tooMany() {
	if !d.Ended {
		d.Fail("invalid_response", "the provider's answer has too many parts")
	}
}

func present(v jsonx.Value) jsonx.Raw {
	if v.Kind() != jsonx.String || len(v.Raw) == len(`""`) {
		return nil
	}
	return append(jsonx.Raw(nil), v.Raw...)
}
