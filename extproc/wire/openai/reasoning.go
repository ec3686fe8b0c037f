package openai

import (
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// reasoning reads what a message says of the model's thinking: its text in a member of its own, and reasoning_details,
// OpenRouter's form, which also has the signatures that make a thought valid when it is sent back. Told in both, it
// counts once.
func (d *Decoder) reasoning(c *choice, n int, plain, details jsonx.Value) {
	if plain.IsNull() && details.IsNull() {
		return
	}
	together := says(plain)
	told := d.details(c, n, details, together || !c.thought.plain)
	if together && !told {
		c.thought.plain = true
		d.thought(c, n, plain, "", -1)
	}
}

// details reads reasoning_details: a string, or an array of typed objects. Their text is left out when it was told
// before, or by other means. It reports whether it told some.
func (d *Decoder) details(c *choice, n int, v jsonx.Value, text bool) (told bool) {
	if !says(v) {
		return false
	}
	raw := len(d.Events)
	d.Emit(chat.Event{Kind: chat.Extra, ID: reasoningDetails, Choice: n, Text: v.Raw}) // before what it repeats
	if text && v.Kind() == jsonx.String {
		told = d.thought(c, n, v, "", -1)
	}
	said := true
	for _, e := range v.Each {
		e := readDetail(e)
		c.thought.name(&e)
		if text {
			for _, t := range [...]jsonx.Value{e.text, e.summary} {
				told = d.thought(c, n, t, e.id(), e.index) || told
			}
		}
		said = d.opaque(c, n, &e, text) && said
	}
	d.Events[raw].Said = said
	return told
}

// detail is one object of reasoning_details.
type detail struct {
	index                          int64  // -1 if it has none
	format                         string // "" if it has none
	text, summary, signature, data jsonx.Value
}

// name gives a piece the format that an earlier one of the same index had.
func (r *reasoned) name(e *detail) {
	if e.format == "" && e.index == r.formatOf {
		e.format = r.format
	}
	r.format, r.formatOf = e.format, e.index
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

// formatName is the name of a format, without a copy of those that matter.
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

// otherFormat is any format but those of Anthropic, Google and OpenAI.
const otherFormat = "other"

// signed reports whether signature and data are Anthropic's, Google's or OpenAI's, or of nobody known. Those of others mean nothing to a
// client of another dialect, which would send them back as Anthropic's.
func (e *detail) signed() bool { return e.format != otherFormat }

// id is the ID of the events of this detail.
func (e *detail) id() string {
	if e.format == otherFormat {
		return ""
	}
	return e.format
}

// opaque tells what a detail holds besides text. It reports whether that was all: a signature belongs to text that was
// told, in the block that is open.
func (d *Decoder) opaque(c *choice, n int, e *detail, text bool) bool {
	all := true
	if says(e.signature) {
		if all = e.signed() && (text || c.open == chat.Thought); all {
			t := d.kept(e, e.signature)
			d.openThought(c, n, e.index)
			c.thought.signed = true
			d.Emit(chat.Event{Kind: chat.Signature, ID: e.signer(), Index: c.block, Choice: n, Text: t})
		}
	}
	if says(e.data) {
		if !e.signed() {
			return false
		}
		t := d.kept(e, e.data)
		d.openBlock(c, n, chat.Redacted)
		d.Emit(chat.Event{Kind: chat.Redacted, ID: e.signer(), Index: c.block, Choice: n, Text: t})
		d.closeBlock(c, n)
	}
	return all
}

// signer is the format of what a detail holds signed. Where none is said, it is Anthropic's.
func (e *detail) signer() string {
	if e.format == "" {
		return chat.ClaudeThinking
	}
	return e.format
}

// kept is a signature, or data, with its format's name where it has to be said.
func (d *Decoder) kept(e *detail, v jsonx.Value) []byte {
	t, _ := v.Text(&d.Arena)
	if e.signer() == chat.ClaudeThinking {
		return t
	}
	at := len(d.Arena)
	d.Arena = append(d.Arena, chat.Signed(e.format, string(t))...)
	return d.Arena[at:]
}

// thought emits a piece of reasoning. id and index are what reasoning_details say of its block; "" and -1 otherwise.
func (d *Decoder) thought(c *choice, n int, v jsonx.Value, id string, index int64) bool {
	t, ok := v.Text(&d.Arena)
	if !ok || len(t) == 0 {
		return false
	}
	d.openThought(c, n, index)
	ev := d.Next()
	ev.Kind, ev.ID, ev.Index, ev.Choice, ev.Text = chat.Thought, id, c.block, n, t
	return true
}

// openThought makes sure that a block of thinking is open which may go on: unsigned, and of the same index.
func (d *Decoder) openThought(c *choice, n int, index int64) {
	t := &c.thought
	if c.open == chat.Thought && !t.signed && (index < 0 || t.detail < 0 || t.detail == index) {
		t.detail = max(t.detail, index)
		return
	}
	d.openBlock(c, n, chat.Thought)
	t.detail, t.signed = index, false
}

// writesDetails reports whether an event is written in reasoning_details: the thinking of another dialect that may be
// signed. That of the same dialect is written in the provider's own words.
func (e *envelope) writesDetails(ev *chat.Event) bool { return !e.opts.Same && ev.ID != "" }

// reasoning writes a piece of thinking as text and, when it may be signed, also in reasoning_details, as OpenRouter
// does: pieces of one block have the same index, and its signature comes last. Only the first names the format, since
// OpenAI's SDKs join the strings of all pieces, but for type and index.
func (e *streamEncoder) reasoning(dst []byte, ev *chat.Event) []byte {
	if !e.writesDetails(ev) {
		switch {
		case ev.Kind != chat.Thought:
		case e.held.on:
			e.held.text = append(e.held.text, ev.Text...)
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
	n, isNew := e.detail.index(ev.Choice, ev.Index)
	var first detailHead
	if isNew {
		first = detailHead{ev.ID, *e.said.of(ev.Choice)}
	}
	dst = appendDetail(dst, ev.Kind, bare(ev), nil, first, n)
	return e.close(append(dst, ']'))
}

// held are reasoning_details in the provider's own words, until the text that they repeat is known: both stand in one
// chunk, so that clients do not count it twice.
type held struct {
	on            bool
	choice        int
	details, text []byte
}

func (e *streamEncoder) hold(ev *chat.Event) {
	h := &e.held
	h.on, h.choice = true, ev.Choice
	h.details, h.text = append(h.details[:0], ev.Text...), h.text[:0]
}

// release writes what is held, when an event comes that is not part of it.
func (e *streamEncoder) release(dst []byte, next *chat.Event) []byte {
	h := &e.held
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

// thought writes a piece of thinking as text.
func (e *streamEncoder) thought(dst []byte, ev *chat.Event) []byte {
	dst = e.begin(dst)
	if len(ev.Text) == 0 {
		return dst
	}
	dst = e.appendThoughtKey(e.delta(dst, ev.Choice))
	return e.close(jsonx.AppendString(dst, ev.Text))
}

// bare is an event's text without the name of the format of what it signs, which has a member of its own.
func bare(ev *chat.Event) []byte {
	if ev.Kind == chat.Thought || ev.ID == chat.ClaudeThinking {
		return ev.Text
	}
	_, text := chat.Signer(string(ev.Text))
	return []byte(text)
}

// detailHead is what only the first piece of a block says.
type detailHead struct {
	format string
	at     spot
}

// appendDetail appends one object of reasoning_details. sign belongs to a Thought that is whole.
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
	dst = first.at.appendMember(dst)
	dst = append(dst, `,"index":`...)
	return append(strconv.AppendInt(dst, int64(index), 10), '}')
}

// thinking is a block of reasoning_details that is gathered.
type thinking struct {
	kind chat.EventKind // Thought or Redacted
	detailHead
	text, sign []byte
}

// think adds an event to the block of its index, which begins at a place.
func (g *gathered) think(ev *chat.Event, index int, at spot) {
	for len(g.details) <= index {
		g.details = append(g.details, thinking{kind: chat.Thought, detailHead: detailHead{at: at}})
	}
	t := &g.details[index]
	t.format = ev.ID
	switch ev.Kind {
	case chat.Redacted:
		t.kind, t.text = chat.Redacted, append(t.text, bare(ev)...)
	case chat.Signature:
		t.sign = append(t.sign, bare(ev)...)
	default:
		t.text = append(t.text, ev.Text...)
	}
}

func (g *gathered) appendDetails(dst []byte) []byte {
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
