package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/mattn/go-sqlite3"
)

// Why a store cannot be written, for its users: without names of files.
const (
	Full      = "the disk is full"
	Locked    = "another process holds its lock"
	ReadOnly  = "it is read-only"
	DiskFails = "the disk fails"
	Gone      = "its file is not there"
	Damaged   = "its file is damaged"
	Expelled  = "other gateways took this one for dead"
	Away      = "the database does not answer"
	Slow      = "the database is too slow"
	Denied    = "the database denies access"
)

// The conditions that the database itself does not report.
var (
	ErrGone     = errors.New("the store's file is not there")
	ErrReplaced = errors.New("another file has taken the place of the store's")
)

// Outage reports whether an error means that the store cannot be written, and why. Other errors concern a single change.
func Outage(err error) (reason string, ok bool) {
	var s sqlite3.Error
	var errno syscall.Errno
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, ErrGone), errors.Is(err, ErrReplaced), errors.Is(err, fs.ErrNotExist):
		return Gone, true
	case errors.As(err, &s):
		if reason, ok := ofErrno(s.SystemErrno); ok {
			return reason, true
		}
		reason, ok = reasons[s.Code]
		return reason, ok
	case errors.Is(err, ErrExpelled):
		return Expelled, true
	case sqlState(err) != "":
		return ofState(sqlState(err))
	case isAway(err):
		return Away, true
	case errors.As(err, &errno):
		if reason, ok := ofErrno(errno); ok {
			return reason, true
		}
		return DiskFails, true
	}
	return "", false
}

// IsLost reports whether the connection is lost.
func IsLost(err error) bool {
	reason, _ := Outage(err)
	return reason == Away
}

// reasons are texts for SQLite's error codes that mean an outage.
var reasons = map[sqlite3.ErrNo]string{
	sqlite3.ErrFull: Full, sqlite3.ErrBusy: Locked, sqlite3.ErrLocked: Locked, sqlite3.ErrProtocol: Locked,
	sqlite3.ErrReadonly: ReadOnly, sqlite3.ErrPerm: ReadOnly, sqlite3.ErrAuth: ReadOnly,
	sqlite3.ErrIoErr: DiskFails, sqlite3.ErrCantOpen: Gone, sqlite3.ErrCorrupt: Damaged, sqlite3.ErrNotADB: Damaged,
	sqlite3.ErrNomem: "there is no memory for it", sqlite3.ErrInterrupt: DiskFails, sqlite3.ErrNoLFS: DiskFails,
}

// ofErrno is the system's reason, if it is more specific than SQLite's.
func ofErrno(e syscall.Errno) (reason string, ok bool) {
	switch e { //nolint:exhaustive // the others are not more specific than SQLite's
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return Full, true
	case syscall.EROFS:
		return ReadOnly, true
	case syscall.ENOENT, syscall.ENOTDIR:
		return Gone, true
	}
	return "", false
}

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
	"08":    Away, // the connection fails
	"0A000": Away, // a statement was prepared for an earlier schema
	"25006": ReadOnly,
	"25P03": Away, // the session was ended, because its transaction stood still
	"26000": Away, // the statement was prepared in another session, as behind a pool of connections
	"28":    Denied,
	"3D000": Gone,
	"3F000": Gone,
	"40001": Locked, "40P01": Locked,
	"42501": Denied,
	"42P01": Gone,
	"53":    Full, "53300": Away, // too many connections
	"55P03": Locked,
	"57":    Away, "57014": Slow, // the statement's time is over
	"58": DiskFails,
	"XX": Damaged,
}

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
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) { // nobody waits for an answer
		return false
	}
	var unsent interface{ SafeToRetry() bool } // of the driver: nothing was sent, as on a connection that was closed meanwhile
	return errors.As(err, &unsent) && unsent.SafeToRetry()
}
