package event

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/sse"
)

// beatEvery is the idle time after which a reader is sent a comment.
const beatEvery = 15 * time.Second

// Gap is the name of the frame that reports missed events. It has no id.
const Gap = "bardo:gap"

// gap describes what a reader missed.
type gap struct {
	Missed *int64 `json:"missed"` // null: unknown
	Reason string `json:"reason"` // slow: it read too slowly, or reconnected too late; unknown_id: the id that it sent is not of this stream
}

// The reasons of a gap.
const (
	gapSlow    = "slow"
	gapUnknown = "unknown_id"
)

// Reader is one reader of the events of a key, or of all. It keeps none itself: a reader that is too slow for the ring is sent the number of events
// that it missed. Not safe for concurrent use.
type Reader struct {
	journal   *journal
	ring      *ring
	at        int64 // number of the next event to send
	gap       string
	wake      chan struct{}
	heartbeat *time.Ticker
}

// resume returns where a reader starts: after the event with id last. With an id of another ring it starts with the oldest event.
func (r *ring) resume(last string) (at int64, why string) {
	if last == "" {
		return r.next, ""
	}
	of, number, _ := strings.Cut(last, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if of != r.boot || err != nil || n < 0 || n >= r.next {
		return r.first(), gapUnknown
	}
	return n + 1, ""
}

// Close ends the reader. It may be called once.
func (f *Reader) Close() {
	f.heartbeat.Stop()
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	delete(f.ring.readers, f)
	f.ring.left = time.Now()
	f.journal.readers--
}

// Next waits for the next frames: events, a gap, or a comment that keeps the connection alive. It returns nothing on timeout, and the context's
// error.
func (f *Reader) Next(ctx context.Context, within time.Duration) ([]byte, error) {
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		if out := f.pending(); len(out) > 0 {
			f.heartbeat.Reset(beatEvery)
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end.C:
			return nil, nil
		case <-f.wake:
		case <-f.heartbeat.C:
			return []byte(sse.Heartbeat), nil
		}
	}
}

// pending returns the frames that are not sent yet.
func (f *Reader) pending() (out []byte) {
	f.journal.mu.Lock()
	defer f.journal.mu.Unlock()
	r, first := f.ring, f.ring.first()
	switch {
	case f.gap != "":
		out, f.gap = appendGap(out, gap{Reason: f.gap}), ""
	case f.at < first:
		out = appendGap(out, gap{Missed: new(first - f.at), Reason: gapSlow})
	}
	f.at = max(f.at, first)
	for i := f.at - first; i < int64(len(r.events)); i++ {
		out = sse.AppendEvent(appendID(out, r.boot, first+i), r.events[i].name, r.events[i].data)
	}
	f.at = r.next
	return out
}

func appendGap(b []byte, g gap) []byte {
	data, err := json.Marshal(g)
	if err != nil { // cannot fail for this type
		return b
	}
	return sse.AppendEvent(b, Gap, data)
}

// appendID appends the id of an event, with which the stream can be resumed.
func appendID(b []byte, boot string, number int64) []byte {
	b = append(append(append(b, "id: "...), boot...), '-')
	return append(strconv.AppendInt(b, number, 10), '\n')
}
