package module

import (
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/buffers"
)

// event is an event from Envoy.
type event struct {
	kind   eventKind
	end    bool
	body   []byte
	pooled *[]byte // the pooled buffer of a large piece of a request's body
	head   *stream.AnswerHead
}

// newBodyEvent returns an event for a piece of a request's body, with room for n bytes.
func newBodyEvent(n int) event {
	if n < largePiece {
		return event{kind: requestBody, body: make([]byte, 0, n)}
	}
	b := buffers.Get(n)
	return event{kind: requestBody, body: *b, pooled: b}
}

// largePiece is the minimum size, in bytes, of a piece in a pooled buffer.
const largePiece = 16 << 10

// release returns the pooled buffer, if any, after the last use of the body.
func (e *event) release() {
	if e.pooled != nil {
		buffers.Put(e.pooled)
	}
}

type eventKind uint8

const (
	requestBody eventKind = iota
	requestTrailers
	answerHead
	answerBody
)

// String returns the name for errors.
func (k eventKind) String() string {
	return [...]string{"a request body", "request trailers", "response headers", "a response body"}[k]
}
