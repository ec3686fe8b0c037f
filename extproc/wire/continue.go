package wire

import (
	"errors"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

// Continuer is implemented by dialects whose requests can be continued after tool calls: every dialect with tools.
type Continuer interface {
	// Continue returns req with the model's answer and the results of all its tool calls appended to the messages, as a client would send
	// them. answer is a whole JSON answer, as the dialect's encoder writes it. req is not changed.
	Continue(req *chat.Request, answer []byte, results []CallResult) (*chat.Request, error)
}

// CallResult is the result of a tool call.
type CallResult struct {
	ID, Name string // of the call
	Text     string
	IsError  bool
}

// ErrNoTurn is the error for an answer that cannot become a turn of its conversation.
var ErrNoTurn = errors.New("the answer has no message that a conversation could go on from")

// ContinueWith returns req with the changes that write makes to its document.
func ContinueWith(req *chat.Request, write func(r *Reshape) error) (*chat.Request, error) {
	r, err := newReshape(req, &Shape{})
	if err != nil {
		return nil, err
	}
	if err := write(r); err != nil {
		return nil, err
	}
	return r.request()
}

// ParseTurn parses an answer for Continue.
func ParseTurn(answer []byte) (jsonx.Value, error) {
	v, err := jsonx.Parse(answer)
	if err != nil {
		return v, err
	}
	if v.Kind() == jsonx.Array { // a stream of Gemini's as one body
		for _, e := range v.Each {
			return e, nil
		}
	}
	return v, nil
}
