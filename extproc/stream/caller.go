package stream

import (
	"time"

	"bardo.money/gateway/internal/header"
)

// Caller calls Envoy's clusters for a request that runs on a thread of many requests, where only Wait may block. Its calls end with the client's
// stream at the latest. Not safe for concurrent use.
type Caller interface {
	// Call sends a request to a cluster. h has lower-case names, and :method, :path and :authority. The caller must not change h and body afterwards.
	Call(cluster string, h header.List, body []byte) Call
	// Wait returns when something of a call has arrived, or at until (the zero time: no limit), and possibly without cause. The error is
	// ErrDisconnected.
	Wait(until time.Time) error
}

// Call is one request of a Caller. Its methods do not block.
type Call interface {
	// Head returns the head of the answer; nil if it has not arrived yet. After an error, none arrives.
	Head() (*CallHead, error)
	// Next returns the next piece of the answer's body, which is valid until the next call; ok is false if none has arrived yet. end marks the last
	// one. After an error nothing follows.
	Next() (piece []byte, end, ok bool, err error)
	// Close ends the call.
	Close()
}

// CallHead is the status and the headers of an answer.
type CallHead struct {
	Status  int
	Header  header.List
	Failure string // reason of an answer by Envoy itself, in the words of its response code details; "" for a provider's
}
