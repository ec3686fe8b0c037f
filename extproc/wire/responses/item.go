package responses

import (
	"bytes"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// item is one output item of an answer.
type item struct {
	kind   itemKind
	index  int    // in the output
	id     string // as the client sees it
	status string // completed, unless it is not
	closed bool   // the client was told that it is done

	parts   []part // of a message, or of reasoning
	stopped bool   // the provider ended the block
	block   int    // of a call: the provider's number of it
	call    chat.ToolCall
	args    []byte
	text    bool   // the arguments of a custom call come as text, and not inside an object
	seal    []byte // of reasoning: its encrypted_content
	whole   []byte // of another: its JSON
	phase   []byte // of a message: its JSON
}

type itemKind uint8

const (
	message itemKind = iota
	reasoning
	functionCall
	customCall
	foreign // of a kind that only this dialect has
)

// part is a piece of a message's content, of a summary, or of reasoning's own words.
type part struct {
	kind     chat.EventKind // Text, Refusal or Thought
	block    int            // the provider's number of it
	raw      bool           // of a Thought: the model's own words
	place    int            // among those of its member
	closed   bool
	text     []byte
	sign     []byte   // of a Thought
	data     []byte   // of redacted thinking
	notes    [][]byte // annotations
	logprobs [][]byte
}

// marks of items that the gateway made itself: their provider knows nothing of them.
const ownReasoning = chat.OwnReasoning

// add begins an item. What is open before it, and may not go on, is done.
func (e *encoder) add(dst []byte, it *item) ([]byte, *item) {
	dst = e.begin(dst)
	going := e.going[:0]
	for _, o := range e.going {
		if o.stopped || o.kind == message || o.kind == reasoning {
			dst = e.close(dst, o)
			continue
		}
		going = append(going, o)
	}
	going = append(going, it)
	e.going = going
	it.index, it.status = len(e.items), completed
	if it.id = e.next.id; it.id == "" || it.kind == foreign {
		it.id = it.kind.prefix() + e.ownID() + "_" + strconv.Itoa(it.index)
	}
	it.phase = e.next.phase
	e.next = named{}
	e.items = append(e.items, it)
	return dst, it
}

func (k itemKind) prefix() string {
	switch k {
	case reasoning:
		return ownReasoning
	case functionCall:
		return "fc_"
	case customCall:
		return "ctc_"
	case message, foreign:
	}
	return "msg_"
}

// last is the item that goes on, if it is open and of this kind; else nil.
func (e *encoder) last(kind itemKind) *item {
	n := len(e.items)
	if n == 0 || e.items[n-1].closed || e.items[n-1].kind != kind || e.next.id != "" && e.next.id != e.items[n-1].id {
		return nil
	}
	return e.items[n-1]
}

// say adds text to the message that is open, or to a new one.
func (e *encoder) say(dst []byte, ev *chat.Event) []byte {
	if len(ev.Text) == 0 {
		return dst
	}
	dst, it, p := e.content(dst, ev)
	p.text = append(p.text, ev.Text...)
	return e.delta(dst, it, len(it.parts)-1, ev.Text)
}

// content is the part of a message that an event belongs to, opened if need be.
func (e *encoder) content(dst []byte, ev *chat.Event) ([]byte, *item, *part) {
	kind := ev.Kind
	if kind != chat.Refusal {
		kind = chat.Text
	}
	it := e.last(message)
	if it == nil {
		dst, it = e.add(dst, &item{kind: message})
		dst = e.itemAdded(dst, it)
	}
	e.next = named{}
	if n := len(it.parts); n > 0 && !it.parts[n-1].closed && it.parts[n-1].kind == kind && it.parts[n-1].block == ev.Index {
		return dst, it, &it.parts[n-1]
	}
	dst = e.closePart(dst, it)
	it.parts = append(it.parts, part{kind: kind, block: ev.Index, place: len(it.parts)})
	return e.partAdded(dst, it), it, &it.parts[len(it.parts)-1]
}

// think adds to a block of thinking. A block is an item of its own, unless its provider says that it belongs to the last.
func (e *encoder) think(dst []byte, ev *chat.Event) []byte {
	if ev.Kind != chat.Thought && ev.ID == "" && !e.opts.Same {
		e.Lose("signature")
		return dst
	}
	dst, it, p := e.thought(dst, ev)
	switch ev.Kind {
	case chat.Signature:
		p.sign = append(p.sign, ev.Text...)
	case chat.Redacted:
		p.data = append(p.data, ev.Text...)
	default:
		if len(ev.Text) == 0 {
			return dst
		}
		if len(p.text) == 0 {
			p.place = it.told(p.raw)
			dst = e.partAdded(dst, it)
		}
		p.text = append(p.text, ev.Text...)
		return e.delta(dst, it, len(it.parts)-1, ev.Text)
	}
	return dst
}

// told counts the parts of reasoning that say something.
func (it *item) told(raw bool) (n int) {
	for i := range it.parts {
		if it.parts[i].raw == raw && len(it.parts[i].text) > 0 {
			n++
		}
	}
	return n
}

// thought is the block of thinking that an event belongs to, opened if need be.
func (e *encoder) thought(dst []byte, ev *chat.Event) ([]byte, *item, *part) {
	raw := e.next.raw
	it := e.last(reasoning)
	if it != nil && e.next.id == "" && it.parts[len(it.parts)-1].block == ev.Index {
		return dst, it, &it.parts[len(it.parts)-1]
	}
	if it == nil || e.next.id == "" {
		dst, it = e.add(dst, &item{kind: reasoning})
		dst = e.itemAdded(dst, it)
	}
	e.next = named{}
	dst = e.closePart(dst, it)
	it.parts = append(it.parts, part{kind: chat.Thought, block: ev.Index, raw: raw})
	return dst, it, &it.parts[len(it.parts)-1]
}

// call begins a call of a tool.
func (e *encoder) call(dst []byte, ev *chat.Event) []byte {
	kind := functionCall
	if ev.ID == chat.CustomTool || e.custom[ev.Tool.Name] {
		kind = customCall
	}
	it := &item{kind: kind, block: ev.Index, call: chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name}, text: ev.ID == chat.CustomTool}
	dst, it = e.add(dst, it)
	return e.itemAdded(dst, it)
}

// args continues a call. The argument of a custom tool that comes as an object is told when it is whole.
func (e *encoder) args(dst []byte, ev *chat.Event) []byte {
	for _, it := range slices.Backward(e.going) {
		if (it.kind != functionCall && it.kind != customCall) || it.block != ev.Index {
			continue
		}
		if len(ev.Text) == 0 {
			return dst
		}
		it.args = append(it.args, ev.Text...)
		if it.kind == customCall && !it.text {
			return dst
		}
		return e.argsDelta(dst, it, ev.Text)
	}
	return dst
}

// stopBlock notes that a block goes on no more. Its item is done when another begins, or the answer stops: only then it is known
// whether it is complete.
func (e *encoder) stopBlock(block int) {
	for _, it := range e.going {
		if it.kind == functionCall || it.kind == customCall {
			it.stopped = it.stopped || it.block == block
		}
	}
}

// close ends an item.
func (e *encoder) close(dst []byte, it *item) []byte {
	if it.closed {
		return dst
	}
	it.closed = true
	switch it.kind {
	case message, reasoning:
		dst = e.closePart(dst, it)
		it.sealUp()
	case functionCall:
		if len(bytes.TrimSpace(it.args)) == 0 {
			it.args = []byte("{}")
			dst = e.argsDelta(dst, it, it.args)
		}
		dst = e.argsDone(dst, it)
	case customCall:
		if !it.text {
			it.args = customText(it.args)
			dst = e.argsDelta(dst, it, it.args)
		}
		dst = e.argsDone(dst, it)
	case foreign:
	}
	return e.itemDone(dst, it)
}

// customText is the text inside the arguments of the function that stood in for a custom tool; arguments of another form are taken
// for the text.
func customText(args []byte) []byte {
	v, err := jsonx.Parse(args)
	if err != nil {
		return args
	}
	if t, ok := v.Get(customInput).Text(nil); ok {
		return bytes.Clone(t)
	}
	return args
}

// sealUp makes the encrypted_content of thinking that its provider signed.
func (it *item) sealUp() {
	for i := range it.parts {
		switch p := &it.parts[i]; {
		case it.seal != nil:
		case len(p.data) > 0:
			it.seal = seal(&chat.Part{Kind: chat.PartRedacted, Data: string(p.data)})
		case len(p.sign) > 0:
			it.seal = seal(&chat.Part{Kind: chat.PartThinking, Text: string(p.text), Signature: string(p.sign)})
		}
	}
}
