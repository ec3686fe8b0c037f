package stream

import (
	"time"

	"bardo.money/gateway/internal/header"
)

// Caller calls clusters of Envoy's for a request that runs on a thread of many requests, where nothing may wait but Wait. Its calls end with the client's
// stream at the latest. Not safe for concurrent use.
type Caller interface {
	// Call sends a request to a cluster. h has lower-case names, and :method, :path and :authority. h and body are not changed afterwards.
	Call(cluster string, h header.List, body []byte) Call
	// Wait returns when something of a call has come, or at a time (the zero time: none), and sometimes for nothing. The error is ErrDisconnected.
	Wait(until time.Time) error
}

// Call is one request of a Caller. Its methods do not wait.
type Call interface {
	// Head is the head of the answer; nil if it has not come yet. After an error, none comes.
	Head() (*CallHead, error)
	// Next is the next piece of the answer's body, which is valid until the next call; ok is false if none has come yet. With end it is the last one.
	// After an error nothing follows.
	Next() (piece []byte, end, ok bool, err error)
	// Close ends the call.
	Close()
}

// CallHead is the status and the headers of an answer.
type CallHead struct {
	Status  int
	Header  header.List
	Failure string // of an answer of Envoy's own: why, in the words of its response code details; "" for a provider's
}
