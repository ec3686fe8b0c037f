// Package relay passes what happens in a data path, here or in Envoy's process, to something that sends it elsewhere, which exists while the configuration
// asks for it. It does not know what is sent, or how.
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
	// backlog is how many things wait for a taker; the oldest are dropped.
	backlog = 2048
	// patience bounds how long a reader that does not read is waited for.
	patience = 10 * time.Second
	// retryTime is the time between two calls of a data path that does not answer.
	retryTime = 100 * time.Millisecond
)

// Source gives things to take until ctx is done, and tells lost how many it had to drop.
type Source[T any] func(ctx context.Context, take func(*T), lost func(n uint64))

// FromFeed is the source of a data path in this process.
func FromFeed[T any](feed *event.Feed[T]) Source[T] {
	return func(ctx context.Context, take func(*T), lost func(uint64)) {
		w := feed.Watch(backlog)
		defer w.Close()
		dropped := counter(w.Lost, lost)
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

// counter tells lost by how much a count has grown since the last call.
func counter(now func() uint64, lost func(uint64)) func() {
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

// Serve streams what a feed gets, a line of JSON each, until the reader goes away.
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
				if conn.SetWriteDeadline(time.Now().Add(patience)) != nil || out.Encode(line[T]{&f, watcher.Lost()}) != nil {
					return // the reader has gone
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

// FromStream is the source of a data path in Envoy's process. open opens its stream; it is called again when the stream ends, since Envoy may be started again.
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
	defer func() { _ = body.Close() }() // it was read
	var l line[T]
	dropped := counter(func() uint64 { return l.Lost }, lost)
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
