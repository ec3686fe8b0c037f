// Package stream is the interface between an exchange and its downstream connection: Client is the connection, Handler serves it, and Caller calls Envoy's
// clusters for a request that stays on its thread. It does not know gRPC or Envoy's interfaces: package processor implements it over Envoy's external
// processing filter, package module inside Envoy's process.
package stream

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/internal/header"
)

// MaxPiece is the maximum size of a body in one message, in bytes: Envoy accepts 64 KiB.
const MaxPiece = 60 << 10

// Reply is a complete answer of the gateway.
type Reply struct {
	Status int
	Header header.List
	Body   []byte
}

// Forward is a request that Envoy routes to a provider.
type Forward struct {
	Set      header.List
	Remove   []string
	Body     []byte
	Clusters []string // clusters in the order of attempts
	Exchange string   // the exchange's id, by which the streams of later attempts find it
}

// Piece is the next part of an upstream answer on the native path: first the head, then pieces of the body.
type Piece struct {
	Head *AnswerHead
	Body []byte
	End  bool
}

// AnswerHead is an upstream answer's status and headers, with Envoy's attributes.
type AnswerHead struct {
	Status   int
	Header   header.List
	Cluster  string
	Details  string   // Envoy's response code details: "via_upstream", or why it answered itself
	Attempts int      // how many attempts Envoy made
	Outcomes []string // of each failed attempt with an answer: "cluster;status;retry-after"; index 0 is attempt 1
}

// Outcome returns the outcome of attempt i (from 1), or "".
func (h *AnswerHead) Outcome(i int) string {
	if i > len(h.Outcomes) {
		return ""
	}
	return h.Outcomes[i-1]
}

// RequestBody receives a request's body.
type RequestBody interface {
	// Add appends a piece, which is valid during the call.
	Add(piece []byte) error
	// Wait returns the timeout of the next piece; 0 means none.
	Wait() time.Duration
	// TimedOut answers a client whose body timed out, with reply. It runs on its own goroutine while nothing else uses the body.
	TimedOut(reply func(Reply) error)
}

// ErrAnswered is returned if the client was already answered.
var ErrAnswered = errors.New("the client was answered before its request was complete")

// ErrDisconnected is returned by a Client's methods after the client disconnected. The request's context may end slightly later.
var ErrDisconnected = errors.New("the client disconnected")

// ErrTruncated ends a truncated answer whose format cannot report an error: Envoy resets the stream.
var ErrTruncated = errors.New("the answer was truncated")

// Client is the downstream side of one exchange.
// Not safe for concurrent use.
type Client interface {
	// RequestBody adds the request's body to u, piece by piece, until u's first error. If the body times out, u answers and the error is
	// ErrAnswered.
	RequestBody(u RequestBody) error
	// Reply sends a complete answer. On the native path it is allowed until an answer's head was sent.
	Reply(r Reply) error
	// Forward lets Envoy send the request to f.Clusters, with failover in this order.
	Forward(f Forward) error
	// Next waits for the next piece of the answer to a forwarded request.
	Next() (Piece, error)
	// Answer replaces the answer to a forwarded request, and removes the provider's headers that are listed.
	Answer(r Reply, remove []string) error
	// StreamHead, StreamBody and StreamTrailers send an answer in pieces, without an upstream of Envoy's.
	StreamHead(status int, h header.List) error
	StreamBody(b []byte, end bool) error
	StreamTrailers(h header.List) error
	// Leave runs f, which ends the request and may block on anything, and returns its error. A client on a thread that must not block runs f later:
	// it returns a *Leaving, which Serve must return.
	Leave(f func() error) error
	// Turn lets the other requests that are running on the same thread reach the same step, so that the processor runs the same code for one after
	// the other. It returns immediately if there are none. No lock that others wait for may be held meanwhile.
	Turn()
	// Caller returns the caller for calls from the thread; nil for a request that has left the thread, or has a goroutine of its own.
	Caller() Caller
}

// Leaving is returned by Serve for a request that continues elsewhere: the engine calls Rest on another thread, and uses its error.
type Leaving struct{ Rest func() error }

// Error implements error. It is not shown.
func (*Leaving) Error() string { return "the request goes on elsewhere" }

// Handler serves requests. Safe for concurrent use.
type Handler interface {
	// Serve handles one request completely. bodyless is true if the request has no body. After an error Envoy ends the request: the client has no
	// answer, or part of one. It may run on a thread that serves many requests: everything that may block on anything but c goes through c.Leave,
	// whose error Serve returns.
	Serve(ctx context.Context, c Client, h Head, bodyless bool) error
	// Attempt encodes the request of one of Envoy's retries. An error ends the client's request.
	Attempt(a *Attempt) (AttemptRequest, error)
	// Opened and Closed are called at the start and end of each stream, of a request or of an attempt.
	Opened()
	Closed()
	// Panicked reports a panic in Serve or Attempt that they did not recover.
	Panicked(value any)
	// Held reports that Serve blocked a thread that serves many requests.
	Held(h coroutine.Hold)
}

// Attempt is a retry by Envoy of a forwarded request. The first attempt has the request of Forward.
type Attempt struct {
	Exchange string      // as in Forward
	Cluster  string      // upstream cluster
	Number   int         // from 1
	Header   header.List // current headers of the request
}

// AttemptRequest is the request of an attempt: headers to set or overwrite, headers to remove, and the body.
type AttemptRequest struct {
	Set    header.List
	Remove []string
	Body   []byte
}
