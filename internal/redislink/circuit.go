package redislink

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// While Redis is down, no command waits for it: after one that failed to connect, or three consecutive ones that timed out, no more are sent. Redis
// is then probed in the background, with doubling pauses, until it answers within their timeout.

// Pauses between probes, and the time without a failure after which they start again with the shortest.
const (
	firstPause  = 100 * time.Millisecond
	longPause   = 5 * time.Second
	steadyAfter = 10 * time.Second
)

// maxSlow is how many consecutive commands may time out.
const maxSlow = 3

// errFirst is the error of a Redis that could not be reached at the start.
var errFirst = errors.New("it could not be reached at the start")

// circuit is the state of Redis.
type circuit struct {
	mu     sync.Mutex
	slow   int   // consecutive timeouts
	cause  error // nil: Redis answers
	pause  time.Duration
	since  time.Time // when it answered again
	broken time.Time // older connections are not used
	opened chan struct{}
}

func (c *circuit) init() { c.opened = make(chan struct{}, 1) }

// problem returns why no command is sent; nil if Redis answers.
func (c *circuit) problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

// answered records a command that was answered.
func (c *circuit) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = 0
}

// errStaleConnection is the error of a connection from before a failure.
var errStaleConnection = errors.New("the connection is from before a failure")

// borrow refuses connections that were last used before a failure.
func (c *circuit) borrow(_ redigo.Conn, used time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if used.Before(c.broken) {
		return errStaleConnection
	}
	return nil
}

// broke records that a connection broke: others may be as old.
func (c *circuit) broke(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = now
}

// failed records a failure, and reports whether it opens the circuit.
func (c *circuit) failed(err error) (opens bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slow++; c.cause != nil || isTimeout(err) && c.slow < maxSlow {
		return false
	}
	c.cause, c.broken = err, time.Now()
	select {
	case c.opened <- struct{}{}:
	default:
	}
	return true
}

// rest returns the next pause.
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

// recovered ends an outage.
func (c *circuit) recovered(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cause, c.slow, c.since = nil, 0, now
}

func isTimeout(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// watch probes Redis after each outage, until the link is closed.
func (l *Link) watch() {
	for {
		select {
		case <-l.circuit.opened:
		case <-l.closing:
			return
		}
		if !l.awaitRecovery() {
			return
		}
	}
}

// awaitRecovery returns when Redis answers; false if the link was closed first.
func (l *Link) awaitRecovery() bool {
	for {
		select {
		case <-time.After(l.circuit.rest(time.Now())):
		case <-l.closing:
			return false
		}
		if l.probe(context.Background()) == nil {
			l.circuit.recovered(time.Now())
			l.o.Log.Info(l.o.Back)
			return true
		}
	}
}

// IsBroken reports whether an error is that of a connection, and not of a command or its timeout.
func IsBroken(err error) bool {
	_, replied := errors.AsType[redigo.Error](err)
	return !replied && !isTimeout(err)
}
