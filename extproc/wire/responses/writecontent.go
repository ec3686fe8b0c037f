package responses

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// unmarked names a cache mark, for which the format has no place.
func (w *writer) unmarked(p *chat.Part) {
	if p.CacheControl != nil {
		w.Lose("cache_control")
	}
}

// losePart leaves out a part that cannot be said where it stands.
func (w *writer) losePart(p *chat.Part) {
	w.unmarked(p)
	w.LosePart(p)
}

// text writes parts of text as one string.
func (w *writer) text(parts []chat.Part, between string) {
	w.Raw(`"`)
	written := false
	for i := range parts {
		p := &parts[i]
		if p.Kind != chat.PartText {
			w.losePart(p)
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

// user writes a message of the user.
func (w *writer) user(parts []chat.Part) {
	w.message("user")
	w.content(parts)
	w.Raw("}")
}

// result writes what a call returned. There is no flag for a failed call, so its text says it.
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

// failedCall has the first text of a failed call begin with the word.
func failedCall(parts []chat.Part) []chat.Part {
	at := slices.IndexFunc(parts, func(p chat.Part) bool { return p.Kind == chat.PartText })
	if at < 0 {
		return append(wire.AsError(nil), parts...)
	}
	wire.AsError(parts[at:])
	return parts
}

// content writes parts as a string where they are text alone, and as an array otherwise.
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
		w.url(p)
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
		w.LosePart(p)
	}
	w.unmarked(p)
}

func (w *writer) inputText(text string) {
	w.Element()
	w.Raw(`{"type":"input_text","text":`)
	w.Str(text)
	w.Raw("}")
}

// document writes a file with its bytes or its address, under what is said about it, or a document that is text as text.
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
			w.Lose("filename")
		}
		w.Raw(`{"type":"input_file","file_url":`)
		w.Str(p.URL)
		w.Raw("}")
		return
	}
	w.Raw(`{"type":"input_file","filename":`)
	w.Str(wire.FileName(p))
	w.Raw(`,"file_data":"`)
	w.url(p)
	w.Raw(`"}`)
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
