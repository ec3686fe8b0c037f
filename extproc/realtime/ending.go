package realtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"bardo.money/gateway/internal/fault"
)

// ending is why a session ends.
type ending struct {
	code   websocket.StatusCode
	reason string
	fault  *fault.Fault // sent to the client as an error event; nil: none
	cut    bool         // the provider's connection ended
	broken error        // why it is the provider's failure; nil: it is none
}

// broken is the ending of a session whose provider failed.
func broken(public string, err error) ending {
	return ending{
		code: websocket.StatusInternalError, reason: string(fault.Upstream), fault: fault.New(fault.Upstream, public, err), cut: true,
		broken: fmt.Errorf("%s: %w", public, err),
	}
}

// refused is the ending of a session that may not go on.
func refused(err error) ending {
	f := fault.From(err)
	code := websocket.StatusPolicyViolation
	switch {
	case f.Kind == fault.Overloaded:
		code = websocket.StatusTryAgainLater
	case f.Kind == fault.TooLarge:
		code = websocket.StatusMessageTooBig
	case f.Kind == fault.Unavailable && errors.Is(err, ErrDraining):
		code = websocket.StatusGoingAway
	case f.HTTPStatus() >= 500:
		code = websocket.StatusInternalError
	}
	return ending{code: code, reason: string(f.Kind), fault: f}
}

// ErrDraining is the cause of the fault of sessions that end because the gateway is stopped.
var ErrDraining = errors.New("the gateway is draining")

var (
	errNoPong = errors.New("no answer to a ping")
	errStuck  = errors.New("it does not read what it is sent")
	errSlow   = errors.New("a message did not arrive in time")
)

// unsent is the ending of a session whose provider did not take an event. If the connection has ended the reader knows more, and its ending comes first.
func unsent(ctx context.Context, err error) ending {
	if errors.Is(err, context.DeadlineExceeded) {
		return broken("the provider does not answer", errStuck)
	}
	late := time.NewTimer(goodbyeTime)
	defer late.Stop()
	select {
	case <-late.C:
	case <-ctx.Done():
	}
	return broken("the provider ended the session", err)
}

// leftBy is the ending of a session whose client's connection ended with an error.
func leftBy(err error) ending {
	switch code := websocket.CloseStatus(err); code {
	case -1, websocket.StatusNoStatusRcvd, websocket.StatusAbnormalClosure, websocket.StatusTLSHandshake:
		return ending{code: websocket.StatusNormalClosure}
	default:
		return ending{code: code}
	}
}

// endedBy is the ending of a session whose provider's connection ended with an error. A close that says that the session is over, or that what the client sent
// is not accepted, is passed on; every other end is the provider's failure.
func endedBy(err error) ending {
	switch code := websocket.CloseStatus(err); code { //nolint:exhaustive // the others are failures
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusUnsupportedData, websocket.StatusInvalidFramePayloadData, websocket.StatusMessageTooBig:
		return ending{code: code, reason: "provider_closed", cut: true}
	}
	return broken("the provider ended the session", err)
}
