package wire

import (
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Dialect is the client's side of a wire format. Stateless, safe for concurrent use.
type Dialect interface {
	Name() chat.Dialect
	// Decode reads a request in one pass. path has no query. Errors are faults of kind InvalidRequest that name the
	// position or the field. The body is kept by the request, not copied.
	Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error)
	// NewEncoder writes one answer.
	NewEncoder(o Options) Encoder
	// Error is the body of a JSON error in this dialect.
	Error(f *fault.Fault, requestID string) []byte
}

// Options say what one answer's encoder must know.
type Options struct {
	Same      bool   // provider and client speak the same dialect: Raw bytes pass as they came, and what only it says is written
	Stream    bool   // SSE, else one JSON body
	Model     string // the model's name as the client shall see it; "" leaves the provider's
	RequestID string
	ShowUsage bool  // an OpenAI client that asked for the usage chunk
	Created   int64 // unix seconds, for formats that carry it

	Request *chat.Request // what the client asked, for formats whose answers repeat it; nil: nothing is known of it
}

// Encoder writes events as its dialect's client expects them. For a stream, Append returns dst with complete SSE
// events only, so that comments may be put between any two calls. For JSON it returns dst unchanged until the End event, and
// then the whole body. Not safe for concurrent use.
type Encoder interface {
	Append(dst []byte, ev *chat.Event) []byte
	// Error appends the frame that tells a client in the middle of a stream that it failed; nothing may follow.
	Error(dst []byte, f *fault.Fault) []byte
	// Lost names what the answer held and this format had no words for, in the order in which it came, each once. It is
	// complete after the End event. The names are words of the format that has them, such as citations or logprobs.
	Lost() []string
}

// Losses collects the names for Encoder.Lost. The zero value is ready.
type Losses struct{ names []string }

// Lose adds a name, once.
func (l *Losses) Lose(name string) { l.names = Named(l.names, name) }

// mostNames is how many losses are named. More than that are no news to anybody but a bill of work to the gateway: a body has
// room for a hundred thousand members that nobody knows.
const mostNames = 64

// MoreLost stands behind the names of losses for those that are not named any more.
const MoreLost = "more"

// Named adds the name of a loss to a list, once, and up to a bound.
func Named(names []string, name string) []string {
	switch {
	case len(names) > mostNames || slices.Contains(names, name):
		return names
	case len(names) == mostNames:
		return append(names, MoreLost)
	}
	return append(names, name)
}

// Lost returns the names.
func (l *Losses) Lost() []string { return l.names }
