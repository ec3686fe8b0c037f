package responses

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/errbody"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
)

// outputItem is what is known of one of the answer's items.
type outputItem struct {
	kind   string
	id     jsonx.Raw
	phase  jsonx.Raw
	parts  []outputPart
	signed string // the ID of its thinking, if that is signed
	closed bool
}

// outputPart is a piece of an item: of a message's content, of reasoning, or the whole of a call.
type outputPart struct {
	family string // the event's name for it
	number int64  // as the provider counts it
	block  int    // as the events do
	told   bool   // some of its text
	noted  bool   // some of its annotations
	probed bool   // some of its logprobs
	closed bool
}

// data reads the data of one frame. It returns where the frame names the model.
func (d *Decoder) data(f *sse.Frame) (model chat.Span) {
	v, err := jsonx.Parse(f.Data)
	if err != nil {
		if string(f.Data) != "[DONE]" { // other formats end so
			d.Emit(chat.Event{Kind: chat.Extra, ID: unreadable})
		}
		return chat.Span{}
	}
	kind, _ := v.Get("type").Str()
	r := v.Get("response")
	switch kind {
	case "error":
		d.FailWith(errbody.InStream(v))
	case "response.created", "response.in_progress", "response.queued":
		d.begin(r)
	case "response.completed", "response.incomplete":
		d.begin(r)
		d.finish(r)
	case "response.failed", "response.cancelled":
		d.failed(r)
	case "response.output_item.added", "response.output_item.done":
		d.begin(jsonx.Value{})
		number, _ := v.Get("output_index").Int()
		d.item(number, v.Get("item"), strings.HasSuffix(kind, "done"))
	case "":
		if !v.Get("error").IsNull() {
			d.FailWith(errbody.InStream(v))
		}
	default:
		d.piece(kind, v)
	}
	return span(r.Get("model"), f.DataAt)
}

// begin tells that there is an answer, once.
func (d *Decoder) begin(r jsonx.Value) {
	if d.began {
		return
	}
	d.began = true
	id, _ := r.Get("id").Str()
	model, _ := r.Get("model").Str()
	d.Emit(chat.Event{Kind: chat.Start, ID: id, Model: model})
}

// failed is a response that its provider gave up. What it took until then counts.
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

// finish ends the answer with the response as it became. What of it was not told before is told now.
func (d *Decoder) finish(r jsonx.Value) {
	for i, item := range r.Get("output").Each {
		if d.item(int64(i), item, true); d.Over {
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

// usage tells what an answer took, in the provider's words too.
func (d *Decoder) usage(r jsonx.Value) {
	if v := r.Get("usage"); v.Kind() == jsonx.Object {
		u := readUsage(v)
		u.Final = true
		d.Emit(chat.Event{Kind: chat.UsageInfo, Usage: u, Text: v.Raw})
	}
}

func readUsage(v jsonx.Value) chat.Usage {
	input, details := count(v.Get("input_tokens")), v.Get("input_tokens_details")
	cached := min(input, count(details.Get("cached_tokens")))
	written := min(input-cached, count(details.Get("cache_write_tokens")))
	return chat.Usage{
		Input: input - cached - written, Cached: cached, CacheWrite: written, Output: count(v.Get("output_tokens")),
		Reasoning: count(v.Get("output_tokens_details").Get("reasoning_tokens")),
	}
}

// count reads a number of tokens; 0 for anything that is none.
func count(v jsonx.Value) int64 {
	const most = 1 << 53 // what a float64 holds exactly, and more tokens than there are
	if n, ok := v.Int(); ok {
		return max(0, min(n, most))
	}
	f, ok := v.Float()
	if !ok || !(f > 0) {
		return 0
	}
	return int64(min(f, most))
}

// families are the events that bring text, by what they are called without their last word, and where their part has its number and a
// whole part its text.
var families = map[string]struct {
	kind        chat.EventKind
	place, text string
}{
	"response.output_text":             {chat.Text, "content_index", "text"},
	"response.refusal":                 {chat.Refusal, "content_index", "refusal"},
	"response.reasoning_text":          {chat.Thought, "content_index", "text"},
	"response.reasoning_summary_text":  {chat.Thought, "summary_index", "text"},
	"response.function_call_arguments": {chat.ToolArgs, "", "arguments"},
	"response.custom_tool_call_input":  {chat.ToolArgs, "", "input"},
}

// piece reads an event that brings text; any other means something to this dialect alone.
func (d *Decoder) piece(kind string, v jsonx.Value) {
	number, _ := v.Get("output_index").Int()
	if kind == "response.output_text.annotation.added" {
		d.begin(jsonx.Value{})
		if it := d.at(number, ""); it != nil {
			place, _ := v.Get("content_index").Int()
			d.note(it, place, v.Get("annotation"))
		}
		return
	}
	cut := strings.LastIndexByte(kind, '.')
	if cut < 0 {
		return
	}
	family, known := families[kind[:cut]]
	text := v.Get("delta")
	whole := kind[cut+1:] == "done"
	if whole {
		text = v.Get(family.text)
	}
	if !known || !whole && kind[cut+1:] != "delta" {
		return
	}
	d.begin(jsonx.Value{})
	it := d.at(number, "")
	if it == nil {
		return
	}
	if it.id == nil {
		it.id = present(v.Get("item_id"))
	}
	place, _ := v.Get(family.place).Int()
	d.text(it, kind[:cut], place, text, whole)
	if p := it.find(kind[:cut], place); p != nil && family.kind == chat.Text {
		d.probabilities(p, v.Get(logprobs), whole)
	}
}

// at is the state of the item with this number. One that was never announced gets a kind from what its pieces are.
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
	if !d.Over {
		d.Fail("invalid_response", "the provider's answer has too many parts")
	}
}

func present(v jsonx.Value) jsonx.Raw {
	if v.Kind() != jsonx.String || len(v.Raw) == len(`""`) {
		return nil
	}
	return append(jsonx.Raw(nil), v.Raw...)
}
