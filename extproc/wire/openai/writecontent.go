package openai

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// mark writes a cache mark into the object that is open, where the provider understands it.
func (w *writer) mark(cacheControl jsonx.Raw) {
	switch {
	case cacheControl == nil:
	case w.opts.CacheControl:
		w.Key("cache_control")
		w.JSON(cacheControl)
	default:
		w.Lose("cache_control")
	}
}

// marks reports whether parts have cache marks that are to be written, which only an array of parts can have.
func (w *writer) marks(parts []chat.Part) bool {
	return w.opts.CacheControl && slices.ContainsFunc(parts, func(p chat.Part) bool { return p.CacheControl != nil })
}

// text writes parts of text as one string, or as an array where one of them is marked.
func (w *writer) text(parts []chat.Part, between string) {
	isText := func(p chat.Part) bool {
		if p.Kind != chat.PartText {
			w.losePart(&p)
		}
		return p.Kind == chat.PartText
	}
	if w.marks(parts) {
		w.OpenArray()
		for i := range parts {
			if isText(parts[i]) {
				w.part(&parts[i])
			}
		}
		w.Raw("]")
		return
	}
	w.Raw(`"`)
	written := false
	for i := range parts {
		p := &parts[i]
		if !isText(*p) {
			continue
		}
		if written {
			w.Dst = jsonx.AppendEscaped(w.Dst, between)
		}
		w.Dst = jsonx.AppendEscaped(w.Dst, p.Text)
		w.mark(p.CacheControl) // which names it as lost
		written = true
	}
	w.Raw(`"`)
}

// losePart names a part that cannot be said where it stands.
func (w *writer) losePart(p *chat.Part) {
	if p.CacheControl != nil {
		w.Lose("cache_control")
	}
	w.LosePart(p)
}

// toolResult writes a result as the message of role tool, which holds text alone. What else it holds waits for the next turn of
// the user, since nothing may stand between the results of one turn. There is no flag for a failed call, so its text
// says it.
func (w *writer) toolResult(p *chat.Part) {
	var texts, shown []chat.Part
	for i := range p.Parts {
		switch e := &p.Parts[i]; {
		case e.Kind == chat.PartText:
			texts = append(texts, *e)
		case e.Kind == chat.PartDocument && e.Text != "":
			texts = append(texts, chat.Part{Kind: chat.PartText, Text: wire.DocumentText(e), CacheControl: e.CacheControl})
		case wire.IsMedia(e.Kind):
			shown = append(shown, *e)
		default:
			w.losePart(e)
		}
	}
	if len(shown) > 0 {
		w.shown = append(w.shown, chat.Part{Tool: p.Tool, Parts: shown})
	}
	if p.IsError {
		texts = wire.AsError(texts)
	}
	if n := len(texts); p.CacheControl != nil && n > 0 {
		texts[n-1].CacheControl = p.CacheControl
	} else if p.CacheControl != nil {
		w.Lose("cache_control")
	}
	w.Raw(`,{"role":"tool","tool_call_id":`)
	w.Str(p.Tool.ID)
	w.Key("content")
	w.text(texts, "\n")
	w.Raw("}")
}

// userTurn writes a message of the user: what tools showed before it, and its own parts. Without either it writes
// nothing.
func (w *writer) userTurn(parts []chat.Part) {
	waiting := w.shown
	w.shown = nil
	if len(waiting)+len(parts) == 0 {
		return
	}
	start := len(w.Dst)
	w.message("user")
	if len(waiting) == 0 && len(parts) == 1 && parts[0].Kind == chat.PartText && !w.marks(parts) {
		w.text(parts, "")
		w.Raw("}")
		return
	}
	w.OpenArray()
	for i := range waiting {
		w.part(&chat.Part{Kind: chat.PartText, Text: wire.Shown(waiting[i].Tool.ID)})
		for j := range waiting[i].Parts {
			w.part(&waiting[i].Parts[j])
		}
	}
	for i := range parts {
		w.part(&parts[i])
	}
	if !w.InArray { // nothing of it can be said
		w.Dst = w.Dst[:start]
		return
	}
	w.Raw("]}")
}

func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.PartText:
		w.Element()
		w.Raw(`{"type":"text","text":`)
		w.Str(p.Text)
		w.mark(p.CacheControl)
		w.Raw("}")
	case chat.PartImage:
		w.Element()
		w.Raw(`{"type":"image_url","image_url":{"url":"`)
		w.url(p)
		w.Raw(`"}`)
		w.mark(p.CacheControl)
		w.Raw("}")
	case chat.PartDocument:
		w.document(p)
	case chat.PartAudio:
		w.audio(p)
	case chat.PartVideo:
		w.Element()
		w.Raw(`{"type":"video_url","video_url":{"url":"`)
		w.url(p)
		w.Raw(`"}`)
		w.mark(p.CacheControl)
		w.Raw("}")
	case chat.PartFile:
		w.Element()
		w.Raw(`{"type":"file","file":{"file_id":`)
		w.Str(p.File)
		w.Raw("}")
		w.mark(p.CacheControl)
		w.Raw("}")
	case chat.PartOther:
		if w.same {
			w.Element()
			w.JSON(p.Raw)
			return
		}
		w.losePart(p)
	case chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal:
		w.losePart(p)
	}
}

// audio writes sound in one of the two types that the format has names for. Of the same format, any goes as it came.
func (w *writer) audio(p *chat.Part) {
	format := wire.AudioFormat(p.Media)
	switch {
	case p.Data == "" && !w.same:
		w.losePart(p)
		return
	case p.Data == "":
		w.Element()
		w.Raw(`{"type":"audio_url","audio_url":{"url":"`)
		w.url(p)
		w.Raw(`"}`)
		w.mark(p.CacheControl)
		w.Raw("}")
		return
	case format == "" && w.same:
		format = strings.TrimPrefix(p.Media, "audio/")
	case format == "":
		w.losePart(p)
		return
	}
	w.Element()
	w.Raw(`{"type":"input_audio","input_audio":{"data":`)
	w.Str(p.Data)
	w.Key("format")
	w.Str(format)
	w.Raw("}")
	w.mark(p.CacheControl)
	w.Raw("}")
}

// document writes a file with its bytes, or a document that is text as text. This format has no place for a URL of one.
func (w *writer) document(p *chat.Part) {
	switch {
	case p.Data == "" && p.Text == "":
		w.losePart(p)
		return
	case p.Data == "":
		w.part(&chat.Part{Kind: chat.PartText, Text: wire.DocumentText(p), CacheControl: p.CacheControl})
		return
	}
	if p.Context != "" {
		w.part(&chat.Part{Kind: chat.PartText, Text: p.Context})
	}
	w.Element()
	w.Raw(`{"type":"file","file":{"filename":`)
	w.Str(wire.FileName(p))
	w.Raw(`,"file_data":"`)
	w.url(p)
	w.Raw(`"}`)
	w.mark(p.CacheControl)
	w.Raw("}")
}

// url writes where a part's bytes are, inside a JSON string.
func (w *writer) url(p *chat.Part) {
	if p.Data == "" {
		w.Dst = jsonx.AppendEscaped(w.Dst, p.URL)
		return
	}
	w.Raw("data:")
	w.Dst = jsonx.AppendEscaped(w.Dst, p.Media)
	w.Raw(";base64,")
	w.Dst = jsonx.AppendEscaped(w.Dst, p.Data)
}
