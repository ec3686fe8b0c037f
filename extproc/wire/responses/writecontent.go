package responses

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// unmarked names a cache mark as degraded, because the format has none.
func (w *writer) unmarked(p *chat.Part) {
	if p.CacheControl != nil {
		w.Degrade("cache_control")
	}
}

// dropPart omits a part that the format cannot express.
func (w *writer) dropPart(p *chat.Part) {
	w.unmarked(p)
	w.DropPart(p)
}

// text writes text parts as one string.
func (w *writer) text(parts []chat.Part, between string) {
	w.Raw(`"`)
	written := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != chat.PartText {
			w.dropPart(p)
			continue
		}
		if written {
			w.Dst = jsonx.AppendEscaped(w.Dst, between)
		}
		w.Dst = jsonx.AppendEscaped(w.Dst, p.Text)
		w.unmarked(p)
		written = true
	}
	w.Raw(`"`)
}

// user writes a user message.
func (w *writer) user(parts []chat.Part) {
	w.message("user")
	w.content(parts)
	w.Raw("}")
}

// result writes a call's result. The format has no flag for a failed call, so its text is prefixed.
func (w *writer) result(p *chat.Part) {
	parts := slices.Clone(p.Parts)
	if p.IsError {
		parts = failedCall(parts)
	}
	w.item()
	w.Raw(`{"type":"function_call_output","call_id":`)
	w.Str(p.Tool.ID)
	w.Key("output")
	if len(parts) == 0 {
		w.Raw(`""`)
	} else {
		w.content(parts)
	}
	w.Raw("}")
	w.unmarked(p)
}

// failedCall prefixes the first text of a failed call.
func failedCall(parts []chat.Part) []chat.Part {
	at := slices.IndexFunc(parts, func(p chat.Part) bool { return p.Kind == chat.PartText })
	if at < 0 {
		return append(wire.AsError(nil), parts...)
	}
	wire.AsError(parts[at:])
	return parts
}

// content writes parts: a single text as a string, others as an array.
func (w *writer) content(parts []chat.Part) {
	if !slices.ContainsFunc(parts, func(p chat.Part) bool { return p.Kind != chat.PartText }) {
		if len(parts) == 1 {
			w.text(parts, "")
			return
		}
	}
	w.OpenArray()
	for i := range parts {
		w.part(&parts[i])
	}
	w.Raw("]")
}

func (w *writer) part(p *chat.Part) {
	switch p.Kind {
	case chat.PartText:
		w.inputText(p.Text)
	case chat.PartImage:
		w.Element()
		w.Raw(`{"type":"input_image","image_url":"`)
		w.PartURL(p)
		w.Raw(`"}`)
	case chat.PartDocument:
		w.document(p)
	case chat.PartFile:
		w.Element()
		if wire.IsImage(p.Media) {
			w.Raw(`{"type":"input_image","file_id":`)
		} else {
			w.Raw(`{"type":"input_file","file_id":`)
		}
		w.Str(p.File)
		w.Raw("}")
	case chat.PartAudio, chat.PartVideo, chat.PartOther,
		chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal:
		w.DropPart(p)
	}
	w.unmarked(p)
}

func (w *writer) inputText(text string) {
	w.Element()
	w.Raw(`{"type":"input_text","text":`)
	w.Str(text)
	w.Raw("}")
}

// document writes a file with its data or its URL, after its context, or a text document as text.
func (w *writer) document(p *chat.Part) {
	if p.Data == "" && p.URL == "" {
		w.inputText(wire.DocumentText(p))
		return
	}
	if p.Context != "" {
		w.inputText(p.Context)
	}
	w.Element()
	if p.Data == "" {
		if p.Name != "" {
			w.Degrade("filename")
		}
		w.Raw(`{"type":"input_file","file_url":`)
		w.Str(p.URL)
		w.Raw("}")
		return
	}
	w.Raw(`{"type":"input_file","filename":`)
	w.Str(wire.FileName(p))
	w.Raw(`,"file_data":"`)
	w.PartURL(p)
	w.Raw(`"}`)
}
