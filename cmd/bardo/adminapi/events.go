package adminapi

import (
	"errors"
	"net/http"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
)

const (
	// streamLife is how long a stream lasts; clients of event streams connect again by themselves.
	streamLife = 15 * time.Minute
	// streamPoll is how often a stream looks whether its time is over.
	streamPoll = time.Minute
	// streamPatience is how long a reader may take nothing of what it is sent before it is cut.
	streamPatience = 10 * time.Second
)

// stream sends the events of all keys, and of none, until the reader leaves, takes nothing, or the process ends. The error is of a stream that has not begun.
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
	_ = out.SetWriteDeadline(time.Time{}) // a writer without a connection has none
	if out.Flush() != nil {
		return nil // the reader has gone
	}
	for end := time.Now().Add(streamLife); time.Now().Before(end); {
		b, err := f.Next(r.Context(), streamPoll)
		if err != nil {
			return nil // the reader has gone, or the process ends
		}
		_ = out.SetWriteDeadline(time.Now().Add(streamPatience))
		if _, err := w.Write(b); err != nil || out.Flush() != nil { //nolint:gosec // G705: an event stream, which no browser shows as a page
			return nil // the reader has gone
		}
	}
	return nil
}

// eventKinds are the kinds of events that there are.
func (*api) eventKinds(*http.Request) (reply, error) { return listed(event.Catalogue(), false), nil }
