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

// Reasons why a store cannot be written. They may be shown to clients: they contain no names of files.
const (
	Full        = "the disk is full"
	Locked      = "another process holds its lock"
	ReadOnly    = "it is read-only"
	DiskFails   = "the disk fails"
	Missing     = "its file is not there"
	Damaged     = "its file is damaged"
	Expelled    = "other gateways took this one for dead"
	Unreachable = "the database does not answer"
	Slow        = "the database is too slow"
	Denied      = "the database denies access"
)

// The conditions that the database itself does not report.
var (
	ErrMissing  = errors.New("the store's file is not there")
	ErrReplaced = errors.New("another file has taken the place of the store's") // or another database
)

// Outage reports whether an error means that the store cannot be used, and the reason. Other errors concern a single change.
func Outage(err error) (reason string, ok bool) {
	var s sqlite3.Error
	var errno syscall.Errno
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, ErrMissing), errors.Is(err, ErrReplaced), errors.Is(err, fs.ErrNotExist):
		return Missing, true
	case errors.As(err, &s):
		if reason, ok := errnoReason(s.SystemErrno); ok {
			return reason, true
		}
		reason, ok = sqliteReasons[s.Code]
		return reason, ok
	case errors.Is(err, ErrExpelled):
		return Expelled, true
	case sqlState(err) != "":
		return postgresReason(sqlState(err))
	case isUnreachable(err):
		return Unreachable, true
	case errors.As(err, &errno):
		if reason, ok := errnoReason(errno); ok {
			return reason, true
		}
		return DiskFails, true
	}
	return "", false
}

// IsLost reports whether the connection is lost.
func IsLost(err error) bool {
	reason, _ := Outage(err)
	return reason == Unreachable
}

// sqliteReasons are the reasons of SQLite's error codes that mean an outage.
var sqliteReasons = map[sqlite3.ErrNo]string{
	sqlite3.ErrFull: Full, sqlite3.ErrBusy: Locked, sqlite3.ErrLocked: Locked, sqlite3.ErrProtocol: Locked,
	sqlite3.ErrReadonly: ReadOnly, sqlite3.ErrPerm: ReadOnly, sqlite3.ErrAuth: ReadOnly,
	sqlite3.ErrIoErr: DiskFails, sqlite3.ErrCantOpen: Missing, sqlite3.ErrCorrupt: Damaged, sqlite3.ErrNotADB: Damaged,
	sqlite3.ErrNomem: "there is no memory for it", sqlite3.ErrInterrupt: DiskFails, sqlite3.ErrNoLFS: DiskFails,
}

// errnoReason is the reason of a system error, if it is more specific than SQLite's code.
func errnoReason(e syscall.Errno) (reason string, ok bool) {
	switch e { //nolint:exhaustive // the others are not more specific than SQLite's
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return Full, true
	case syscall.EROFS:
		return ReadOnly, true
	case syscall.ENOENT, syscall.ENOTDIR:
		return Missing, true
	}
	return "", false
}

// sqlState is the SQLSTATE code of an error; "" for an error of another kind.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// postgresReasons are the reasons of PostgreSQL's codes, or their classes, that mean an outage.
var postgresReasons = map[string]string{
	"08":    Unreachable, // the connection fails
	"0A000": Unreachable, // a statement was prepared for an earlier schema
	"25006": ReadOnly,
	"25P03": Unreachable, // the session was ended because its transaction was idle
	"26000": Unreachable, // the statement was prepared in another session, for instance behind a connection pooler
	"28":    Denied,
	"3D000": Missing,
	"3F000": Missing,
	"40001": Locked, "40P01": Locked,
	"42501": Denied,
	"42P01": Missing,
	"53":    Full, "53300": Unreachable, // too many connections
	"55P03": Locked,
	"57":    Unreachable, "57014": Slow, // statement_timeout
	"58": DiskFails,
	"XX": Damaged,
}

// postgresReason is the reason of a code; ok is false if the error concerns a single change.
func postgresReason(code string) (reason string, ok bool) {
	if reason, ok = postgresReasons[code]; !ok && len(code) > 2 {
		reason, ok = postgresReasons[code[:2]]
	}
	return reason, ok
}

// isUnreachable reports whether an error means that a database did not answer.
func isUnreachable(err error) bool {
	for _, lost := range []error{driver.ErrBadConn, sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, errInDoubt} {
		if errors.Is(err, lost) {
			return true
		}
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) { // the caller does not wait for an answer
		return false
	}
	var unsent interface{ SafeToRetry() bool } // the driver's error when nothing was sent, for instance on a closed connection
	return errors.As(err, &unsent) && unsent.SafeToRetry()
}
