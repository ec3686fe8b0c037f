// Package stream is how requests come in and answers go out: what an exchange asks of its client's connection, and what serves a
// connection. It knows neither gRPC nor Envoy's interfaces; package processor carries it over Envoy's external processing filter.
package stream

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/internal/header"
)

// MaxPiece is how many bytes of a body go into one message: Envoy takes 64 KiB.
const MaxPiece = 60 << 10

// Reply is a whole answer of the gateway's own.
type Reply struct {
	Status int
	Header header.List
	Body   []byte
}

// Forward is a request on its way to Envoy's route.
type Forward struct {
	Set      header.List
	Remove   []string
	Body     []byte
	Clusters []string // clusters in the order of attempts
	Exchange string   // the exchange's id, for the streams of later attempts
}

// Piece is the next part of an upstream's answer on the native path: first a head, then bodies.
type Piece struct {
	Head *AnswerHead
	Body []byte
	End  bool
}

// AnswerHead is what Envoy says about an answer before its body.
type AnswerHead struct {
	Status   int
	Header   header.List
	Cluster  string
	Details  string   // Envoy's response code details: "via_upstream", or why it answered itself
	Attempts int      // how many attempts Envoy made
	Outcomes []string // of each attempt that had an answer, but a good one: "cluster;status;retry-after", by attempt number from 1
}

// Outcome is what attempt i (from 1) noted, or "".
func (h *AnswerHead) Outcome(i int) string {
	if i > len(h.Outcomes) {
		return ""
	}
	return h.Outcomes[i-1]
}

// RequestBody takes in a request's body.
type RequestBody interface {
	// Add appends a piece, which is valid during the call.
	Add(piece []byte) error
	// Wait is how long the next piece may take; 0 is without bound.
	Wait() time.Duration
	// TimedOut answers a client whose body is late, by reply. It runs on a goroutine of its own, while nothing else uses the body.
	TimedOut(reply func(Reply) error)
}

// ErrAnswered is the error of a request whose client has its answer already.
var ErrAnswered = errors.New("the client was answered while its request came in")

// Client is the downstream side of one exchange.
// Not safe for concurrent use.
type Client interface {
	// RequestBody adds the request's body to u, piece by piece. It stops at u's first error. A client whose body is late is answered by u:
	// the error is then ErrAnswered.
	RequestBody(u RequestBody) error
	// Reply answers with a whole message; on the native path it may come as long as no answer head was sent.
	Reply(r Reply) error
	// Forward has Envoy send the request to f.Clusters, with failover in their order.
	Forward(f Forward) error
	// Next waits for the next piece of the answer to a forwarded request.
	Next() (Piece, error)
	// Answer puts a whole answer in the place of a forwarded request's, whose headers in remove are dropped.
	Answer(r Reply, remove []string) error
	// StreamHead, StreamBody and StreamTrailers answer piece by piece without an upstream.
	StreamHead(status int, h header.List) error
	StreamBody(b []byte, end bool) error
	StreamTrailers(h header.List) error
}

// Handler serves what comes in. Safe for concurrent use.
type Handler interface {
	// Serve handles one request from its head to its last byte. bodyless is true when the request ends with its head. The error is for
	// Envoy: the client has no answer, or half of one.
	Serve(ctx context.Context, c Client, h Head, bodyless bool) error
	// Attempt writes the request of one of Envoy's attempts. The error ends the client's request.
	Attempt(a *Attempt) (AttemptRequest, error)
	// Opened and Closed are called around each stream, of a request or of an attempt.
	Opened()
	Closed()
	// Panicked is told of a panic that neither Serve nor Attempt has caught.
	Panicked(value any)
}

// Attempt is one of Envoy's attempts at a forwarded request, but the first, which Forward wrote.
type Attempt struct {
	Exchange string      // its id, as in forward
	Cluster  string      // where Envoy sends it
	Number   int         // from 1
	Header   header.List // as it stands
}

// AttemptRequest is the request of an attempt: headers to set, which overwrite, headers to remove, and the body.
type AttemptRequest struct {
	Set    header.List
	Remove []string
	Body   []byte
}
