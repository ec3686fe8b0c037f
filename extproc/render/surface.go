package render

import "bardo.money/gateway/extproc/chat"

// Surface is where an answer is read. The zero value is an API client.
type Surface uint8

// The surfaces.
const (
	API      Surface = iota
	Web              // a web page: reasoning also as Markdown, for a panel
	TUI              // a terminal: a progress line, and the answer
	Telegram         // a chat: only the answer
	Discord          // a chat: only the answer; the reasoning can be requested later
)

var surfaces = [...]string{API: "api", Web: "web", TUI: "tui", Telegram: "telegram", Discord: "discord"}

// SurfaceOf returns a surface by its name; API for an unknown or empty one.
func SurfaceOf(name string) Surface {
	for i, s := range surfaces {
		if s == name {
			return Surface(i)
		}
	}
	return API
}

// String returns the surface's name.
func (s Surface) String() string {
	if int(s) >= len(surfaces) {
		return ""
	}
	return surfaces[s]
}

// View is how an answer's reasoning is shown. The zero value shows it as in the client's format, without additions.
type View struct {
	Surface Surface
	Full    bool // the client asked for the whole chain beside the answer
}

// Hides reports whether reasoning and its signatures are removed from the answer.
func (v View) Hides() bool { return v.Surface == TUI || v.Surface == Telegram || v.Surface == Discord }

// Attaches reports whether the chain is attached to the answer.
func (v View) Attaches() bool { return v.Full || v.Surface == Web }

// Progresses reports whether the client gets progress lines.
func (v View) Progresses() bool { return v.Surface == TUI }

// Stores reports whether the chain is stored for a later request.
func (v View) Stores() bool { return v.Surface == Discord }

// reasoningExtras are the names of chat.Extra events with reasoning or its signatures.
var reasoningExtras = map[string]bool{
	"reasoning": true, "reasoning_details": true, "reasoning_text": true, "encrypted_content": true,
}

// IsThought reports whether an event has reasoning or its signature. The end of a block and token counts do not count.
func IsThought(ev *chat.Event) bool {
	switch ev.Kind {
	case chat.Thought, chat.Signature, chat.Redacted:
		return true
	case chat.Extra:
		return reasoningExtras[ev.ID]
	case chat.Start, chat.Text, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.BlockStop, chat.Stop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
	return false
}

// Hide removes reasoning from an answer, event by event, and reports whether the event is to be forwarded. It removes the provider's bytes from
// all events, because a frame may contain both reasoning and text.
func Hide(ev *chat.Event) (forward bool) {
	ev.Raw, ev.Tail, ev.ModelSpan, ev.UsageChunk = nil, false, chat.Span{}, false
	return !IsThought(ev)
}
