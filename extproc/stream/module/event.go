package module

import (
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/buffers"
)

// event is what came from Envoy.
type event struct {
	kind   eventKind
	end    bool
	body   []byte
	pooled *[]byte // the buffer that a large piece of a request's body lies in
	head   *stream.AnswerHead
}

// newBodyEvent is a piece of a request's body, with room for n bytes.
func newBodyEvent(n int) event {
	if n < largePiece {
		return event{kind: requestBody, body: make([]byte, 0, n)}
	}
	b := buffers.Get(n)
	return event{kind: requestBody, body: *b, pooled: b}
}

// largePiece is how many bytes a piece has at least that lies in a buffer of all requests.
const largePiece = 16 << 10

// release gives the buffer back, if there is one: nobody reads the body any more.
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

// String is the name in errors.
func (k eventKind) String() string {
	return [...]string{"a request body", "request trailers", "response headers", "a response body"}[k]
}
