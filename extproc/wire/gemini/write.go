package gemini

import (
	"encoding/base64"
	"path"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a generateContent request. The order of members is fixed, so that the same
// request gives the same bytes and keeps the provider's prompt cache.
type writer struct {
	dst      []byte
	req      *chat.Request
	conv     *chat.Conversation
	opts     RequestOptions
	turns    []turn
	degraded []string

	soleSystem bool // the system prompt is said as the user's turn
	inArray    bool // an element was written before

	said      chat.Params // what the client and its profile ask for, as far as the API takes it
	maxTokens int
	choice    chat.ToolChoice
	searches  bool // the model may search the web
	validated bool // functions are checked against their schemas
	thinking  thinkingPlan
}

// lose names what this format cannot say, in the client's own word. name is the canonical one.
func (w *writer) lose(name string) { w.name(w.conv.Word(name)) }

// name names a loss, once.
func (w *writer) name(word string) { w.degraded = wire.Named(w.degraded, word) }

func (w *writer) raw(s string)     { w.dst = append(w.dst, s...) }
func (w *writer) str(s string)     { w.dst = jsonx.AppendString(w.dst, s) }
func (w *writer) integer(n int)    { w.dst = strconv.AppendInt(w.dst, int64(n), 10) }
func (w *writer) key(name string)  { w.raw(`,"` + name + `":`) }
func (w *writer) json(r jsonx.Raw) { w.dst = append(w.dst, r...) }
func (w *writer) openArray()       { w.raw("["); w.inArray = false }

// element puts the comma between elements of an array whose elements write no arrays themselves in between.
func (w *writer) element() {
	if w.inArray {
		w.raw(",")
	}
	w.inArray = true
}

func (w *writer) request() {
	w.raw(`{"contents":[`)
	for i := range w.turns {
		if i > 0 {
			w.raw(",")
		}
		w.turn(&w.turns[i])
	}
	w.raw("]")
	w.system()
	w.tools()
	w.config()
	if w.said.ServiceTier == chat.TierStandard {
		w.raw(`,"serviceTier":"standard"`)
	}
	w.raw("}")
	for _, name := range w.conv.Unmapped {
		w.name(name)
	}
}

func (w *writer) system() {
	if w.soleSystem {
		return
	}
	n := 0
	for i := range w.conv.System {
		p := &w.conv.System[i]
		if p.CacheControl != nil {
			w.lose("cache_control")
		}
		switch {
		case p.Kind != chat.PartText && p.Kind != chat.PartRefusal:
			w.losePart(p)
			continue
		case strings.TrimSpace(p.Text) == "":
			continue
		case n == 0:
			w.raw(`,"systemInstruction":{"parts":[`)
		default:
			w.raw(",")
		}
		n++
		w.raw(`{"text":`)
		w.str(p.Text)
		w.raw("}")
	}
	if n > 0 {
		w.raw("]}")
	}
}

func (w *writer) turn(t *turn) {
	if t.model {
		w.raw(`{"role":"model","parts":`)
	} else {
		w.raw(`{"role":"user","parts":`)
	}
	w.openArray()
	var shown []chat.Part // by tools
	for i := range t.results {
		shown = w.result(&t.results[i], shown)
	}
	for i := range shown {
		w.part(&shown[i], "")
	}
	w.parts(t.parts)
	w.raw("]}")
}

// parts writes parts, each with the signature that a redacted part beside it holds: one before a call is the call's, any other belongs to
// the text before it. The first call of a turn of the model must have one.
func (w *writer) parts(parts []chat.Part) {
	signed := false // the turn's first call was written
	for i := 0; i < len(parts); i++ {
		p, sign := &parts[i], ""
		switch {
		case p.Kind == chat.PartRedacted && kindAt(parts, i+1) == chat.PartToolUse:
			i++
			sign, p = written(p.Data, true), &parts[i]
		case p.Kind == chat.PartRedacted:
			w.element()
			w.raw(`{"text":"","thoughtSignature":`)
			w.str(written(p.Data, true))
			w.raw("}")
			continue
		case p.Kind == chat.PartText && kindAt(parts, i+1) == chat.PartRedacted && kindAt(parts, i+2) != chat.PartToolUse:
			i++
			sign = written(parts[i].Data, true)
		case p.Kind == chat.PartToolUse && !signed:
			sign = unsignedCall
		}
		signed = signed || p.Kind == chat.PartToolUse
		w.part(p, sign)
	}
}

// kindAt is the kind of a part; PartOther behind the last, which no turn here has.
func kindAt(parts []chat.Part, i int) chat.PartKind {
	if i < len(parts) {
		return parts[i].Kind
	}
	return chat.PartOther
}

// part writes one part, with a signature if there is one.
func (w *writer) part(p *chat.Part, sign string) {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		w.element()
		w.raw(`{"text":`)
		w.str(p.Text)
	case chat.PartImage:
		w.element()
		w.file(p)
	case chat.PartDocument:
		w.document(p)
		return
	case chat.PartToolUse:
		w.element()
		w.call(&p.Tool)
	case chat.PartThinking:
		w.element()
		w.raw(`{"text":`)
		w.str(p.Text)
		w.raw(`,"thought":true`)
		sign = written(p.Signature, false)
	case chat.PartToolResult, chat.PartRedacted, chat.PartOther:
		w.losePart(p)
		return
	}
	if sign != "" {
		w.key("thoughtSignature")
		w.str(sign)
	}
	w.raw("}")
}

func (w *writer) call(c *chat.ToolCall) {
	w.raw(`{"functionCall":{"id":`)
	w.str(c.ID)
	w.key("name")
	w.str(c.Name)
	w.key("args")
	w.dst = appendArgs(w.dst, []byte(c.Args))
	w.raw("}")
}

// appendArgs appends a call's arguments as the object that this format has for them. A text that is none, as of a call that was cut
// off, is kept inside one.
func appendArgs(dst, args []byte) []byte {
	v, err := jsonx.Parse(args)
	switch {
	case err == nil && v.Kind() == jsonx.Object:
		return wire.AppendLine(dst, v.Raw)
	case len(strings.TrimSpace(string(args))) == 0:
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"INVALID_JSON":`...)
	return append(jsonx.AppendString(dst, args), '}')
}

// result writes what a tool returned: its text. What it showed besides waits for the end of the results.
func (w *writer) result(p *chat.Part, shown []chat.Part) []chat.Part {
	var texts []string
	for i := range p.Parts {
		e := &p.Parts[i]
		if e.CacheControl != nil {
			w.lose("cache_control")
		}
		switch {
		case e.Kind == chat.PartText || e.Kind == chat.PartRefusal:
			texts = append(texts, e.Text)
		case e.Kind == chat.PartDocument && e.Text != "":
			texts = append(texts, documentText(e))
		case e.Kind == chat.PartImage, e.Kind == chat.PartDocument:
			shown = append(shown, *e)
		default:
			w.losePart(e)
		}
	}
	w.element()
	w.raw(`{"functionResponse":{"id":`)
	w.str(p.Tool.ID)
	w.key("name")
	w.str(p.Tool.Name)
	w.key("response")
	switch text := strings.Join(texts, "\n"); {
	case p.IsError && text == "":
		w.raw(`{"error":"Error"}`)
	case p.IsError:
		w.raw(`{"error":`)
		w.str(text)
		w.raw("}")
	case text == "":
		w.raw("{}")
	default:
		w.raw(`{"output":`)
		w.str(text)
		w.raw("}")
	}
	w.raw("}}")
	return shown
}

// file writes where a part's bytes are, up to the part's end.
func (w *writer) file(p *chat.Part) {
	if p.Data != "" {
		w.raw(`{"inlineData":{"mimeType":`)
		w.str(mediaType(p))
		w.key("data")
		w.str(p.Data)
		w.raw("}")
		return
	}
	w.raw(`{"fileData":{"mimeType":`)
	w.str(mediaType(p))
	w.key("fileUri")
	w.str(p.URL)
	w.raw("}")
}

// document writes a document: text as text, and what is said about it before it.
func (w *writer) document(p *chat.Part) {
	text := p.Text
	if p.Data != "" && isTextMedia(p.Media) {
		if b, err := base64.StdEncoding.DecodeString(p.Data); err == nil {
			text = string(b)
		}
	}
	if text != "" {
		said := *p
		said.Text = text
		w.part(&chat.Part{Kind: chat.PartText, Text: documentText(&said)}, "")
		return
	}
	if title := documentText(&chat.Part{Name: p.Name, Context: p.Context}); title != "" {
		w.part(&chat.Part{Kind: chat.PartText, Text: title}, "")
	}
	w.element()
	w.file(p)
	w.raw("}")
}

func isTextMedia(media string) bool {
	return media == "application/json" || media == "application/xml" || strings.HasPrefix(media, "text/")
}

// mediaType is a part's media type. One that the client left out is told by the first bytes, or by the URL's ending.
func mediaType(p *chat.Part) string {
	switch {
	case p.Media == "image/jpg":
		return "image/jpeg"
	case p.Media != "":
		return p.Media
	}
	for _, known := range [...]struct{ begins, ends, media string }{
		{"iVBOR", ".png", "image/png"},
		{"/9j/", ".jpg", "image/jpeg"},
		{"R0lG", ".gif", "image/gif"},
		{"UklG", ".webp", "image/webp"},
		{"JVBE", ".pdf", "application/pdf"},
	} {
		url, _, _ := strings.Cut(p.URL, "?")
		if p.Data != "" && strings.HasPrefix(p.Data, known.begins) || p.Data == "" && strings.EqualFold(path.Ext(url), known.ends) {
			return known.media
		}
	}
	switch {
	case p.Kind == chat.PartImage:
		return "image/jpeg"
	case p.Data == "":
		return "application/pdf"
	}
	return "application/octet-stream"
}
