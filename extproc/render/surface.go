package render

import "bardo.money/gateway/extproc/chat"

// Surface is where an answer is read. The zero value is a program that calls the API.
type Surface uint8

// The surfaces.
const (
	API      Surface = iota
	Web              // a page: the thoughts also as Markdown, for a panel that opens
	TUI              // a terminal: a sign that the model thinks, and its answer
	Telegram         // a chat: the answer alone
	Discord          // a chat in which the thoughts may be asked for afterwards
)

var surfaces = [...]string{API: "api", Web: "web", TUI: "tui", Telegram: "telegram", Discord: "discord"}

// SurfaceOf is a surface by its name; any other name, "" too, is the API.
func SurfaceOf(name string) Surface {
	for i, s := range surfaces {
		if s == name {
			return Surface(i)
		}
	}
	return API
}

// String is the surface's name.
func (s Surface) String() string {
	if int(s) >= len(surfaces) {
		return ""
	}
	return surfaces[s]
}

// View is how one answer's reasoning is shown. The zero value shows it as the client's format has it, and nothing besides.
type View struct {
	Surface Surface
	Full    bool // the caller asked for the whole chain beside the answer
}

// Hides reports whether thoughts, and what proves them, are taken out of the answer.
func (v View) Hides() bool { return v.Surface == TUI || v.Surface == Telegram || v.Surface == Discord }

// Attaches reports whether the chain stands beside the answer.
func (v View) Attaches() bool { return v.Full || v.Surface == Web }

// Progresses reports whether the client is told meanwhile that the model thinks.
func (v View) Progresses() bool { return v.Surface == TUI }

// Keeps reports whether the chain may be asked for afterwards.
func (v View) Keeps() bool { return v.Surface == Discord }

// thoughts are the names of extras (see chat.Extra) that repeat, prove or name thoughts in the words of one format.
var thoughts = map[string]bool{
	"reasoning": true, "reasoning_details": true, "reasoning_text": true, "encrypted_content": true,
}

// IsThought reports whether an event shows something of a model's reasoning, or proves it. That a block ends, and how many tokens were
// thought, is no thought.
func IsThought(ev *chat.Event) bool {
	switch ev.Kind {
	case chat.Thought, chat.Signature, chat.Redacted:
		return true
	case chat.Extra:
		return thoughts[ev.ID]
	case chat.Start, chat.Text, chat.Refusal, chat.ToolStart, chat.ToolArgs, chat.BlockStop, chat.Stop, chat.UsageInfo, chat.Error, chat.End, chat.Other:
	}
	return false
}

// Hide takes the thoughts out of an answer, event by event, and reports whether the event goes on. No event has its provider's bytes
// afterwards: a frame may show thoughts beside what stays, and numbers blocks that are gone.
func Hide(ev *chat.Event) (goesOn bool) {
	ev.Raw, ev.Tail, ev.ModelSpan, ev.UsageChunk = nil, false, chat.Span{}, false
	return !IsThought(ev)
}
