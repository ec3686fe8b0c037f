package adminapi

import (
	"errors"
	"net/http"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
)

const (
	// streamLife bounds a stream; clients of event streams reconnect automatically.
	streamLife = 15 * time.Minute
	// streamPoll is how often streamLife is checked while no event arrives.
	streamPoll = time.Minute
	// streamWriteTimeout bounds a write to a client that does not read.
	streamWriteTimeout = 10 * time.Second
)

// stream sends all events until the client disconnects, stops reading, or the process ends. It returns an error only if the stream has not begun.
func (a *api) stream(w http.ResponseWriter, r *http.Request) error {
	f, err := a.Events.FollowAll(r.Header.Get("Last-Event-ID"))
	if errors.Is(err, event.ErrTooMany) {
		return fault.Newf(fault.RateLimited, "%v: at most %d of operators, and %d in all", err, event.MaxReadersOfOne, event.MaxReaders)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // fails for a writer without a connection
	if out.Flush() != nil {
		return nil // the client has disconnected
	}
	for end := time.Now().Add(streamLife); time.Now().Before(end); {
		b, err := f.Next(r.Context(), streamPoll)
		if err != nil {
			return nil // the client has disconnected, or the process ends
		}
		_ = out.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
		if _, err := w.Write(b); err != nil || out.Flush() != nil { //nolint:gosec // G705: browsers do not render an event stream as a page
			return nil // the client has disconnected
		}
	}
	return nil
}

// eventKinds lists the kinds of events.
func (*api) eventKinds(*http.Request) (reply, error) { return listed(event.Catalogue(), false), nil }
