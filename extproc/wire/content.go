package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Class is the handling of a part that a provider's format cannot express (D-86).
type Class uint8

// The classes. The zero value is invalid: each kind of part needs one.
const (
	// Content is part of the client's question. If it cannot be sent, the request is refused for this candidate, and the next one is tried.
	Content Class = iota + 1
	// Trace is left in the history by a model or its provider for its own use. It may be dropped, and is named as degraded.
	Trace
)

// classes maps each kind of part to its class, and to its name in errors. A part that its reader marked as
// a trace is one.
var classes = [chat.PartKinds]struct {
	class Class
	what  string
}{
	chat.PartText:       {Content, "text"},
	chat.PartImage:      {Content, "images"},
	chat.PartDocument:   {Content, "documents"},
	chat.PartAudio:      {Content, "audio"},
	chat.PartVideo:      {Content, "video"},
	chat.PartFile:       {Content, "files that another provider holds"},
	chat.PartToolUse:    {Content, "tool calls"},
	chat.PartToolResult: {Content, "tool results"},
	chat.PartThinking:   {Trace, "thinking"},
	chat.PartRedacted:   {Trace, "thinking"},
	chat.PartRefusal:    {Content, "refusals"},
	chat.PartOther:      {Content, "content of this type"},
}

// ClassOf returns the class of a part.
func ClassOf(p *chat.Part) Class {
	if p.Trace {
		return Trace
	}
	return classes[p.Kind].class
}

// Unsupported is the cause of the fault for content that a provider's format cannot express.
type Unsupported struct {
	At   string // position of the part, in the syntax of the client's format
	Name string // the client's name for it
	What string // what is not supported: "audio", "images in the system prompt"
}

// Error returns what the format does not support, and where.
func (u *Unsupported) Error() string { return u.Place() + ": its format takes no " + u.What }

// Place returns the part's position and name: "messages[2].content[1]: input_audio".
func (u *Unsupported) Place() string {
	if u.At == u.Name {
		return u.At
	}
	return u.At + ": " + u.Name
}

// Fault returns the error for the client if no candidate supports the part.
func (u *Unsupported) Fault() *fault.Fault {
	f := fault.New(fault.InvalidRequest, fmt.Sprintf("%s: no available model takes %s", u.Place(), u.What), u)
	f.Param = u.At
	return f
}

// place is a position of a part, as far as formats accept different parts there.
type place uint8

const (
	inSystem place = iota
	inUser
	inAssistant
	inResult // in the result of a tool call
)

// Target is a provider's format, for checks of what it can express.
type Target struct {
	Dialect chat.Dialect
	Video   bool // of OpenAI's format: the server accepts video_url, which OpenAI itself does not
}

// TargetOf returns the target of a candidate that is called in a dialect.
func TargetOf(dialect chat.Dialect, to *policy.Resolution) Target {
	return Target{Dialect: dialect, Video: TakesVideo(to)}
}

// TakesVideo reports whether a candidate is known to accept video.
func TakesVideo(to *policy.Resolution) bool { return slices.Contains(to.Features, policy.Video) }

// FirstOf returns the first part of a kind as an unsupported one; nil if there is none. Text documents do not count.
func FirstOf(c *chat.Conversation, kind chat.PartKind, what string) *Unsupported {
	find := func(parts []chat.Part, message string) *Unsupported {
		for i := range parts {
			p := &parts[i]
			for j := range p.Parts {
				if p.Parts[j].Kind == kind && !p.Parts[j].IsTextDocument() {
					return unsupported(c, &p.Parts[j], message, what)
				}
			}
			if p.Kind == kind && !p.IsTextDocument() && !p.Trace {
				return unsupported(c, p, message, what)
			}
		}
		return nil
	}
	if u := find(c.System, "system"); u != nil {
		return u
	}
	for i := range c.Messages {
		if u := find(c.Messages[i].Parts, c.Messages[i].At); u != nil {
			return u
		}
	}
	return nil
}

// CheckContent returns a fault for content that the target cannot express; its cause is an Unsupported. from is the dialect from which the
// conversation was parsed.
func (t Target) CheckContent(c *chat.Conversation, from chat.Dialect) error {
	k := contentCheck{Target: t, c: c, from: from}
	if u := k.parts(c.System, "system", inSystem); u != nil {
		return u.Fault()
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		if u := k.parts(m.Parts, m.At, t.placeOf(m.Role)); u != nil {
			return u.Fault()
		}
	}
	return nil
}

// Conversation parses a request for the target, and checks that the target's format can express its tool calls and its content. The error
// is a fault.
func (t Target) Conversation(req *chat.Request) (*chat.Conversation, error) {
	c, err := req.Conversation()
	if err != nil {
		return nil, err
	}
	if err := CheckCalls(c); err != nil {
		return nil, err
	}
	return c, t.CheckContent(c, req.Dialect)
}

// placeOf returns the position of a message's parts. A system message in the middle of a conversation is sent in a user turn if the format
// has no other place for it.
func (t Target) placeOf(role chat.Role) place {
	switch {
	case role == chat.RoleAssistant:
		return inAssistant
	case role == chat.RoleSystem && (t.Dialect == chat.OpenAI || t.Dialect == chat.Responses):
		return inSystem
	}
	return inUser
}

type contentCheck struct {
	Target

	c    *chat.Conversation
	from chat.Dialect
}

// parts returns the first part that is not supported; nil if all are.
func (k *contentCheck) parts(parts []chat.Part, message string, at place) *Unsupported {
	for i := range parts {
		p := &parts[i]
		if p.Kind == chat.PartToolResult && at == inUser {
			if u := k.parts(p.Parts, message, inResult); u != nil {
				return u
			}
			continue
		}
		if ClassOf(p) != Content {
			continue
		}
		if what := k.refuses(p, at); what != "" {
			return unsupported(k.c, p, message, what)
		}
	}
	return nil
}

func unsupported(c *chat.Conversation, p *chat.Part, message, what string) *Unsupported {
	u := &Unsupported{At: p.At, Name: nameOf(c, p), What: what}
	if u.At == "" {
		u.At = message
	}
	if u.At == "" {
		u.At = "messages"
	}
	return u
}

// nameOf returns the client's name for a kind of part.
func nameOf(c *chat.Conversation, p *chat.Part) string {
	switch p.Kind {
	case chat.PartText, chat.PartRefusal:
		return c.Word("content")
	case chat.PartToolUse:
		return c.Word("tool_use")
	case chat.PartToolResult:
		return c.Word("tool_result")
	case chat.PartImage:
		return cmp.Or(p.Name, c.Word("image"))
	case chat.PartDocument:
		return c.Word("document")
	case chat.PartFile:
		return c.Word("file_id")
	case chat.PartThinking, chat.PartRedacted:
		return c.Word("thinking")
	case chat.PartAudio, chat.PartVideo:
		return cmp.Or(p.Name, c.Word("document"))
	case chat.PartOther:
	}
	return p.Name
}

// refuses returns what the target does not support about a part at a place; "" if it supports it.
func (k *contentCheck) refuses(p *chat.Part, at place) string {
	what := classes[p.Kind].what
	switch p.Kind {
	case chat.PartText, chat.PartRefusal, chat.PartThinking, chat.PartRedacted:
		return ""
	case chat.PartToolUse:
		return unlessOK(at == inAssistant, what+" outside the model's turns")
	case chat.PartToolResult:
		return what + " there"
	case chat.PartOther:
		return what
	case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile: // below
	}
	switch {
	case at == inSystem:
		return what + " in the system prompt"
	case at == inAssistant && !k.modelShows(p):
		return what + " in the model's turns"
	}
	return k.media(p, what)
}

// modelShows reports whether the target accepts this media in an assistant's turn.
func (k *contentCheck) modelShows(p *chat.Part) bool {
	return k.Dialect == chat.Gemini && (p.Kind == chat.PartImage || p.Kind == chat.PartDocument)
}

func unlessOK(ok bool, what string) string {
	if ok {
		return ""
	}
	return what
}

// media returns what the target does not support about a part that is not text; "" if it supports it.
func (k *contentCheck) media(p *chat.Part, what string) string {
	switch k.Dialect {
	case chat.OpenAI, chat.Completions:
		return k.openAI(p, what)
	case chat.Anthropic:
		return k.anthropic(p, what)
	case chat.Responses:
		return k.responses(p, what)
	case chat.Gemini:
		return unlessOK(p.Kind != chat.PartFile, what)
	case chat.Embeddings:
	}
	return what
}

func (k *contentCheck) openAI(p *chat.Part, what string) string {
	switch p.Kind { //nolint:exhaustive // media only
	case chat.PartDocument:
		return unlessOK(p.Data != "" || p.Text != "", what+" by a URL")
	case chat.PartAudio:
		return k.wavOrMP3(p, what)
	case chat.PartVideo:
		return unlessOK(k.Video, what)
	case chat.PartFile:
		return unlessOK(k.ofOpenAI() && !IsImage(p.Media), what)
	}
	return ""
}

func (k *contentCheck) responses(p *chat.Part, what string) string {
	switch p.Kind { //nolint:exhaustive // media only
	case chat.PartAudio, chat.PartVideo:
		return what
	case chat.PartFile:
		return unlessOK(k.ofOpenAI(), what)
	}
	return ""
}

func (k *contentCheck) anthropic(p *chat.Part, what string) string {
	switch p.Kind { //nolint:exhaustive // media only
	case chat.PartImage:
		return unlessOK(p.Data == "" || p.Media == "" || supportedImages[p.Media], p.Media)
	case chat.PartDocument:
		known := p.Data == "" || p.Media == "" || p.Media == "application/pdf" || chat.IsTextMedia(p.Media)
		return unlessOK(known, p.Media)
	case chat.PartAudio, chat.PartVideo, chat.PartFile:
		return what
	}
	return ""
}

// supportedImages are the image types that Anthropic's API documents.
var supportedImages = map[string]bool{"image/png": true, "image/jpeg": true, "image/jpg": true, "image/gif": true, "image/webp": true}

// ofOpenAI reports whether the client's file ids are those of OpenAI's formats.
func (k *contentCheck) ofOpenAI() bool { return k.from == chat.OpenAI || k.from == chat.Responses }

// wavOrMP3 refuses other audio types, and audio with only a URL.
func (k *contentCheck) wavOrMP3(p *chat.Part, what string) string {
	if p.Data == "" {
		return what + " by a URL"
	}
	return unlessOK(AudioFormat(p.Media) != "", p.Media)
}

// AudioFormat returns OpenAI's name of an audio type; "" if it has none.
func AudioFormat(media string) string {
	media, _, _ = strings.Cut(media, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "audio/wav", "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return "wav"
	case "audio/mp3", "audio/mpeg", "audio/x-mp3":
		return "mp3"
	}
	return ""
}

// IsMedia reports whether content of a kind is not text.
func IsMedia(k chat.PartKind) bool {
	switch k {
	case chat.PartImage, chat.PartDocument, chat.PartAudio, chat.PartVideo, chat.PartFile:
		return true
	case chat.PartText, chat.PartToolUse, chat.PartToolResult, chat.PartThinking, chat.PartRedacted, chat.PartRefusal, chat.PartOther:
	}
	return false
}

// PartAt adds the position to a part, if formats differ in whether they support it.
func PartAt(p chat.Part, at string) chat.Part {
	if IsMedia(p.Kind) || p.Kind == chat.PartOther {
		p.At = at
	}
	return p
}

// IsImage reports whether a media type is an image.
func IsImage(media string) bool { return strings.HasPrefix(media, "image/") }
