package anthropic

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic/message"
)

// writer writes a conversation of another dialect as a Messages request. The order of members is fixed, so that the same request gives the
// same bytes and keeps the provider's prompt cache.
type writer struct {
	wire.Writer

	req   *chat.Request
	opts  RequestOptions
	turns []wire.Turn

	soleSystem bool // the system prompt is sent as the user's turn
	plan
	prompt []chat.Part // the system prompt
}

// comma separates the elements of an array. i is the element's index.
func (w *writer) comma(i int) {
	if i > 0 {
		w.Raw(",")
	}
}

func (w *writer) request() {
	w.Raw(`{"model":`)
	w.Str(w.opts.Model)
	w.Key("max_tokens")
	w.Integer(w.maxTokens)
	w.system()
	w.Key("messages")
	w.messages()
	w.tools()
	w.params()
	if w.req.Stream {
		w.Raw(`,"stream":true`)
	}
	w.Raw("}")
	for _, name := range w.Conv.Unmapped {
		w.DegradeAs(name)
	}
}

func (w *writer) messages() {
	w.Raw("[")
	for i := range w.turns {
		w.comma(i)
		w.turn(&w.turns[i], i == len(w.turns)-1)
	}
	w.Raw("]")
}

func (w *writer) system() {
	if w.soleSystem && w.guidance == "" {
		return
	}
	var parts []chat.Part
	prompt := w.prompt
	if prompt == nil {
		prompt = w.Conv.System
	}
	for i := range prompt {
		switch p := &prompt[i]; {
		case !isText(p.Kind):
			w.DropPart(p)
		case strings.TrimSpace(p.Text) == "":
			w.moveMark(parts, p)
		default:
			parts = append(parts, *p)
		}
	}
	if len(parts) == 0 {
		return
	}
	w.Key("system")
	w.parts(parts)
}

func (w *writer) turn(t *wire.Turn, last bool) {
	if !t.Assistant {
		w.Raw(`{"role":"user","content":`)
		w.parts(append(slices.Clip(t.Results), t.Parts...))
		w.Raw("}")
		return
	}
	if end := &t.Parts[len(t.Parts)-1]; last && isText(end.Kind) { // a prefilled answer
		end.Text = strings.TrimRight(end.Text, " \t\r\n")
	}
	w.Raw(`{"role":"assistant","content":`)
	w.parts(t.Parts)
	w.Raw("}")
}

func (w *writer) parts(parts []chat.Part) {
	w.Raw("[")
	for i := range parts {
		w.comma(i)
		w.part(&parts[i])
		if cc := parts[i].CacheControl; cc != nil {
			w.Key("cache_control")
			w.Raw(string(cc))
		}
		w.Raw("}")
	}
	w.Raw("]")
}

// part writes a block without its closing brace.
func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal, chat.PartAudio, chat.PartVideo, chat.PartFile, chat.PartOther: // only the first two reach here
		if w.req.Retrieved && w.opts.SearchResults {
			if r, ok := wire.ParseSearchResult(p.Text); ok {
				w.Dst = r.AppendBlock(w.Dst, w.req.Cites && len(w.sampling.Schema) == 0)
				return
			}
		}
		w.Raw(`{"type":"text","text":`)
		w.Str(p.Text)
	case chat.PartImage:
		w.Raw(`{"type":"image","source":`)
		w.source(p)
	case chat.PartDocument:
		w.Raw(`{"type":"document","source":`)
		w.source(p)
		if p.Name != "" {
			w.Key("title")
			w.Str(p.Name)
		}
		if p.Context != "" {
			w.Key("context")
			w.Str(p.Context)
		}
	case chat.PartToolUse:
		w.toolUse(&p.Tool)
	case chat.PartToolResult:
		w.toolResult(p)
	case chat.PartThinking:
		w.Raw(`{"type":"thinking","thinking":`)
		w.Str(p.Text)
		w.Key("signature")
		w.Str(p.Signature)
	case chat.PartRedacted:
		w.Raw(`{"type":"redacted_thinking","data":`)
		w.Str(p.Data)
	}
}

// source writes the source of a part's bytes. Encoded text is decoded, because the API accepts only PDF documents encoded.
func (w *writer) source(p *chat.Part) {
	text := p.Text
	if p.Data != "" && chat.IsTextMedia(p.Media) {
		if b, err := base64.StdEncoding.DecodeString(p.Data); err == nil {
			text = string(b)
		}
	}
	switch {
	case text != "":
		w.Raw(`{"type":"text","media_type":"text/plain","data":`)
		w.Str(text)
	case p.Data != "":
		w.Raw(`{"type":"base64","media_type":`)
		w.Str(cmp.Or(wire.MediaType(p), "application/octet-stream"))
		w.Key("data")
		w.Str(p.Data)
	default:
		w.Raw(`{"type":"url","url":`)
		w.Str(p.URL)
	}
	w.Raw("}")
}

func (w *writer) toolUse(call *chat.ToolCall) {
	w.Raw(`{"type":"tool_use","id":`)
	w.Str(call.ID)
	w.Key("name")
	w.Str(wire.ToolName(call.Name, chat.Anthropic))
	w.Key("input")
	w.Dst = message.AppendInput(w.Dst, []byte(call.Args))
}

func (w *writer) toolResult(p *chat.Part) {
	w.Raw(`{"type":"tool_result","tool_use_id":`)
	w.Str(p.Tool.ID)
	m := chat.Message{Role: chat.RoleTool, Parts: p.Parts}
	parts := slices.DeleteFunc(w.supportedParts(&m), func(p chat.Part) bool { return p.Kind == chat.PartToolResult })
	if p.IsError && len(parts) == 0 { // the API refuses an empty error
		parts = []chat.Part{{Kind: chat.PartText, Text: "Error"}}
	}
	if len(parts) > 0 {
		w.Key("content")
		w.parts(parts)
	}
	if p.IsError {
		w.Raw(`,"is_error":true`)
	}
}
