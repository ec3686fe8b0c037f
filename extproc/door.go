package extproc

import "bardo.money/gateway/internal/header"

const (
	internalPrefix  = "x-bardo-internal-" // headers between the gateway's own parts: never from a client, never to a provider
	maxErrorBody    = 1 << 20
	bodyChunk       = 60 << 10 // below the 64 KiB that Envoy takes in one message
	contentTypeJSON = "application/json"
	contentTypeSSE  = "text/event-stream"
)

// reply is a whole answer of the gateway's own.
type reply struct {
	status int
	header header.List
	body   []byte
}

// forward is a request on its way to Envoy's route.
type forward struct {
	set      header.List
	remove   []string
	body     []byte
	groups   []string // clusters in the order of attempts
	exchange string   // the exchange's id, for the streams of later attempts
}

// piece is the next part of an upstream's answer on the native path: first a head, then bodies.
type piece struct {
	head *answerHead
	body []byte
	end  bool
}

// answerHead is what Envoy says about an answer before its body.
type answerHead struct {
	status   int
	header   header.List
	cluster  string
	details  string   // Envoy's response code details: "via_upstream", or why it answered itself
	attempts int      // how many attempts Envoy made
	outcomes []string // of each attempt that had an answer, but a good one: "cluster;status;retry-after", by attempt number from 1
}

// door is how an exchange speaks to its client. It is implemented over ext_proc; nothing behind it knows gRPC.
// Not safe for concurrent use.
type door interface {
	// RequestBody adds the request's body to u, piece by piece. It stops at the first error of u's, and answers a client whose body is
	// late: the error is then an answeredError.
	RequestBody(u *upload) error
	// Reply answers with a whole message; on the native path it may come as long as no answer head was sent.
	Reply(r reply) error
	// Forward lets Envoy carry the request to the clusters of f.groups.
	Forward(f forward) error
	// Next waits for the next piece of the answer to a forwarded request.
	Next() (piece, error)
	// Answer puts a whole answer in the place of a forwarded request's, whose headers in remove are dropped.
	Answer(r reply, remove []string) error
	// StreamHead, StreamBody and StreamTrailers answer piece by piece without an upstream.
	StreamHead(status int, h header.List) error
	StreamBody(b []byte, end bool) error
	StreamTrailers(h header.List) error
}
