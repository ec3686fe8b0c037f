package responses

import (
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// item reads an item from its added or done event, or from the whole response. What earlier events contained is not emitted again.
func (d *Decoder) item(number int64, v jsonx.Value, done bool) {
	kind, _ := v.Get("type").Str()
	if done && kind == "function_call" && !v.Get("status").Equal(incomplete) {
		d.empty.Add(v.Get("arguments"))
	}
	it := d.at(number, kind)
	if it == nil || it.closed {
		return
	}
	it.kind = kind
	if it.id == nil {
		it.id = present(v.Get("id"))
	}
	if it.phase == nil {
		it.phase = present(v.Get(phase))
	}
	switch kind {
	case "message":
		if done {
			d.content(it, v.Get("content"))
		}
	case "reasoning":
		if done {
			d.reasoning(it, v)
		}
	case "function_call":
		d.callItem(it, v, "response.function_call_arguments", v.Get("arguments"), done)
	case "custom_tool_call":
		d.callItem(it, v, "response.custom_tool_call_input", v.Get("input"), done)
	default:
		d.foreignItem(it, v, done)
	}
	if done {
		d.closeItem(it)
	}
}

// foreignItem emits an item of this dialect only when it is complete, and announces calls of the provider's tools.
func (d *Decoder) foreignItem(it *outputItem, v jsonx.Value, done bool) {
	tool := ownTool(it.kind, v)
	if it.kind == "" || !done && tool.Name == "" {
		return
	}
	if it.block == 0 {
		it.block = d.newBlock() + 1
	}
	if d.Ended {
		return
	}
	ev := chat.Event{Kind: chat.Extra, ID: it.kind, Index: it.block - 1, Text: v.Raw, Tool: tool}
	if !done {
		ev.Kind, ev.ID, ev.Text = chat.Other, "", nil
	}
	d.Emit(ev)
}

// ownTool returns the provider's tool that an item calls, by the item's type, or the id of the call whose result the item is.
func ownTool(kind string, v jsonx.Value) (t chat.ToolCall) {
	id, _ := v.Get("call_id").Str()
	if id == "" {
		id, _ = v.Get("id").Str()
	}
	name, isCall := strings.CutSuffix(kind, "_call")
	switch {
	case kind == "mcp_approval_request":
		return chat.ToolCall{ID: id, Name: "mcp"}
	case isCall:
		return chat.ToolCall{ID: id, Name: name}
	case strings.HasSuffix(kind, "_output"):
		return chat.ToolCall{ID: id}
	}
	return chat.ToolCall{}
}

// content emits the content of a message.
func (d *Decoder) content(it *outputItem, parts jsonx.Value) {
	for i, p := range parts.Each {
		switch kind, _ := p.Get("type").Str(); kind {
		case "output_text":
			d.outputText(it, int64(i), p)
		case "refusal":
			d.text(it, "response.refusal", int64(i), p.Get("refusal"), true)
		default:
			d.Emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
		}
	}
}

// reasoning emits a reasoning item: summary, reasoning_text, and encrypted content. An empty item is emitted whole.
func (d *Decoder) reasoning(it *outputItem, v jsonx.Value) {
	sealed := v.Get(encryptedContent)
	text, isSealed := sealed.Str()
	ours, err := openSeal(text)
	isOurs := err == nil && ours != nil
	if isOurs {
		it.signed = ours.SignedBy()
	}
	for i, p := range v.Get("summary").Each {
		d.text(it, "response.reasoning_summary_text", int64(i), p.Get("text"), true)
	}
	for i, p := range v.Get("content").Each {
		d.text(it, "response.reasoning_text", int64(i), p.Get("text"), true)
	}
	switch n := len(it.parts); {
	case isOurs:
		d.emitUnsealed(it, ours)
	case d.translates && text != "":
		d.emitSealed(it, text)
	case n == 0:
		d.Emit(chat.Event{Kind: chat.Extra, ID: "reasoning", Index: d.newBlock(), Text: v.Raw, Redundant: !isSealed})
	case isSealed:
		d.Emit(chat.Event{Kind: chat.Extra, ID: encryptedContent, Index: it.parts[n-1].block, Text: sealed.Raw})
	}
}

// openSeal returns what a gateway sealed; nil if the content is another provider's.
func openSeal(sealed string) (*chat.Part, error) {
	p, ours, err := wire.Unseal(sealed, encryptedContent)
	if !ours {
		return nil, nil
	}
	return &p, err
}

// emitSealed emits encrypted content for clients of other formats: as the signature of the summary before it, or as an opaque block.
func (d *Decoder) emitSealed(it *outputItem, text string) {
	kind := chat.Signature
	if len(it.parts) == 0 {
		kind = chat.Redacted
		if d.newPart(it, "response.reasoning_summary_text", 0); d.Ended {
			return
		}
	}
	signed := []byte(chat.Signed(chat.ResponsesThinking, text))
	d.Emit(chat.Event{Kind: kind, ID: chat.ResponsesThinking, Index: it.parts[len(it.parts)-1].block, Text: signed})
}

// emitUnsealed emits what a gateway sealed: the signature of the thinking before it, or an opaque block.
func (d *Decoder) emitUnsealed(it *outputItem, p *chat.Part) {
	if len(it.parts) == 0 {
		d.newPart(it, "response.reasoning_summary_text", 0)
	}
	ev := chat.Event{Kind: chat.Signature, ID: it.signed, Index: it.parts[len(it.parts)-1].block, Text: []byte(p.Signature)}
	if p.Kind == chat.PartRedacted {
		ev.Kind, ev.Text = chat.Redacted, []byte(p.Data)
	}
	d.Emit(ev)
}

// callItem emits a tool call, and its arguments once they are complete.
func (d *Decoder) callItem(it *outputItem, v jsonx.Value, family string, args jsonx.Value, done bool) {
	if len(it.parts) == 0 {
		id, _ := v.Get("call_id").Str()
		name, _ := v.Get("name").Str()
		if long := d.ownNames[name]; long != "" {
			name = long
		}
		custom := ""
		if it.kind == "custom_tool_call" {
			custom = chat.CustomTool
		}
		d.called = true
		p := d.newPart(it, family, 0)
		if d.Ended {
			return
		}
		d.Emit(chat.Event{Kind: chat.ToolStart, ID: custom, Index: p.block, Tool: chat.ToolCall{ID: id, Name: name}})
	}
	if done {
		d.text(it, family, 0, args, true)
	}
}

// text emits a piece of a part, or a whole part if none of its text was emitted.
func (d *Decoder) text(it *outputItem, family string, number int64, v jsonx.Value, whole bool) {
	t, ok := v.Text(&d.Arena)
	if !ok || len(t) == 0 {
		return
	}
	p := it.find(family, number)
	switch {
	case p != nil && whole && p.emitted:
		return
	case p == nil && families[family].kind == chat.ToolArgs: // of a call without an added event
		return
	case p == nil:
		if p = d.newPart(it, family, number); d.Ended {
			return
		}
	}
	p.emitted = true
	if p.kind == chat.Text && d.translates {
		d.points += utf8.RuneCount(t)
	}
	ev := d.Next()
	ev.Kind, ev.Index, ev.Text = p.kind, p.block, t
	if ev.Kind == chat.Thought {
		ev.ID = it.signed
		if d.translates && it.signed == "" { // its signature arrives at the end of its item
			ev.ID = chat.ResponsesThinking
		}
	}
}

func (it *outputItem) find(family string, number int64) *outputPart {
	for i := range it.parts {
		if p := &it.parts[i]; p.family == family && p.number == number {
			return p
		}
	}
	return nil
}

// newPart starts a block, and emits its attributes.
func (d *Decoder) newPart(it *outputItem, family string, number int64) *outputPart {
	if n := len(it.parts); n > 0 && d.translates && families[family].kind == chat.Thought {
		if before := &it.parts[n-1]; before.kind == chat.Thought && !before.closed {
			return d.continueThought(it, family, number)
		}
	}
	for i := range it.parts {
		d.closePart(&it.parts[i])
	}
	it.parts = append(it.parts, outputPart{family: family, kind: families[family].kind, number: number, block: d.newBlock(), before: d.points})
	p := &it.parts[len(it.parts)-1]
	if d.Ended {
		return p
	}
	if it.id != nil {
		d.Emit(chat.Event{Kind: chat.Extra, ID: itemID, Index: p.block, Text: it.id, Redundant: true})
	}
	if it.phase != nil && it.kind == "message" {
		d.Emit(chat.Event{Kind: chat.Extra, ID: phase, Index: p.block, Text: it.phase, Redundant: true})
	}
	if family == "response.reasoning_text" {
		d.Emit(chat.Event{Kind: chat.Extra, ID: reasoningText, Index: p.block, Redundant: true})
	}
	return p
}

// continueThought adds a part to the thinking of an item. For clients of other formats an item's thinking is one block with one signature.
func (d *Decoder) continueThought(it *outputItem, family string, number int64) *outputPart {
	before := &it.parts[len(it.parts)-1]
	before.closed = true
	block := before.block
	if before.emitted {
		d.Emit(chat.Event{Kind: chat.Thought, ID: chat.ResponsesThinking, Index: block, Text: []byte("\n\n")})
	}
	it.parts = append(it.parts, outputPart{family: family, kind: chat.Thought, number: number, block: block})
	return &it.parts[len(it.parts)-1]
}

func (d *Decoder) newBlock() int {
	d.Blocks++
	if d.Blocks > maxBlocks {
		d.tooMany()
	}
	return d.Blocks - 1
}

// outputText emits a whole text part of a message.
func (d *Decoder) outputText(it *outputItem, number int64, v jsonx.Value) {
	d.text(it, outputText, number, v.Get("text"), true)
	if p := it.find(outputText, number); p == nil || !p.annotated {
		for _, note := range v.Get(annotation).Each {
			d.note(it, number, note)
		}
	}
	if p := it.find(outputText, number); p != nil {
		d.probabilities(p, v.Get(logprobs), true)
	}
}

const outputText = "response.output_text"

// note emits an annotation of a message's text.
func (d *Decoder) note(it *outputItem, number int64, v jsonx.Value) {
	p := it.find(outputText, number)
	if p == nil {
		if p = d.newPart(it, outputText, number); d.Ended {
			return
		}
	}
	p.annotated = true
	ev := chat.Event{Kind: chat.Extra, ID: annotation, Index: p.block, Text: v.Raw}
	if d.translates && d.citations < wire.MaxCitations {
		if c, ok := citation(v, p.before); ok {
			d.citations++
			ev.Cites = []chat.Citation{c}
		}
	}
	d.Emit(ev)
}

// probabilities emits the logprobs of a piece of text, or of a whole part if none of them were emitted.
func (d *Decoder) probabilities(p *outputPart, v jsonx.Value, whole bool) {
	for range v.Each {
		if !whole || !p.hasLogprobs {
			p.hasLogprobs = true
			d.Emit(chat.Event{Kind: chat.Extra, ID: logprobs, Index: p.block, Text: v.Raw})
		}
		return
	}
}

func (d *Decoder) closePart(p *outputPart) {
	if !p.closed {
		p.closed = true
		d.Emit(chat.Event{Kind: chat.BlockStop, Index: p.block})
	}
}

func (d *Decoder) closeItem(it *outputItem) {
	it.closed = true
	for i := range it.parts {
		d.closePart(&it.parts[i])
	}
}
