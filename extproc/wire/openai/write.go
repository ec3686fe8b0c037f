package openai

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Names of what this format cannot say, besides the client's own names of members.
const (
	lostThinking = "thinking"
	lostTopK     = "top_k"
	lostUser     = "user"
	lostEffort   = "effort"
	lostImage    = "image"
	lostDocument = "document"
)

// maxUser is how long OpenAI lets a user's name be.
const maxUser = 64

// writer writes a conversation of another dialect as a Chat Completions request. The order of members is fixed, so that
// the same request gives the same bytes and keeps a provider's prompt cache.
type writer struct {
	dst      []byte
	req      *chat.Request
	conv     *chat.Conversation
	opts     RequestOptions
	degraded []string
	images   []chat.Part // of tool results, waiting for the next turn of the user
	inArray  bool        // an element was written before
}

func (w *writer) lose(name string) {
	if !slices.Contains(w.degraded, name) {
		w.degraded = append(w.degraded, name)
	}
}

func (w *writer) raw(s string)     { w.dst = append(w.dst, s...) }
func (w *writer) str(s string)     { w.dst = jsonx.AppendString(w.dst, s) }
func (w *writer) json(r jsonx.Raw) { w.dst = append(w.dst, r...) }
func (w *writer) integer(n int)    { w.dst = strconv.AppendInt(w.dst, int64(n), 10) }
func (w *writer) key(name string)  { w.raw(`,"`); w.raw(name); w.raw(`":`) }
func (w *writer) openArray()       { w.raw("["); w.inArray = false }

// element puts the comma between elements of an array whose elements write no arrays themselves in between.
func (w *writer) element() {
	if w.inArray {
		w.dst = append(w.dst, ',')
	}
	w.inArray = true
}

func (w *writer) request() {
	w.raw(`{"model":`)
	w.str(w.opts.Model)
	w.messages()
	w.tools()
	w.params()
	if w.req.Stream {
		w.raw(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.raw("}")
	for _, name := range w.conv.Unmapped {
		w.lose(name)
	}
}

func (w *writer) messages() {
	w.key("messages")
	w.raw("[")
	start := len(w.dst)
	if len(w.conv.System) > 0 {
		w.message("system")
		w.text(w.conv.System, "\n\n")
		w.raw("}")
	}
	for i := range w.conv.Messages {
		w.turn(&w.conv.Messages[i])
	}
	w.flushImages(nil)
	if len(w.dst) > start { // every message begins with a comma; the first must not
		w.dst = slices.Delete(w.dst, start, start+1)
	}
	w.raw("]")
}

// message opens a message up to its content.
func (w *writer) message(role string) {
	w.raw(`,{"role":"`)
	w.raw(role)
	w.raw(`","content":`)
}

// text writes parts as one string.
func (w *writer) text(parts []chat.Part, between string) {
	w.raw(`"`)
	written := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != chat.PartText {
			w.loseAs(p)
			continue
		}
		if written {
			w.dst = jsonx.AppendEscaped(w.dst, between)
		}
		w.dst = jsonx.AppendEscaped(w.dst, p.Text)
		written = true
	}
	w.raw(`"`)
}

// loseAs names a part that cannot be said where it stands.
func (w *writer) loseAs(p *chat.Part) {
	switch p.Kind {
	case chat.PartThinking, chat.PartRedacted:
		w.lose(lostThinking)
	case chat.PartImage:
		w.lose(lostImage)
	case chat.PartDocument:
		w.lose(lostDocument)
	case chat.PartOther:
		kind, _ := jsonx.Value{Raw: p.Raw}.Get("type").Str()
		w.lose(kind)
	case chat.PartText, chat.PartToolUse, chat.PartToolResult, chat.PartRefusal:
		w.lose("content")
	}
}

func (w *writer) turn(m *chat.Message) {
	switch m.Role {
	case chat.RoleAssistant:
		w.flushImages(nil)
		w.assistant(m.Parts)
	case chat.RoleSystem:
		w.flushImages(nil)
		w.message("system")
		w.text(m.Parts, "\n\n")
		w.raw("}")
	case chat.RoleUser, chat.RoleTool:
		w.user(m.Parts)
	}
}

// user writes the tool results of a turn first, because they must follow their calls, and then what the user says.
func (w *writer) user(parts []chat.Part) {
	rest := parts
	for i := range parts {
		if parts[i].Kind == chat.PartToolResult {
			rest = slices.DeleteFunc(slices.Clone(parts), func(p chat.Part) bool { return p.Kind == chat.PartToolResult })
			break
		}
	}
	for i := range parts {
		if parts[i].Kind == chat.PartToolResult {
			w.toolResult(&parts[i])
		}
	}
	if len(rest) > 0 {
		w.flushImages(rest)
	}
}

// toolResult writes a result as the message of role tool, which holds text alone. Its images wait for the next turn of
// the user, since nothing may stand between the results of one turn. There is no flag for a failed call, so its text
// says it.
func (w *writer) toolResult(p *chat.Part) {
	w.raw(`,{"role":"tool","tool_call_id":`)
	w.str(p.Tool.ID)
	w.raw(`,"content":"`)
	if p.IsError {
		w.raw("Error: ")
	}
	written := false
	for i := range p.Parts {
		e := &p.Parts[i]
		switch e.Kind {
		case chat.PartText:
			if written {
				w.raw(`\n`)
			}
			w.dst = jsonx.AppendEscaped(w.dst, e.Text)
			written = true
		case chat.PartImage, chat.PartDocument:
			w.images = append(w.images, *e)
		case chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal, chat.PartOther:
			w.loseAs(e)
		}
	}
	w.raw(`"}`)
}

// flushImages writes a message of the user: what tools showed before it, and its own parts. Without either it writes
// nothing.
func (w *writer) flushImages(parts []chat.Part) {
	waiting := w.images
	w.images = nil
	if len(waiting)+len(parts) == 0 {
		return
	}
	w.message("user")
	if len(waiting) == 0 && len(parts) == 1 && parts[0].Kind == chat.PartText {
		w.str(parts[0].Text)
		w.raw("}")
		return
	}
	start := len(w.dst)
	w.openArray()
	if len(waiting) > 0 {
		w.part(&chat.Part{Kind: chat.PartText, Text: "What the tools returned:"})
	}
	for i := range waiting {
		w.part(&waiting[i])
	}
	for i := range parts {
		w.part(&parts[i])
	}
	if !w.inArray {
		w.dst = append(w.dst[:start], `""`...)
	} else {
		w.raw("]")
	}
	w.raw("}")
}

func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.PartText:
		w.element()
		w.raw(`{"type":"text","text":`)
		w.str(p.Text)
		w.raw("}")
	case chat.PartImage:
		w.element()
		w.raw(`{"type":"image_url","image_url":{"url":"`)
		w.url(p)
		w.raw(`"}}`)
	case chat.PartDocument:
		w.document(p)
	case chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal, chat.PartOther:
		w.loseAs(p)
	}
}

// document writes a file with its bytes, or a document that is text as text. A document that only a URL tells cannot be
// sent, so the model is told where it is.
func (w *writer) document(p *chat.Part) {
	if p.Data != "" {
		w.element()
		w.raw(`{"type":"file","file":{"filename":`)
		w.str(fileName(p))
		w.raw(`,"file_data":"`)
		w.url(p)
		w.raw(`"}}`)
		return
	}
	text := p.Text
	if text == "" {
		w.lose(lostDocument)
		text = p.URL
	}
	if p.Name != "" {
		text = p.Name + "\n\n" + text
	}
	w.part(&chat.Part{Kind: chat.PartText, Text: text})
}

func fileName(p *chat.Part) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Media == "application/pdf":
		return "document.pdf"
	}
	return "document"
}

// url writes where a part's bytes are, inside a JSON string.
func (w *writer) url(p *chat.Part) {
	if p.Data == "" {
		w.dst = jsonx.AppendEscaped(w.dst, p.URL)
		return
	}
	w.raw("data:")
	w.dst = jsonx.AppendEscaped(w.dst, p.Media)
	w.raw(";base64,")
	w.dst = jsonx.AppendEscaped(w.dst, p.Data)
}

// assistant writes a turn of the model. Its text is one string, unseparated: citations cut text inside sentences.
// Thinking is not sent back, for this format has no place for signatures. A turn of which nothing is left is left out.
func (w *writer) assistant(parts []chat.Part) {
	var said []chat.Part
	var calls, refusals int
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case chat.PartText:
			said = append(said, *p)
		case chat.PartToolUse:
			calls++
		case chat.PartRefusal:
			refusals++
		case chat.PartImage, chat.PartDocument, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartOther:
			w.loseAs(p)
		}
	}
	if len(said)+calls+refusals == 0 {
		return
	}
	w.message("assistant")
	if len(said) > 0 {
		w.text(said, "")
	} else {
		w.raw("null")
	}
	if refusals > 0 {
		w.refusal(parts)
	}
	if calls > 0 {
		w.toolCalls(parts)
	}
	w.raw("}")
}

func (w *writer) refusal(parts []chat.Part) {
	w.key("refusal")
	w.raw(`"`)
	for i := range parts {
		if parts[i].Kind == chat.PartRefusal {
			w.dst = jsonx.AppendEscaped(w.dst, parts[i].Text)
		}
	}
	w.raw(`"`)
}

func (w *writer) toolCalls(parts []chat.Part) {
	w.key("tool_calls")
	w.openArray()
	for i := range parts {
		if parts[i].Kind != chat.PartToolUse {
			continue
		}
		call := &parts[i].Tool
		w.element()
		w.raw(`{"id":`)
		w.str(call.ID)
		w.raw(`,"type":"function","function":{"name":`)
		w.str(call.Name)
		w.raw(`,"arguments":`)
		w.str(call.Args)
		w.raw("}}")
	}
	w.raw("]")
}
