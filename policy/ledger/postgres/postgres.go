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
	"sync/atomic"
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

	silentTime   = 3 * time.Second // without an answer: then another connection finds out whether one may still come
	probeTimeout = 2 * time.Second
)

// Reasons why a connection without an answer is not waited for.
var (
	ErrSilent  = errors.New("the database does not answer on another connection either")
	ErrNotBusy = errors.New("the database does not work on a statement of this connection: a message between it and the gateway is lost")
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
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}
	c.DialFunc = d.DialContext
	if !writes {
		return stdlib.OpenDB(*c), nil
	}
	probe := c.Copy()
	return stdlib.OpenDB(*c, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		var process atomic.Uint32
		c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &answering{Conn: conn, check: func() error { return checkBusy(probe, process.Load()) }}, nil
		}
		c.AfterConnect = func(_ context.Context, conn *pgconn.PgConn) error {
			process.Store(conn.PID())
			return nil
		}
		return nil
	})), nil
}

// selectNotBusy reports whether a process of the database has waited for a statement for as long as an answer may be on its way. It is false for an unknown
// process, such as a connection pooler's number, or zero.
const selectNotBusy = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND state LIKE 'idle%' AND state_change < clock_timestamp() - interval '2 seconds')`

// checkBusy is nil if an answer may still come from the process of the database that serves a connection: the database answers on a new connection, if only by
// an error, and the process works on a statement.
func checkBusy(c *pgx.ConnConfig, process uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	var notBusy bool
	conn, err := pgx.ConnectConfig(ctx, c)
	if err == nil {
		err = errors.Join(conn.QueryRow(ctx, selectNotBusy, process).Scan(&notBusy), conn.Close(ctx))
	}
	_, isAnswer := errors.AsType[*pgconn.PgError](err)
	switch {
	case err != nil && !isAnswer:
		return ErrSilent
	case notBusy:
		return ErrNotBusy
	}
	return nil
}

// answering is a connection with a read timeout: the ledger's writer has no context, and a lost network is not always reported. A slow statement has more time
// than a database that does not answer at all, or has nothing to do.
type answering struct {
	net.Conn

	check func() error // nil if an answer may still come

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
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !waits || c.isOver() {
			return n, err
		}
		if cause := c.check(); cause != nil {
			return 0, fmt.Errorf("%w: %w", err, cause)
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
