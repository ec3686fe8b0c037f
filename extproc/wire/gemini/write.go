package gemini

import (
	"encoding/base64"
	"path"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// writer writes a conversation of another dialect as a generateContent request. The order of members is fixed, so that the same request
// gives the same bytes and keeps the provider's prompt cache.
type writer struct {
	wire.Writer

	req   *chat.Request
	opts  RequestOptions
	turns []wire.Turn

	soleSystem bool // the system prompt is sent as the user's turn

	params    chat.Params // the client's and its profile's, as far as the API accepts them
	maxTokens int
	choice    chat.ToolChoice
	searches  bool // the model may search the web
	validated bool // functions are validated against their schemas
	thinking  thinkingPlan
}

func (w *writer) request() {
	w.Raw(`{"contents":[`)
	for i := range w.turns {
		if i > 0 {
			w.Raw(",")
		}
		w.turn(&w.turns[i])
	}
	w.Raw("]")
	w.system()
	w.tools()
	w.config()
	if w.params.ServiceTier == chat.TierStandard {
		w.Raw(`,"serviceTier":"standard"`)
	}
	w.Raw("}")
	for _, name := range w.Conv.Unmapped {
		w.DegradeAs(name)
	}
}

func (w *writer) system() {
	if w.soleSystem {
		return
	}
	n := 0
	for i := range w.Conv.System {
		p := &w.Conv.System[i]
		if p.CacheControl != nil {
			w.Degrade("cache_control")
		}
		switch {
		case p.Kind != chat.PartText && p.Kind != chat.PartRefusal:
			w.DropPart(p)
			continue
		case strings.TrimSpace(p.Text) == "":
			continue
		case n == 0:
			w.Raw(`,"systemInstruction":{"parts":[`)
		default:
			w.Raw(",")
		}
		n++
		w.Raw(`{"text":`)
		w.Str(p.Text)
		w.Raw("}")
	}
	if n > 0 {
		w.Raw("]}")
	}
}

func (w *writer) turn(t *wire.Turn) {
	if t.Assistant {
		w.Raw(`{"role":"model","parts":`)
	} else {
		w.Raw(`{"role":"user","parts":`)
	}
	w.OpenArray()
	var shown []chat.Part // media of tool results
	for i := range t.Results {
		shown = append(shown, w.result(&t.Results[i])...)
	}
	for i := range shown {
		w.part(&shown[i], "")
	}
	w.parts(t.Parts)
	w.Raw("]}")
}

// parts writes parts, each with the signature in the adjacent redacted part: a signature before a call belongs to the call, any other to
// the text before it. The first call of a model turn must have a signature.
func (w *writer) parts(parts []chat.Part) {
	signed := false // the turn's first call was written
	for i := 0; i < len(parts); i++ {
		p, sign := &parts[i], ""
		switch {
		case p.Kind == chat.PartRedacted && kindAt(parts, i+1) == chat.PartToolUse:
			i++
			sign, p = encodeSignature(p.Data, true), &parts[i]
		case p.Kind == chat.PartRedacted:
			w.Element()
			w.Raw(`{"text":"","thoughtSignature":`)
			w.Str(encodeSignature(p.Data, true))
			w.Raw("}")
			continue
		case p.Kind == chat.PartText && kindAt(parts, i+1) == chat.PartRedacted && kindAt(parts, i+2) != chat.PartToolUse:
			i++
			sign = encodeSignature(parts[i].Data, true)
		case p.Kind == chat.PartToolUse && !signed:
			sign = unsignedCall
		}
		signed = signed || p.Kind == chat.PartToolUse
		w.part(p, sign)
	}
}

// kindAt returns the kind of a part; PartOther after the last one, which does not occur here.
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
		w.Element()
		w.Raw(`{"text":`)
		w.Str(p.Text)
	case chat.PartImage, chat.PartAudio, chat.PartVideo:
		w.Element()
		w.file(p)
	case chat.PartDocument:
		w.document(p)
		return
	case chat.PartToolUse:
		w.Element()
		w.call(&p.Tool)
	case chat.PartThinking:
		w.Element()
		w.Raw(`{"text":`)
		w.Str(p.Text)
		w.Raw(`,"thought":true`)
		sign = encodeSignature(p.Signature, false)
	case chat.PartToolResult, chat.PartRedacted, chat.PartFile, chat.PartOther:
		w.DropPart(p)
		return
	}
	if sign != "" {
		w.Key("thoughtSignature")
		w.Str(sign)
	}
	w.Raw("}")
}

func (w *writer) call(c *chat.ToolCall) {
	w.Raw(`{"functionCall":{"id":`)
	w.Str(c.ID)
	w.Key("name")
	w.Str(wire.ToolName(c.Name, chat.Gemini))
	w.Key("args")
	w.Dst = appendArgs(w.Dst, []byte(c.Args))
	w.Raw("}")
}

// appendArgs appends a call's arguments as an object, as this format requires. Other text, such as the arguments of a truncated call, is
// wrapped in an object.
func appendArgs(dst, args []byte) []byte {
	v, err := jsonx.Parse(args)
	switch {
	case err == nil && v.Kind() == jsonx.Object:
		return wire.AppendLine(dst, v.Raw)
	case len(strings.TrimSpace(string(args))) == 0, err == nil && v.IsNull():
		return append(dst, "{}"...)
	}
	dst = append(dst, `{"INVALID_JSON":`...)
	return append(jsonx.AppendString(dst, args), '}')
}

// result writes a tool result with its text. It returns the media, with the id of the call, to be written after the results of the turn.
func (w *writer) result(p *chat.Part) (shown []chat.Part) {
	var texts []string
	for i := range p.Parts {
		e := &p.Parts[i]
		if e.CacheControl != nil {
			w.Degrade("cache_control")
		}
		switch {
		case e.Kind == chat.PartText || e.Kind == chat.PartRefusal:
			texts = append(texts, e.Text)
		case e.Kind == chat.PartDocument && e.Text != "":
			texts = append(texts, documentText(e))
		case wire.IsMedia(e.Kind):
			if len(shown) == 0 {
				shown = append(shown, chat.Part{Kind: chat.PartText, Text: wire.MediaLabel(p.Tool.ID)})
			}
			shown = append(shown, *e)
		default:
			w.DropPart(e)
		}
	}
	w.Element()
	w.Raw(`{"functionResponse":{"id":`)
	w.Str(p.Tool.ID)
	w.Key("name")
	w.Str(wire.ToolName(p.Tool.Name, chat.Gemini))
	w.Key("response")
	switch text := strings.Join(texts, "\n"); {
	case p.IsError && text == "":
		w.Raw(`{"error":"Error"}`)
	case p.IsError:
		w.Raw(`{"error":`)
		w.Str(text)
		w.Raw("}")
	case text == "":
		w.Raw("{}")
	default:
		w.Raw(`{"output":`)
		w.Str(text)
		w.Raw("}")
	}
	w.Raw("}}")
	return shown
}

// file writes a part's data or URL, without the end of the part.
func (w *writer) file(p *chat.Part) {
	if p.Data != "" {
		w.Raw(`{"inlineData":{"mimeType":`)
		w.Str(mediaType(p))
		w.Key("data")
		w.Str(p.Data)
		w.Raw("}")
		return
	}
	w.Raw(`{"fileData":{`)
	if p.Media != "" || p.Kind != chat.PartVideo { // the API determines the type of a video page itself
		w.Raw(`"mimeType":`)
		w.Str(mediaType(p))
		w.Raw(",")
	}
	w.Raw(`"fileUri":`)
	w.Str(p.URL)
	w.Raw("}")
}

// document writes a document: a text document as text, after its title and context.
func (w *writer) document(p *chat.Part) {
	text := p.Text
	if p.Data != "" && chat.IsTextMedia(p.Media) {
		if b, err := base64.StdEncoding.DecodeString(p.Data); err == nil {
			text = string(b)
		}
	}
	if text != "" {
		decoded := *p
		decoded.Text = text
		w.part(&chat.Part{Kind: chat.PartText, Text: documentText(&decoded)}, "")
		return
	}
	if title := documentText(&chat.Part{Name: p.Name, Context: p.Context}); title != "" {
		w.part(&chat.Part{Kind: chat.PartText, Text: title}, "")
	}
	w.Element()
	w.file(p)
	w.Raw("}")
}

// mediaType returns a part's media type: stated, from its first bytes, or from the extension of its URL.
func mediaType(p *chat.Part) string {
	if media := wire.MediaType(p); media != "" {
		return media
	}
	if p.Data == "" {
		address, _, _ := strings.Cut(p.URL, "?")
		if media := extensions[strings.ToLower(path.Ext(address))]; media != "" {
			return media
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

// extensions maps the extensions of file names to media types.
var extensions = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".pdf": "application/pdf",
}
