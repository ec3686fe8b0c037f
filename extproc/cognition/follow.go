package cognition

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
)

// Intervals of the rates event, and of keepalives.
const (
	statsEvery = 30 * time.Second
	beatEvery  = 15 * time.Second
)

// Follower is one reader of the stream of an account. Not safe for concurrent use.
type Follower struct {
	bridge  *Bridge
	account policy.Account
	mock    *mock // nil: the account's own events
	at      int64 // number of the next event to send
	lost    bool

	wake        chan struct{}
	stats, beat *time.Ticker
	tick        *time.Ticker // of the mock; nil without one
}

// Follow subscribes to an account's events after the one that last names; "" starts from now. An id of an earlier process starts with all stored
// events. The caller calls Close at the end.
func (b *Bridge) Follow(a policy.Account, last string, s Settings) (*Follower, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.plane(a)
	if b.followers >= maxFollowers || len(p.followers) >= maxOfOne {
		return nil, errFollowers()
	}
	f := &Follower{bridge: b, account: a, wake: make(chan struct{}, 1), stats: time.NewTicker(statsEvery), beat: time.NewTicker(beatEvery)}
	if s.Mock {
		f.mock = s.source()
		f.tick = time.NewTicker(f.mock.every)
		f.at = resumeAt(last, mockBoot, f.mock.first(), f.mock.now())
	} else {
		first := p.next - int64(len(p.events))
		f.at = resumeAt(last, b.boot, first, p.next)
		f.lost = f.at < first
	}
	p.followers[f] = struct{}{}
	b.followers++
	return f, nil
}

// resumeAt returns the number of the event to start with: first is the oldest stored one, next the one after the latest.
func resumeAt(last, boot string, first, next int64) int64 {
	if last == "" {
		return next
	}
	of, number, _ := strings.Cut(last, "-")
	n, err := strconv.ParseInt(number, 10, 64)
	if of != boot || err != nil || n < 0 || n >= next {
		return first
	}
	return n + 1
}

// Close ends the subscription.
func (f *Follower) Close() {
	f.stats.Stop()
	f.beat.Stop()
	if f.tick != nil {
		f.tick.Stop()
	}
	f.bridge.mu.Lock()
	defer f.bridge.mu.Unlock()
	if p, ok := f.bridge.accounts[f.account]; ok {
		delete(p.followers, f)
	}
	f.bridge.followers--
}

// Next waits for the next bytes to send: events, or a keepalive comment. It returns nothing after within, and the context's error.
func (f *Follower) Next(ctx context.Context, within time.Duration) ([]byte, error) {
	end := time.NewTimer(within)
	defer end.Stop()
	for {
		if out := f.pending(); len(out) > 0 {
			f.beat.Reset(beatEvery)
			return out, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end.C:
			return nil, nil
		case <-f.wake:
		case <-f.mockTick():
		case <-f.stats.C:
			f.beat.Reset(beatEvery)
			return f.rates(), nil
		case <-f.beat.C:
			return []byte(sse.Heartbeat), nil
		}
	}
}

// mockTick returns a channel that ticks when the mock has another event; nil without one.
func (f *Follower) mockTick() <-chan time.Time {
	if f.tick == nil {
		return nil
	}
	return f.tick.C
}

// pending returns the events that were not sent yet.
func (f *Follower) pending() (out []byte) {
	if f.mock != nil {
		for now := f.mock.now(); f.at < now; f.at++ {
			out = f.mock.appendEvents(out, f.at)
		}
		return out
	}
	f.bridge.mu.Lock()
	defer f.bridge.mu.Unlock()
	p, ok := f.bridge.accounts[f.account]
	if !ok {
		return nil
	}
	if first := p.next - int64(len(p.events)); f.at < first || f.lost {
		out, f.at, f.lost = sse.AppendComment(out, "events were lost"), max(f.at, first), false
	}
	for _, e := range p.events[len(p.events)-int(p.next-f.at):] {
		out = appendEvent(out, f.bridge.boot, e.number, e.name, e.data)
	}
	f.at = p.next
	return out
}

// appendEvent appends a frame with an id, by which the stream can be resumed.
func appendEvent(b []byte, boot string, number int64, name string, data []byte) []byte {
	b = append(append(append(b, "id: "...), boot...), '-')
	b = append(strconv.AppendInt(b, number, 10), '\n')
	return sse.AppendEvent(b, name, data)
}

// rates returns the rates event. It has no id: it repeats known facts.
func (f *Follower) rates() []byte {
	e := rates{Mock: f.mock != nil}
	if f.mock != nil {
		e.Rates = hitRates(f.mock.records())
	} else {
		e.Rates = f.bridge.Status(f.account).HitRates
	}
	data, err := json.Marshal(e)
	if err != nil { // numbers always marshal
		return nil
	}
	return sse.AppendEvent(nil, "cache-stats", data)
}
