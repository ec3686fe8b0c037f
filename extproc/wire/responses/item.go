package responses

import (
	"bytes"
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// item is one output item of an answer.
type item struct {
	kind   itemKind
	index  int    // index in the output
	id     string // for the client
	status string // completed, or incomplete
	closed bool   // its done event was written

	parts   []part // of a message, or of reasoning
	stopped bool   // the provider completed the block
	block   int    // of a call: the index of its chat events
	call    chat.ToolCall
	group   string // of a call: the tool's namespace; "" for none
	args    []byte
	text    bool   // the arguments of a custom call arrive as text, not as an object
	seal    []byte // of reasoning: its encrypted_content
	whole   []byte // of another kind: its JSON
	phase   []byte // of a message: its JSON
	image   wire.Picture
}

type itemKind uint8

const (
	message itemKind = iota
	reasoning
	functionCall
	customCall
	picture // of another dialect
	foreign // of this dialect only
)

// part is a part of a message's content, of a reasoning summary, or of reasoning_text.
type part struct {
	kind     chat.EventKind // Text, Refusal or Thought
	block    int            // index of its chat events
	raw      bool           // of a Thought: reasoning_text
	place    int            // index in its member
	closed   bool
	text     []byte
	sign     []byte   // of a Thought
	data     []byte   // of redacted thinking
	notes    [][]byte // annotations
	logprobs [][]byte
}

// ownReasoning is the prefix of the ids of reasoning items that the gateway wrote, which providers do not know.
const ownReasoning = chat.OwnReasoning

// add starts an item. Items before it that cannot continue are completed.
func (e *encoder) add(dst []byte, it *item) ([]byte, *item) {
	dst = e.begin(dst)
	stillOpen := e.open[:0]
	for _, o := range e.open {
		if o.stopped || o.kind == message || o.kind == reasoning {
			dst = e.close(dst, o)
			continue
		}
		stillOpen = append(stillOpen, o)
	}
	stillOpen = append(stillOpen, it)
	e.open = stillOpen
	it.index, it.status = len(e.items), completed
	if it.id = e.next.id; it.id == "" || it.kind == foreign {
		it.id = it.kind.prefix() + e.ownID() + "_" + strconv.Itoa(it.index)
	}
	it.phase = e.next.phase
	e.next = blockAttributes{}
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
	case picture:
		return chat.OwnPicture
	case message, foreign:
	}
	return "msg_"
}

// last returns the last item if it is open and of this kind; else nil.
func (e *encoder) last(kind itemKind) *item {
	n := len(e.items)
	if n == 0 || e.items[n-1].closed || e.items[n-1].kind != kind || e.next.id != "" && e.next.id != e.items[n-1].id {
		return nil
	}
	return e.items[n-1]
}

// text adds text to the open message, or to a new one.
func (e *encoder) text(dst []byte, ev *chat.Event) []byte {
	if len(ev.Text) == 0 {
		return dst
	}
	dst, it, p := e.content(dst, ev)
	p.text = append(p.text, ev.Text...)
	return e.delta(dst, it, len(it.parts)-1, ev.Text)
}

// content returns the part of a message to which an event belongs, and starts one if necessary.
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
	e.next = blockAttributes{}
	if n := len(it.parts); n > 0 && !it.parts[n-1].closed && it.parts[n-1].kind == kind && it.parts[n-1].block == ev.Index {
		return dst, it, &it.parts[n-1]
	}
	dst = e.closePart(dst, it)
	it.parts = append(it.parts, part{kind: kind, block: ev.Index, place: len(it.parts)})
	return e.partAdded(dst, it), it, &it.parts[len(it.parts)-1]
}

// think adds to a block of thinking. Each block is a separate item, unless the provider's ids group them.
func (e *encoder) think(dst []byte, ev *chat.Event) []byte {
	if ev.Kind != chat.Thought && ev.ID == "" && !e.opts.Same {
		e.Degrade("signature")
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
			p.place = it.textParts(p.raw)
			dst = e.partAdded(dst, it)
		}
		p.text = append(p.text, ev.Text...)
		return e.delta(dst, it, len(it.parts)-1, ev.Text)
	}
	return dst
}

// textParts counts the parts of reasoning that have text.
func (it *item) textParts(raw bool) (n int) {
	for i := range it.parts {
		if it.parts[i].raw == raw && len(it.parts[i].text) > 0 {
			n++
		}
	}
	return n
}

// thought returns the block of thinking to which an event belongs, and starts one if necessary.
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
	e.next = blockAttributes{}
	dst = e.closePart(dst, it)
	it.parts = append(it.parts, part{kind: chat.Thought, block: ev.Index, raw: raw})
	return dst, it, &it.parts[len(it.parts)-1]
}

// call starts a tool call.
func (e *encoder) call(dst []byte, ev *chat.Event) []byte {
	kind := functionCall
	if ev.ID == chat.CustomTool || e.custom[ev.Tool.Name] {
		kind = customCall
	}
	it := &item{kind: kind, block: ev.Index, call: chat.ToolCall{ID: ev.Tool.ID, Name: ev.Tool.Name}, group: e.namespaces[ev.Tool.Name], text: ev.ID == chat.CustomTool}
	dst, it = e.add(dst, it)
	return e.itemAdded(dst, it)
}

// args continues a call. The argument of a custom tool that arrives as an object is written when it is complete.
func (e *encoder) args(dst []byte, ev *chat.Event) []byte {
	for _, it := range slices.Backward(e.open) {
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

// stopBlock marks a call as complete. Its done event is written when another item starts or the answer stops, because its status is not
// known before.
func (e *encoder) stopBlock(block int) {
	for _, it := range e.open {
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
		it.sealThinking()
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
	case picture:
		dst = e.pictureEvent(dst, "response.image_generation_call.completed", it)
	case foreign:
	}
	return e.itemDone(dst, it)
}

// customText extracts the text from the arguments of the function that replaces a custom tool; other arguments are themselves the text.
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

// sealThinking sets the encrypted_content of signed thinking.
func (it *item) sealThinking() {
	for i := range it.parts {
		switch p := &it.parts[i]; {
		case it.seal != nil:
		case len(p.data) > 0:
			it.seal = wire.Seal(&chat.Part{Kind: chat.PartRedacted, Data: string(p.data)})
		case len(p.sign) > 0:
			it.seal = wire.Seal(&chat.Part{Kind: chat.PartThinking, Text: string(p.text), Signature: string(p.sign)})
		}
	}
}
