package openai

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// mark writes a cache mark into the open object, if the provider supports it.
func (w *writer) mark(cacheControl jsonx.Raw) {
	switch {
	case cacheControl == nil:
	case w.opts.CacheControl:
		w.Key("cache_control")
		w.JSON(cacheControl)
	default:
		w.Degrade("cache_control")
	}
}

// marks reports whether parts have cache marks to write, which requires an array of parts.
func (w *writer) marks(parts []chat.Part) bool {
	return w.opts.CacheControl && slices.ContainsFunc(parts, func(p chat.Part) bool { return p.CacheControl != nil })
}

// text writes text parts as one string, or as an array if one of them has a cache mark.
func (w *writer) text(parts []chat.Part, between string) {
	isText := func(p chat.Part) bool {
		if p.Kind != chat.PartText {
			w.dropPart(&p)
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
		w.mark(p.CacheControl) // names it as degraded
		written = true
	}
	w.Raw(`"`)
}

// dropPart omits a part that the format cannot express, with its cache mark.
func (w *writer) dropPart(p *chat.Part) {
	if p.CacheControl != nil {
		w.Degrade("cache_control")
	}
	w.DropPart(p)
}

// toolResult writes a result as a message of role tool, which holds only text. Its media are written in the next user turn, because the
// results of a turn must be adjacent. The format has no flag for a failed call, so its text is prefixed.
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
			w.dropPart(e)
		}
	}
	if len(shown) > 0 {
		w.pendingMedia = append(w.pendingMedia, chat.Part{Tool: p.Tool, Parts: shown})
	}
	if p.IsError {
		texts = wire.AsError(texts)
	}
	if n := len(texts); p.CacheControl != nil && n > 0 {
		texts[n-1].CacheControl = p.CacheControl
	} else if p.CacheControl != nil {
		w.Degrade("cache_control")
	}
	w.Raw(`,{"role":"tool","tool_call_id":`)
	w.Str(p.Tool.ID)
	w.Key("content")
	w.text(texts, "\n")
	w.Raw("}")
}

// userTurn writes a user message: the media of earlier tool results, and its own parts; nothing if there are none.
func (w *writer) userTurn(parts []chat.Part) {
	waiting := w.pendingMedia
	w.pendingMedia = nil
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
		w.part(&chat.Part{Kind: chat.PartText, Text: wire.MediaLabel(waiting[i].Tool.ID)})
		for j := range waiting[i].Parts {
			w.part(&waiting[i].Parts[j])
		}
	}
	for i := range parts {
		w.part(&parts[i])
	}
	if !w.InArray { // nothing of it can be expressed
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
		w.PartURL(p)
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
		w.PartURL(p)
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
		w.dropPart(p)
	case chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal:
		w.dropPart(p)
	}
}

// audio writes audio in the two types for which the format has names. For a request of the same format, any type is written.
func (w *writer) audio(p *chat.Part) {
	format := wire.AudioFormat(p.Media)
	switch {
	case p.Data == "" && !w.same:
		w.dropPart(p)
		return
	case p.Data == "":
		w.Element()
		w.Raw(`{"type":"audio_url","audio_url":{"url":"`)
		w.PartURL(p)
		w.Raw(`"}`)
		w.mark(p.CacheControl)
		w.Raw("}")
		return
	case format == "" && w.same:
		format = strings.TrimPrefix(p.Media, "audio/")
	case format == "":
		w.dropPart(p)
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

// document writes a file with its data, or a text document as text. The format has no document URLs.
func (w *writer) document(p *chat.Part) {
	switch {
	case p.Data == "" && p.Text == "":
		w.dropPart(p)
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
	w.PartURL(p)
	w.Raw(`"}`)
	w.mark(p.CacheControl)
	w.Raw("}")
}
