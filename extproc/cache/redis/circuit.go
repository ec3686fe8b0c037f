package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// While Redis does not answer, no request waits for it: after a lookup that failed to connect, or three in a row that were too slow, the others are skipped. In
// the background Redis is then asked again, with doubling pauses, until it answers within the time limit of a lookup.

// Pauses between two attempts, and after how long without a failure they begin again with the shortest.
const (
	firstPause  = 100 * time.Millisecond
	longPause   = 5 * time.Second
	steadyAfter = 10 * time.Second
)

// maxSlow is how many lookups in a row may be too slow.
const maxSlow = 3

// errAway is that of a lookup that was skipped.
var errAway = errors.New("the shared store did not answer before")

// errFirst is that of a store that could not be reached at the start.
var errFirst = errors.New("it could not be reached at the start")

// circuit is what is known of Redis.
type circuit struct {
	mu     sync.Mutex
	slow   int   // lookups in a row
	why    error // nil: it answers
	pause  time.Duration
	since  time.Time // when it answered again
	broken time.Time // connections from before are not used
	opened chan struct{}
}

func (c *circuit) init() { c.opened = make(chan struct{}, 1) }

// away is why lookups are skipped; nil if they are not.
func (c *circuit) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// answered notes a lookup that succeeded.
func (c *circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = 0
}

// errOld is that of a connection that is not used.
var errOld = errors.New("the connection is from before a failure")

// borrow refuses connections that were last used before a failure.
func (c *circuit) borrow(_ redigo.Conn, used time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used.Before(c.broken) {
		return errOld
	}
	return nil
}

// broke notes that a connection broke: others may be as old.
func (c *circuit) broke(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = now
}

// failed notes a failure, and reports whether lookups are skipped from now on.
func (c *circuit) failed(err error) (opens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow++; c.why != nil || isTimeout(err) && c.slow < maxSlow {
		return false
	}
	c.why, c.broken = err, time.Now()
	select {
	case c.opened <- struct{}{}:
	default:
	}
	return true
}

// rest is the next pause.
func (c *circuit) rest(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pause == 0 || !c.since.IsZero() && now.Sub(c.since) > steadyAfter {
		c.pause = firstPause
	} else {
		c.pause = min(2*c.pause, longPause)
	}
	c.since = time.Time{}
	return c.pause/2 + rand.N(c.pause) //nolint:gosec // so that gateways do not ask at once
}

// back ends the skipping.
func (c *circuit) back(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why, c.slow, c.since = nil, 0, now
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// fail notes a failure.
func (s *Store) fail(err error) {
	if s.circuit.failed(err) {
		s.o.Log.Warn("the shared store of answers is away: requests go on without it", "error", err)
	}
}

// Problem is why lookups are skipped; nil while Redis answers.
func (s *Store) Problem() error { return s.circuit.away() }

// watch asks Redis again after each outage, until the store is closed.
func (s *Store) watch() {
	for {
		select {
		case <-s.circuit.opened:
		case <-s.closing:
			return
		}
		if !s.awaitBack() {
			return
		}
	}
}

// awaitBack returns when Redis answers; false if the store is closed before.
func (s *Store) awaitBack() bool {
	for {
		select {
		case <-time.After(s.circuit.rest(time.Now())):
		case <-s.closing:
			return false
		}
		if s.probe(context.Background()) == nil {
			s.circuit.back(time.Now())
			s.o.Log.Info("the shared store of answers is back")
			return true
		}
	}
}

// lookup asks Redis something within the time limit of a lookup. A connection that broke while nobody used it is replaced by a new one.
func (s *Store) lookup(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	if err := s.circuit.away(); err != nil {
		s.o.Looked(Unasked)
		return nil, fmt.Errorf("%w: %w", errAway, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Timeout) // a layer may be allowed less time
	defer cancel()
	out, err := s.ask(ctx, do)
	if err != nil && isBroken(err) {
		s.circuit.broke(time.Now())
		out, err = s.ask(ctx, do)
	}
	if err != nil {
		s.o.Looked(Failed)
		s.fail(err)
		return nil, err
	}
	s.circuit.answered()
	return out, nil
}

func (s *Store) ask(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	c, err := s.lookups.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return do(c)
}

// isBroken reports whether an error is that of a connection, and not of what was asked or of its time.
func isBroken(err error) bool {
	_, said := errors.AsType[redigo.Error](err)
	return !said && !isTimeout(err)
}

// probe asks Redis whether it answers within the time limit of a lookup. Connecting may take longer.
func (s *Store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := s.lookups.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Do("PING")
	return err
}
