// Package postgres connects the ledger to PostgreSQL with the driver pgx. Only the program bardo imports it: the data path in Envoy's process has its ledger
// in a file. It does not know the schema.
package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// Timeouts of connections that write. A transaction of the ledger takes milliseconds.
const (
	lockTimeout      = "5s"  // to wait for the transactions of other gateways
	statementTimeout = "20s" // enforced by the server
	idleTimeout      = "10s" // of a transaction whose gateway sends nothing: others wait for it
	answerTimeout    = 25 * time.Second
	dialTimeout      = 5 * time.Second
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
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil || !writes {
			return conn, err
		}
		return answering{conn}, nil
	}
	return stdlib.OpenDB(*c), nil
}

// answering is a connection with a read timeout: the ledger's writer has no context, and a lost network is not always reported.
type answering struct{ net.Conn }

// Read is that of net.Conn.
func (c answering) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(answerTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}
