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
	// Decode reads a request in one pass. Errors are faults of kind InvalidRequest that name the position or the field. The request keeps
	// the body without copying it.
	Decode(op chat.Op, h header.List, query string, body []byte) (*chat.Request, error)
	// NewEncoder returns the encoder of one answer.
	NewEncoder(o Options) Encoder
	// Error returns the body of a JSON error in this dialect.
	Error(f *fault.Fault, requestID string) []byte
}

// Options are the inputs of the encoder of one answer.
type Options struct {
	Same      bool   // provider and client speak the same dialect: Raw bytes pass unchanged, and members of this dialect only are written
	Stream    bool   // SSE, else one JSON body
	Model     string // the model's name for the client; "" keeps the provider's
	RequestID string
	ShowUsage bool  // an OpenAI client requested the usage chunk
	Created   int64 // unix seconds, for formats that carry it

	MayChange bool // a layer may change the rest of an answer whose start passed unchanged: the encoder must track what passes

	Request *chat.Request // the client's request, for formats whose answers repeat parts of it; nil if unknown
}

// Encoder writes events in its dialect. For a stream, Append returns dst with complete SSE events only, so that comments may be written
// between any two calls. For JSON it returns dst unchanged until the End event, and then the whole body. Not safe for concurrent use.
type Encoder interface {
	Append(dst []byte, ev *chat.Event) []byte
	// Error appends the frame of an error inside a stream; nothing may follow it. For JSON it appends the body of the error.
	Error(dst []byte, f *fault.Fault) []byte
	// Degraded lists what this format cannot express of the answer, in order of occurrence, each name once. It is complete after the End
	// event. The names are those of the format that has the feature, such as citations or logprobs.
	Degraded() []string
}

// DegradedNames collects the names for Encoder.Degraded. The zero value is ready.
type DegradedNames struct{ names []string }

// Degrade adds a name, once.
func (l *DegradedNames) Degrade(name string) { l.names = AppendDegraded(l.names, name) }

// maxDegraded is the maximum number of degraded names: a body may have a hundred thousand unknown members.
const maxDegraded = 64

// MoreDegraded is the last name of a list that reached the maximum.
const MoreDegraded = "more"

// AppendDegraded adds a name to a list, once, up to the maximum.
func AppendDegraded(names []string, name string) []string {
	switch {
	case len(names) > maxDegraded || slices.Contains(names, name):
		return names
	case len(names) == maxDegraded:
		return append(names, MoreDegraded)
	}
	return append(names, name)
}

// Degraded returns the names.
func (l *DegradedNames) Degraded() []string { return l.names }
