// Package relay passes items from a data path, in this process or in Envoy's, to a sink that exists while it is configured. It does not know what the items
// are, or how they are sent.
package relay

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"bardo.money/gateway/internal/event"
)

const (
	// backlog is how many items are queued for a slow sink; the oldest are dropped.
	backlog = 2048
	// writeTimeout bounds a write to a reader that does not read.
	writeTimeout = 10 * time.Second
	// retryTime is the time between two calls of a data path that does not answer.
	retryTime = 100 * time.Millisecond
)

// Source passes items to take until ctx is done, and reports to lost how many it had to drop.
type Source[T any] func(ctx context.Context, take func(*T), lost func(n uint64))

// FromFeed is the source of a data path in this process.
func FromFeed[T any](feed *event.Feed[T]) Source[T] {
	return func(ctx context.Context, take func(*T), lost func(uint64)) {
		w := feed.Watch(backlog)
		defer w.Close()
		dropped := reportGrowth(w.Lost, lost)
		defer dropped()
		for {
			select {
			case f := <-w.Events():
				dropped()
				take(&f)
			case <-ctx.Done():
				for len(w.Events()) > 0 {
					f := <-w.Events()
					take(&f)
				}
				return
			}
		}
	}
}

// reportGrowth returns a function that reports to lost by how much a counter has grown since its last call.
func reportGrowth(now func() uint64, lost func(uint64)) func() {
	var before uint64
	return func() {
		if n := now(); n > before {
			lost(n - before)
			before = n
		}
	}
}

// line is one line of the stream of a data path in Envoy's process.
type line[T any] struct {
	Item *T     `json:"item"`
	Lost uint64 `json:"lost,omitempty"` // since the stream began
}

// Serve streams the items of a feed as JSON lines until the reader disconnects.
func Serve[T any](feed *event.Feed[T]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		watcher := feed.Watch(backlog)
		defer watcher.Close()
		w.Header().Set("Content-Type", "application/x-ndjson")
		out, conn := json.NewEncoder(w), http.NewResponseController(w)
		if conn.Flush() != nil {
			return
		}
		for {
			select {
			case f := <-watcher.Events():
				if conn.SetWriteDeadline(time.Now().Add(writeTimeout)) != nil || out.Encode(line[T]{&f, watcher.Lost()}) != nil {
					return // the reader has disconnected
				}
				if len(watcher.Events()) == 0 && conn.Flush() != nil {
					return
				}
			case <-r.Context().Done():
				return
			}
		}
	}
}

// FromStream is the source of a data path in Envoy's process. open opens its stream; it is called again whenever the stream ends, since Envoy may be
// restarted.
func FromStream[T any](open func(ctx context.Context) (io.ReadCloser, error)) Source[T] {
	return func(ctx context.Context, take func(*T), lost func(uint64)) {
		for ctx.Err() == nil {
			readStream(ctx, open, take, lost)
			select {
			case <-ctx.Done():
			case <-time.After(retryTime):
			}
		}
	}
}

func readStream[T any](ctx context.Context, open func(context.Context) (io.ReadCloser, error), take func(*T), lost func(uint64)) {
	body, err := open(ctx)
	if err != nil {
		return
	}
	defer func() { _ = body.Close() }() // read only
	var l line[T]
	dropped := reportGrowth(func() uint64 { return l.Lost }, lost)
	for in := json.NewDecoder(body); ; {
		l = line[T]{}
		if in.Decode(&l) != nil {
			return
		}
		dropped()
		if l.Item != nil {
			take(l.Item)
		}
	}
}
