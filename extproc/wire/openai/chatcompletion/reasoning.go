package chatcompletion

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// reasoning reads a message's thinking: as text in a separate member, and in reasoning_details, OpenRouter's format, which also has the
// signatures without which a provider refuses thinking that is sent back. Thinking in both is emitted once.
func (d *Decoder) reasoning(c *choice, n int, plain, details jsonx.Value) {
	if plain.IsNull() && details.IsNull() {
		return
	}
	together := !wire.IsEmpty(plain)
	emitted := d.details(c, n, details, together || !c.reasoning.plain)
	if together && !emitted {
		c.reasoning.plain = true
		d.thought(c, n, plain, "", -1)
	}
}

// details reads reasoning_details: a string, or an array of typed objects. text is false if their text was emitted before. It reports whether
// it emitted text.
func (d *Decoder) details(c *choice, n int, v jsonx.Value, text bool) (emitted bool) {
	if wire.IsEmpty(v) {
		return false
	}
	raw := len(d.Events)
	d.Emit(chat.Event{Kind: chat.Extra, ID: reasoningDetails, Choice: n, Text: v.Raw}) // before the events that repeat it
	if text && v.Kind() == jsonx.String {
		emitted = d.thought(c, n, v, "", -1)
	}
	complete := true
	for _, e := range v.Each {
		e := readDetail(e)
		c.reasoning.inheritFormat(&e)
		if text {
			for _, t := range [...]jsonx.Value{e.text, e.summary} {
				emitted = d.thought(c, n, t, e.id(), e.index) || emitted
			}
		}
		complete = d.emitSigned(c, n, &e, text) && complete
	}
	d.Events[raw].Redundant = complete
	return emitted
}

// detail is one object of reasoning_details.
type detail struct {
	index                          int64  // -1 if it has none
	format                         string // "" if it has none
	text, summary, signature, data jsonx.Value
}

// inheritFormat sets a piece's format to that of an earlier piece with the same index.
func (r *reasoningState) inheritFormat(e *detail) {
	if e.format == "" && e.index == r.formatIndex {
		e.format = r.format
	}
	r.format, r.formatIndex = e.format, e.index
}

func readDetail(v jsonx.Value) detail {
	e := detail{index: -1}
	for key, m := range v.Members {
		switch string(key) {
		case "index":
			if n, ok := m.Int(); ok {
				e.index = n
			}
		case "format":
			e.format = formatName(m)
		case "text":
			e.text = m
		case "summary":
			e.summary = m
		case "signature":
			e.signature = m
		case "data":
			e.data = m
		}
	}
	return e
}

// formatName returns the name of a format, without allocating for the known ones.
func formatName(v jsonx.Value) string {
	switch {
	case v.Equal(chat.ClaudeThinking):
		return chat.ClaudeThinking
	case v.Equal(chat.GeminiThinking):
		return chat.GeminiThinking
	case v.Equal(chat.ResponsesThinking):
		return chat.ResponsesThinking
	case v.IsNull() || v.Equal("unknown"):
		return ""
	}
	return otherFormat
}

// otherFormat stands for any format except those of Anthropic, Google and OpenAI.
const otherFormat = "other"

// signed reports whether signature and data are Anthropic's, Google's or OpenAI's, or have no format. A client of another dialect would send
// others back as Anthropic's.
func (e *detail) signed() bool { return e.format != otherFormat }

// id returns the ID of this detail's events.
func (e *detail) id() string {
	if e.format == otherFormat {
		return ""
	}
	return e.format
}

// emitSigned emits the signature and the data of a detail. It reports whether the events express the whole detail: a signature belongs to
// the text of the open block.
func (d *Decoder) emitSigned(c *choice, n int, e *detail, text bool) bool {
	all := true
	if !wire.IsEmpty(e.signature) {
		if all = e.signed() && (text || c.open.Kind == chat.Thought); all {
			t := d.signedText(e, e.signature)
			d.openThought(c, n, e.index)
			c.reasoning.signed = true
			d.Emit(chat.Event{Kind: chat.Signature, ID: e.signer(), Index: c.open.Index, Choice: n, Text: t})
		}
	}
	if !wire.IsEmpty(e.data) {
		if !e.signed() {
			return false
		}
		t := d.signedText(e, e.data)
		d.OpenBlock(&c.open, n, chat.Redacted)
		d.Emit(chat.Event{Kind: chat.Redacted, ID: e.signer(), Index: c.open.Index, Choice: n, Text: t})
		d.CloseBlock(&c.open, n)
	}
	return all
}

// signer returns the format of the signature and the data. The default is Anthropic's.
func (e *detail) signer() string {
	if e.format == "" {
		return chat.ClaudeThinking
	}
	return e.format
}

// signedText returns a signature, or data, with the name of its format, unless that is Anthropic's.
func (d *Decoder) signedText(e *detail, v jsonx.Value) []byte {
	t, _ := v.Text(&d.Arena)
	if e.signer() == chat.ClaudeThinking {
		return t
	}
	at := len(d.Arena)
	d.Arena = append(d.Arena, chat.Signed(e.format, string(t))...)
	return d.Arena[at:]
}

// thought emits thinking. id and index are those of its object in reasoning_details; "" and -1 otherwise.
func (d *Decoder) thought(c *choice, n int, v jsonx.Value, id string, index int64) bool {
	t, ok := v.Text(&d.Arena)
	if !ok || len(t) == 0 {
		return false
	}
	d.openThought(c, n, index)
	ev := d.Next()
	ev.Kind, ev.ID, ev.Index, ev.Choice, ev.Text = chat.Thought, id, c.open.Index, n, t
	return true
}

// openThought opens a block of thinking, unless the open one can continue: it is unsigned, and has the same index.
func (d *Decoder) openThought(c *choice, n int, index int64) {
	t := &c.reasoning
	if c.open.Kind == chat.Thought && !t.signed && (index < 0 || t.detail < 0 || t.detail == index) {
		t.detail = max(t.detail, index)
		return
	}
	d.OpenBlock(&c.open, n, chat.Thought)
	t.detail, t.signed = index, false
}

// writesDetails reports whether an event is written in reasoning_details: another dialect's thinking that may be signed. Thinking of the
// same dialect is written as the provider's own JSON.
func (e *envelope) writesDetails(ev *chat.Event) bool { return !e.opts.Same && ev.ID != "" }

// reasoning writes thinking as text and, if it may be signed, also in reasoning_details, as OpenRouter does: pieces of one block have the
// same index, and the signature comes last. Only the first piece names the format, since OpenAI's SDKs concatenate the strings of all pieces,
// except type and index.
func (e *streamEncoder) reasoning(dst []byte, ev *chat.Event) []byte {
	if !e.writesDetails(ev) {
		switch {
		case ev.Kind != chat.Thought:
		case e.pending.on:
			e.pending.text = append(e.pending.text, ev.Text...)
		default:
			return e.thought(dst, ev)
		}
		return dst
	}
	dst = e.delta(e.begin(dst), ev.Choice)
	if ev.Kind == chat.Thought {
		dst = append(jsonx.AppendString(append(dst, `"reasoning_content":`...), ev.Text), ',')
	}
	dst = append(dst, `"reasoning_details":[`...)
	n, isNew := e.detailNumbers.index(ev.Choice, ev.Index)
	var first detailHead
	if isNew {
		first = detailHead{ev.ID, *e.written.of(ev.Choice)}
	}
	dst = appendDetail(dst, ev.Kind, withoutFormat(ev), nil, first, n)
	return e.close(append(dst, ']'))
}

// pendingDetails are the provider's own reasoning_details, held until the text that they repeat is complete. Both are written in one chunk,
// so that clients do not count the text twice.
type pendingDetails struct {
	on            bool
	choice        int
	details, text []byte
}

func (e *streamEncoder) holdDetails(ev *chat.Event) {
	h := &e.pending
	h.on, h.choice = true, ev.Choice
	h.details, h.text = append(h.details[:0], ev.Text...), h.text[:0]
}

// release writes the pending details if the next event is not part of them.
func (e *streamEncoder) release(dst []byte, next *chat.Event) []byte {
	h := &e.pending
	switch next.Kind { //nolint:exhaustive // anything else ends it
	case chat.Thought, chat.Signature, chat.Redacted, chat.BlockStop:
		return dst
	}
	h.on = false
	dst = e.delta(e.begin(dst), h.choice)
	if len(h.text) > 0 {
		dst = append(jsonx.AppendString(e.appendThoughtKey(dst), h.text), ',')
	}
	dst = wire.AppendLine(append(dst, `"reasoning_details":`...), h.details)
	return e.close(dst)
}

// thought writes thinking as text.
func (e *streamEncoder) thought(dst []byte, ev *chat.Event) []byte {
	dst = e.begin(dst)
	if len(ev.Text) == 0 {
		return dst
	}
	dst = e.appendThoughtKey(e.delta(dst, ev.Choice))
	return e.close(jsonx.AppendString(dst, ev.Text))
}

// withoutFormat returns an event's text without the name of its signature's format, which is a separate member.
func withoutFormat(ev *chat.Event) []byte {
	if ev.Kind == chat.Thought || ev.ID == chat.ClaudeThinking {
		return ev.Text
	}
	_, text := chat.Signer(string(ev.Text))
	return []byte(text)
}

// detailHead is what only the first piece of a block has.
type detailHead struct {
	format string
	at     Spot
}

// appendDetail appends one object of reasoning_details. sign is the signature of a whole Thought.
func appendDetail(dst []byte, kind chat.EventKind, text, sign []byte, first detailHead, index int) []byte {
	switch kind {
	case chat.Redacted:
		dst = append(dst, `{"type":"reasoning.encrypted","data":`...)
	case chat.Signature:
		dst = append(dst, `{"type":"reasoning.text","signature":`...)
	default:
		dst = append(dst, `{"type":"reasoning.text","text":`...)
	}
	dst = jsonx.AppendString(dst, text)
	if len(sign) > 0 {
		dst = jsonx.AppendString(append(dst, `,"signature":`...), sign)
	}
	if first.format != "" {
		dst = append(append(append(dst, `,"format":"`...), first.format...), '"')
	}
	dst = first.at.appendID(dst)
	dst = append(dst, `,"index":`...)
	return append(strconv.AppendInt(dst, int64(index), 10), '}')
}

// detailBlock is a block of reasoning_details.
type detailBlock struct {
	kind chat.EventKind // Thought or Redacted
	detailHead
	text, sign []byte
}

// addDetail adds an event to the block with this index, which starts at a position.
func (g *choiceContent) addDetail(ev *chat.Event, index int, at Spot) {
	for len(g.details) <= index {
		g.details = append(g.details, detailBlock{kind: chat.Thought, detailHead: detailHead{at: at}})
	}
	t := &g.details[index]
	t.format = ev.ID
	switch ev.Kind {
	case chat.Redacted:
		t.kind, t.text = chat.Redacted, append(t.text, withoutFormat(ev)...)
	case chat.Signature:
		t.sign = append(t.sign, withoutFormat(ev)...)
	default:
		t.text = append(t.text, ev.Text...)
	}
}

func (g *choiceContent) appendDetails(dst []byte) []byte {
	for i := range g.details {
		t := &g.details[i]
		if i == 0 {
			dst = append(dst, `,"reasoning_details":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendDetail(dst, t.kind, t.text, t.sign, t.detailHead, i)
	}
	if len(g.details) > 0 {
		dst = append(dst, ']')
	}
	return dst
}
