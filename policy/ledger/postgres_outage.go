package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
)

// sqlState is PostgreSQL's code of an error; "" for an error of another kind.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// states are those of PostgreSQL's codes, or their classes, that mean an outage.
var states = map[string]string{
	"08":    reasonAway, // the connection fails
	"0A000": reasonAway, // a statement was prepared for an earlier schema
	"25006": reasonReadOnly,
	"25P03": reasonAway, // the session was ended, because its transaction stood still
	"26000": reasonAway, // the statement was prepared in another session, as behind a pool of connections
	"28":    reasonDenied,
	"3D000": reasonGone,
	"3F000": reasonGone,
	"40001": reasonLocked, "40P01": reasonLocked,
	"42501": reasonDenied,
	"42P01": reasonGone,
	"53":    reasonFull, "53300": reasonAway, // too many connections
	"55P03": reasonLocked,
	"57":    reasonAway, "57014": reasonSlow, // the statement's time is over
	"58": reasonDisk,
	"XX": reasonDamaged,
}

const reasonDenied = "the database denies access"

// ofState is what a code of PostgreSQL means; ok is false if it concerns a single change.
func ofState(code string) (reason string, ok bool) {
	if reason, ok = states[code]; !ok && len(code) > 2 {
		reason, ok = states[code[:2]]
	}
	return reason, ok
}

// isAway reports whether an error means that a database did not answer.
func isAway(err error) bool {
	for _, lost := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, errUnsettled} {
		if errors.Is(err, lost) {
			return true
		}
	}
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}
