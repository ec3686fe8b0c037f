// Package redislink connects to a Redis that may be down: connections, a timeout for each command, and a circuit breaker that skips Redis while it
// does not answer. It does not know what is stored there.
package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/internal/guard"
)

// Timeout of a new connection, and limits of the connections.
const (
	dialTime = time.Second
	idleTime = 4 * time.Minute
	maxConns = 64
)

// Options of a link. All but TLS are required.
type Options struct {
	URL     *url.URL // redis:// or rediss:// with user, password, host and number of the database; or unix:// with a path
	TLS     *tls.Config
	Timeout time.Duration // of one command
	Log     *slog.Logger
	Away    string // log message when Redis stops answering
	Back    string // log message when it answers again
}

// Link is the connection to one Redis. Safe for concurrent use.
type Link struct {
	o       Options
	pool    *redigo.Pool
	circuit circuit
	closing chan struct{}
	done    sync.WaitGroup
	once    sync.Once
}

// Open creates a link and connects. If Redis is down the link starts as after an outage. The error is only about the URL.
func Open(ctx context.Context, o Options) (*Link, error) {
	l := &Link{o: o, closing: make(chan struct{})}
	l.circuit.init()
	var err error
	if l.pool, err = l.Pool(o.Timeout); err != nil {
		return nil, err
	}
	if err := l.probe(ctx); err != nil {
		l.circuit.slow = maxSlow
		l.Failed(fmt.Errorf("%w: %w", errFirst, err))
	}
	l.done.Add(1)
	guard.Go(func() { defer l.done.Done(); l.watch() })
	return l, nil
}

// Pool returns a pool with another timeout, for use outside requests. The caller closes it.
func (l *Link) Pool(limit time.Duration) (*redigo.Pool, error) {
	network, address, options, err := l.target()
	if err != nil {
		return nil, err
	}
	options = append(options, redigo.DialReadTimeout(limit), redigo.DialWriteTimeout(limit), redigo.DialContextFunc(l.connect))
	return &redigo.Pool{
		DialContext: func(ctx context.Context) (redigo.Conn, error) {
			return redigo.DialContext(ctx, network, address, options...)
		},
		MaxIdle: maxConns / 4, MaxActive: maxConns, IdleTimeout: idleTime, Wait: true, TestOnBorrow: l.circuit.borrow,
	}, nil
}

// target parses the URL.
func (l *Link) target() (network, address string, options []redigo.DialOption, err error) {
	u := l.o.URL
	if password, ok := u.User.Password(); ok {
		options = append(options, redigo.DialUsername(u.User.Username()), redigo.DialPassword(password))
	}
	if u.Scheme == "unix" {
		return "unix", u.Path, options, nil
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		n, err := strconv.Atoi(db)
		if err != nil {
			return "", "", nil, fmt.Errorf("the number of the database: %w", err)
		}
		options = append(options, redigo.DialDatabase(n))
	}
	port := u.Port()
	if port == "" {
		port = "6379"
	}
	return "tcp", net.JoinHostPort(u.Hostname(), port), options, nil
}

// connect dials, and encrypts the connection of a rediss:// address.
func (l *Link) connect(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	if l.o.URL.Scheme != "rediss" {
		return d.DialContext(ctx, network, address)
	}
	own := l.o.TLS.Clone()
	if own == nil {
		own = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if own.ServerName == "" {
		own.ServerName = l.o.URL.Hostname()
	}
	return (&tls.Dialer{NetDialer: &d, Config: own}).DialContext(ctx, network, address)
}

// ErrUnasked is the error of a command that was not sent, because the circuit is open.
var ErrUnasked = errors.New("the shared store did not answer before")

// Ask runs a command within the timeout, regardless of the context's. A connection that broke while idle is replaced by a new one, on which the
// command is retried. After an error other than ErrUnasked, Redis may or may not have executed the command.
func (l *Link) Ask(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	if err := l.Problem(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnasked, err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.o.Timeout) // a layer may have less time
	defer cancel()
	out, err := l.ask(ctx, do)
	if err != nil && IsBroken(err) {
		l.Broke()
		out, err = l.ask(ctx, do)
	}
	if err != nil {
		l.Failed(err)
		return nil, err
	}
	l.circuit.answered()
	return out, nil
}

func (l *Link) ask(ctx context.Context, do func(redigo.Conn) (any, error)) (any, error) {
	c, err := l.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return do(c)
}

// Problem returns why no command is sent; nil while Redis answers.
func (l *Link) Problem() error { return l.circuit.problem() }

// Failed records a failed command.
func (l *Link) Failed(err error) {
	if l.circuit.failed(err) {
		l.o.Log.Warn(l.o.Away, "error", err)
	}
}

// Broke records that a connection broke: others may be as old.
func (l *Link) Broke() { l.circuit.broke(time.Now()) }

// probe checks that Redis answers within the timeout. Connecting may take longer.
func (l *Link) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := l.pool.GetContext(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = c.Do("PING")
	return err
}

// Close closes the connections.
func (l *Link) Close() error {
	l.once.Do(func() { close(l.closing) })
	l.done.Wait()
	return l.pool.Close()
}
