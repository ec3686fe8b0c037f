package responses

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// item reads an item as it begins, or as it became. What pieces have told already is not told again.
func (d *Decoder) item(number int64, v jsonx.Value, done bool) {
	kind, _ := v.Get("type").Str()
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
		if done && kind != "" {
			d.emit(chat.Event{Kind: chat.Extra, ID: kind, Index: d.newBlock(), Text: v.Raw})
		}
	}
	if done {
		d.closeItem(it)
	}
}

// content tells what a message holds.
func (d *Decoder) content(it *outputItem, parts jsonx.Value) {
	for i, p := range parts.Each {
		switch kind, _ := p.Get("type").Str(); kind {
		case "output_text":
			const family = "response.output_text"
			fresh := it.find(family, int64(i)) == nil
			d.text(it, family, int64(i), p.Get("text"), true)
			if !fresh {
				continue
			}
			for _, note := range p.Get(annotation).Each {
				d.extraOf(it, family, int64(i), annotation, note)
			}
			d.extraOf(it, family, int64(i), logprobs, p.Get(logprobs))
		case "refusal":
			d.text(it, "response.refusal", int64(i), p.Get("refusal"), true)
		default:
			d.emit(chat.Event{Kind: chat.Extra, ID: unknownMember})
		}
	}
}

// reasoning tells a summary, the model's own words, and what the provider encrypted of them. An item that says nothing is told whole.
func (d *Decoder) reasoning(it *outputItem, v jsonx.Value) {
	for i, p := range v.Get("summary").Each {
		d.text(it, "response.reasoning_summary_text", int64(i), p.Get("text"), true)
	}
	for i, p := range v.Get("content").Each {
		d.text(it, "response.reasoning_text", int64(i), p.Get("text"), true)
	}
	sealed := v.Get(encryptedContent)
	isSealed := sealed.Kind() == jsonx.String
	switch n := len(it.parts); {
	case n == 0:
		d.emit(chat.Event{Kind: chat.Extra, ID: "reasoning", Index: d.newBlock(), Text: v.Raw, Said: !isSealed})
	case isSealed:
		d.emit(chat.Event{Kind: chat.Extra, ID: encryptedContent, Index: it.parts[n-1].block, Text: sealed.Raw})
	}
}

// callItem tells that a tool is called, and its arguments once they are whole.
func (d *Decoder) callItem(it *outputItem, v jsonx.Value, family string, args jsonx.Value, done bool) {
	if len(it.parts) == 0 {
		id, _ := v.Get("call_id").Str()
		name, _ := v.Get("name").Str()
		custom := ""
		if it.kind == "custom_tool_call" {
			custom = chat.CustomTool
		}
		d.called = true
		p := d.newPart(it, family, 0)
		if d.over {
			return
		}
		d.emit(chat.Event{Kind: chat.ToolStart, ID: custom, Index: p.block, Tool: chat.ToolCall{ID: id, Name: name}})
	}
	if done {
		d.text(it, family, 0, args, true)
	}
}

// text tells a piece of a part, or a whole one if nothing of it was told.
func (d *Decoder) text(it *outputItem, family string, number int64, v jsonx.Value, whole bool) {
	t, ok := v.Text(&d.arena)
	if !ok || len(t) == 0 {
		return
	}
	p := it.find(family, number)
	switch {
	case p != nil && whole && p.told:
		return
	case p == nil && families[family].kind == chat.ToolArgs: // of a call that was never announced
		return
	case p == nil:
		if p = d.newPart(it, family, number); d.over {
			return
		}
	}
	p.told = true
	d.emit(chat.Event{Kind: families[family].kind, Index: p.block, Text: t})
}

func (it *outputItem) find(family string, number int64) *outputPart {
	for i := range it.parts {
		if p := &it.parts[i]; p.family == family && p.number == number {
			return p
		}
	}
	return nil
}

// newPart begins a block, and tells what only this dialect says of it.
func (d *Decoder) newPart(it *outputItem, family string, number int64) *outputPart {
	for i := range it.parts {
		d.closePart(&it.parts[i])
	}
	it.parts = append(it.parts, outputPart{family: family, number: number, block: d.newBlock()})
	p := &it.parts[len(it.parts)-1]
	if d.over {
		return p
	}
	if it.id != nil {
		d.emit(chat.Event{Kind: chat.Extra, ID: itemID, Index: p.block, Text: it.id, Said: true})
	}
	if it.phase != nil && it.kind == "message" {
		d.emit(chat.Event{Kind: chat.Extra, ID: phase, Index: p.block, Text: it.phase, Said: true})
	}
	if family == "response.reasoning_text" {
		d.emit(chat.Event{Kind: chat.Extra, ID: reasoningText, Index: p.block, Said: true})
	}
	return p
}

func (d *Decoder) newBlock() int {
	d.blocks++
	if d.blocks > maxBlocks {
		d.tooMany()
	}
	return d.blocks - 1
}

// extraOf tells what this dialect has on a part, unless it is empty.
func (d *Decoder) extraOf(it *outputItem, family string, number int64, name string, v jsonx.Value) {
	if v.IsNull() || v.Kind() == jsonx.Array && isEmpty(v) {
		return
	}
	p := it.find(family, number)
	if p == nil {
		if p = d.newPart(it, family, number); d.over {
			return
		}
	}
	d.emit(chat.Event{Kind: chat.Extra, ID: name, Index: p.block, Text: v.Raw})
}

func isEmpty(array jsonx.Value) bool {
	for range array.Each {
		return false
	}
	return true
}

func (d *Decoder) closePart(p *outputPart) {
	if !p.closed {
		p.closed = true
		d.emit(chat.Event{Kind: chat.BlockStop, Index: p.block})
	}
}

func (d *Decoder) closeItem(it *outputItem) {
	it.closed = true
	for i := range it.parts {
		d.closePart(&it.parts[i])
	}
}
