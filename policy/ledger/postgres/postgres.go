// Package postgres connects the ledger to PostgreSQL with the driver pgx. Only the program bardo imports it: the data path in Envoy's process has its ledger
// in a file. It does not know the schema.
package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Timeouts of connections that write. A transaction of the ledger takes milliseconds.
const (
	lockTimeout      = "5s"  // to wait for the transactions of other gateways
	statementTimeout = "20s" // enforced by the server
	idleTimeout      = "10s" // of a transaction whose gateway sends nothing: others wait for it
	answerTimeout    = 25 * time.Second
	dialTimeout      = 5 * time.Second

	silentTime   = 3 * time.Second // without an answer: then another connection finds out whether the database answers at all
	probeTimeout = 2 * time.Second
)

// schema is the ledger's schema, unless the URL has a search_path.
const schema = "bardo"

// Connect opens connections to a database. It implements ledger.Connect.
func Connect(_ context.Context, url string, writes bool) (*sql.DB, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("store.ledger: %w", err) // without the password
	}
	set := func(name, value string) {
		if _, ok := c.RuntimeParams[name]; !ok {
			c.RuntimeParams[name] = value
		}
	}
	set("application_name", "bardo")
	set("search_path", schema)
	if writes {
		set("lock_timeout", lockTimeout)
		set("statement_timeout", statementTimeout)
		set("idle_in_transaction_session_timeout", idleTimeout)
	}
	c.ConnectTimeout = dialTimeout
	probe := c.Copy()
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil || !writes {
			return conn, err
		}
		return &answering{Conn: conn, answers: func() bool { return answers(probe) }}, nil
	}
	return stdlib.OpenDB(*c), nil
}

// answers reports whether a database answers on a new connection, if only by an error.
func answers(c *pgx.ConnConfig) bool {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, c)
	if err == nil {
		err = errors.Join(conn.Ping(ctx), conn.Close(ctx))
	}
	_, isAnswer := errors.AsType[*pgconn.PgError](err)
	return err == nil || isAnswer
}

// answering is a connection with a read timeout: the ledger's writer has no context, and a lost network is not always reported. A slow statement has more time
// than a database that does not answer at all.
type answering struct {
	net.Conn

	answers func() bool // whether the database answers on another connection

	mu    sync.Mutex
	limit time.Time // set by SetDeadline; zero means none
}

// SetDeadline is that of net.Conn. The driver calls it when a context ends.
func (c *answering) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	return c.Conn.SetDeadline(t)
}

// Read is that of net.Conn.
func (c *answering) Read(b []byte) (int, error) {
	end := time.Now().Add(answerTimeout)
	for {
		waits, err := c.startRead(end)
		if err != nil {
			return 0, err
		}
		n, err := c.Conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !waits || c.isOver() || !c.answers() {
			return n, err
		}
	}
}

// isOver reports whether the deadline that the driver has set has passed.
func (c *answering) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.limit.IsZero() && !c.limit.After(time.Now())
}

// startRead sets the deadline of the next read. waits: after that, the read may be repeated.
func (c *answering) startRead(end time.Time) (waits bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() && c.limit.Before(end) {
		end = c.limit
	}
	next := time.Now().Add(silentTime)
	if waits = next.Before(end); !waits {
		next = end
	}
	return waits, c.SetReadDeadline(next)
}
