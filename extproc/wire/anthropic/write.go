package anthropic

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a Messages request. The order of members is fixed, so that the
// same request gives the same bytes and keeps the provider's prompt cache.
type writer struct {
	dst      []byte
	req      *chat.Request
	conv     *chat.Conversation
	opts     RequestOptions
	turns    []turn
	degraded []string

	soleSystem bool // the system prompt is said as the user's turn
	plan
	prompt  []chat.Part // the system prompt
	offered []chat.Tool
}

// lose names what this format cannot say, in the client's own word. name is the canonical one.
func (w *writer) lose(name string) { w.name(w.conv.Word(name)) }

// name names a loss, once.
func (w *writer) name(word string) {
	w.degraded = wire.Named(w.degraded, word)
}

func (w *writer) raw(s string)    { w.dst = append(w.dst, s...) }
func (w *writer) str(s string)    { w.dst = jsonx.AppendString(w.dst, s) }
func (w *writer) integer(n int)   { w.dst = strconv.AppendInt(w.dst, int64(n), 10) }
func (w *writer) key(name string) { w.raw(`,"` + name + `":`) }

// comma separates the elements of an array: all but the first, which comes when i is 0.
func (w *writer) comma(i int) {
	if i > 0 {
		w.raw(",")
	}
}

func (w *writer) request() {
	w.raw(`{"model":`)
	w.str(w.opts.Model)
	w.key("max_tokens")
	w.integer(w.maxTokens)
	w.system()
	w.key("messages")
	w.messages()
	w.tools()
	w.params()
	if w.req.Stream {
		w.raw(`,"stream":true`)
	}
	w.raw("}")
	for _, name := range w.conv.Unmapped {
		w.name(name)
	}
}

func (w *writer) messages() {
	w.raw("[")
	for i := range w.turns {
		w.comma(i)
		w.turn(&w.turns[i], i == len(w.turns)-1)
	}
	w.raw("]")
}

func (w *writer) system() {
	if w.soleSystem && w.words == "" {
		return
	}
	var parts []chat.Part
	prompt := w.prompt
	if prompt == nil {
		prompt = w.conv.System
	}
	for i := range prompt {
		switch p := &prompt[i]; {
		case !isText(p.Kind):
			w.losePart(p)
		case strings.TrimSpace(p.Text) == "":
			w.moveMark(parts, p)
		default:
			parts = append(parts, *p)
		}
	}
	if len(parts) == 0 {
		return
	}
	w.key("system")
	w.parts(parts)
}

func (w *writer) turn(t *turn, last bool) {
	if !t.assistant {
		w.raw(`{"role":"user","content":`)
		w.parts(append(slices.Clip(t.results), t.parts...))
		w.raw("}")
		return
	}
	if end := &t.parts[len(t.parts)-1]; last && isText(end.Kind) { // an answer begun for the model
		end.Text = strings.TrimRight(end.Text, " \t\r\n")
	}
	w.raw(`{"role":"assistant","content":`)
	w.parts(t.parts)
	w.raw("}")
}

func (w *writer) parts(parts []chat.Part) {
	w.raw("[")
	for i := range parts {
		w.comma(i)
		w.part(&parts[i])
		if cc := parts[i].CacheControl; cc != nil {
			w.key("cache_control")
			w.raw(string(cc))
		}
		w.raw("}")
	}
	w.raw("]")
}

// part writes a block without its closing brace.
func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal, chat.PartOther: // the last is never sayable
		w.raw(`{"type":"text","text":`)
		w.str(p.Text)
	case chat.PartImage:
		w.raw(`{"type":"image","source":`)
		w.source(p)
	case chat.PartDocument:
		w.raw(`{"type":"document","source":`)
		w.source(p)
		if p.Name != "" {
			w.key("title")
			w.str(p.Name)
		}
		if p.Context != "" {
			w.key("context")
			w.str(p.Context)
		}
	case chat.PartToolUse:
		w.toolUse(&p.Tool)
	case chat.PartToolResult:
		w.toolResult(p)
	case chat.PartThinking:
		w.raw(`{"type":"thinking","thinking":`)
		w.str(p.Text)
		w.key("signature")
		w.str(p.Signature)
	case chat.PartRedacted:
		w.raw(`{"type":"redacted_thinking","data":`)
		w.str(p.Data)
	}
}

// source says where a part's bytes are. Text that came encoded is decoded, because the API takes only PDF encoded.
func (w *writer) source(p *chat.Part) {
	text := p.Text
	if p.Data != "" && isTextMedia(p.Media) {
		if b, err := base64.StdEncoding.DecodeString(p.Data); err == nil {
			text = string(b)
		}
	}
	switch {
	case text != "":
		w.raw(`{"type":"text","media_type":"text/plain","data":`)
		w.str(text)
	case p.Data != "":
		w.raw(`{"type":"base64","media_type":`)
		w.str(mediaType(p))
		w.key("data")
		w.str(p.Data)
	default:
		w.raw(`{"type":"url","url":`)
		w.str(p.URL)
	}
	w.raw("}")
}

func isTextMedia(media string) bool {
	switch media {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/javascript":
		return true
	}
	return strings.HasPrefix(media, "text/")
}

// mediaType is a part's media type as the API spells it. One that the client left out is told by the first bytes.
func mediaType(p *chat.Part) string {
	switch {
	case p.Media == "image/jpg":
		return "image/jpeg"
	case p.Media != "":
		return p.Media
	}
	for _, known := range [...]struct{ begins, media string }{
		{"iVBOR", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lG", "image/gif"}, {"UklG", "image/webp"}, {"JVBE", "application/pdf"},
	} {
		if strings.HasPrefix(p.Data, known.begins) {
			return known.media
		}
	}
	return "application/octet-stream"
}

func (w *writer) toolUse(call *chat.ToolCall) {
	w.raw(`{"type":"tool_use","id":`)
	w.str(call.ID)
	w.key("name")
	w.str(call.Name)
	w.key("input")
	w.dst = appendInput(w.dst, []byte(call.Args))
}

func (w *writer) toolResult(p *chat.Part) {
	w.raw(`{"type":"tool_result","tool_use_id":`)
	w.str(p.Tool.ID)
	m := chat.Message{Role: chat.RoleTool, Parts: p.Parts}
	parts := slices.DeleteFunc(w.sayable(&m), func(p chat.Part) bool { return p.Kind == chat.PartToolResult })
	if p.IsError && len(parts) == 0 { // the API refuses an error that says nothing
		parts = []chat.Part{{Kind: chat.PartText, Text: "Error"}}
	}
	if len(parts) > 0 {
		w.key("content")
		w.parts(parts)
	}
	if p.IsError {
		w.raw(`,"is_error":true`)
	}
}

// appendInput appends a call's arguments as the object that this format has for them. A text that is none, as of a call
// that was cut off, is kept inside one under the name that Anthropic gives it.
func appendInput(dst, args []byte) []byte {
	v, err := jsonx.Parse(args)
	switch {
	case err == nil && v.Kind() == jsonx.Object:
		return append(dst, v.Raw...)
	case len(strings.TrimSpace(string(args))) == 0:
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"INVALID_JSON":`...)
	return append(jsonx.AppendString(dst, args), '}')
}
