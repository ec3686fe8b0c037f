package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

// Follower is a stream of events for one caller. Next waits up to within for the next bytes to send, and returns nothing after that.
type Follower interface {
	Next(ctx context.Context, within time.Duration) ([]byte, error)
	Close()
}

// eventStream returns the head of a stream of events, which must not be cached.
func eventStream() stream.Reply {
	return stream.Reply{Status: http.StatusOK, Header: header.List{{Name: "content-type", Value: "text/event-stream"}, {Name: "cache-control", Value: "no-store"}}}
}

// StreamEvents is GET /v1/events: the events of the caller's key as they happen, after the one that Last-Event-ID names.
func (s *Server) StreamEvents(_ context.Context, c *Caller) (stream.Reply, error) {
	r := eventStream()
	if c.Principal.Account == "" {
		return r, fault.Newf(fault.InvalidAPIKey, "events are shown to the key whose requests they are about: send one")
	}
	if s.Events == nil {
		return r, fault.Newf(fault.NotFound, "this gateway has no events")
	}
	if c.Head.Method == http.MethodHead {
		return r, nil
	}
	f, err := s.Events.Follow(c.Principal.Account, c.Head.Header.Get("last-event-id"))
	if errors.Is(err, event.ErrTooMany) {
		return r, fault.Newf(fault.RateLimited, "%v: at most %d of one key, and %d in all", err, event.MaxReadersOfOne, event.MaxReaders)
	}
	if err == nil {
		c.Follow = f
	}
	return r, err
}
