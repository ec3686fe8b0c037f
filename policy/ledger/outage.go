package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/mattn/go-sqlite3"

	"bardo.money/gateway/internal/fault"
)

// UnwritableError means that the store or the charge log cannot be written at the moment. For clients it is a fault of kind Unavailable.
type UnwritableError struct {
	Reason string    // without file names, may be shown to clients
	Since  time.Time // of the first failure
	cause  error
}

// retryAfter is when a client should try again.
const retryAfter = 5 * time.Second

// Error is for logs.
func (e *UnwritableError) Error() string {
	return fmt.Sprintf("the ledger cannot be written: %s: %v", e.Reason, e.cause)
}

// Unwrap returns the client's fault and the cause.
func (e *UnwritableError) Unwrap() []error {
	f := fault.New(fault.Unavailable, "the gateway cannot record charges at the moment, so it serves nothing that costs money: try again later", e.cause)
	f.RetryAfter = retryAfter
	return []error{f, e.cause}
}

// Outage is a period in which charges could not be written to the charge log, or too many of them waited for the store.
type Outage struct {
	Err     *UnwritableError
	Ended   bool
	Lasted  time.Duration // set at its end
	Written int           // changes that were written to the store meanwhile
}

// Writable is nil while charges are safe: the charge log takes them and syncs them, and the store is not too far behind. Otherwise the gateway admits
// no request that costs money, because it could not charge for it. Charges of requests in flight stay in memory and are written when the log or
// the store works again, without a restart. It is an atomic load.
func (l *Ledger) Writable() error {
	if l.writer.backlog == nil {
		return nil
	}
	if err := l.writer.backlog.failure.Load(); err != nil { // avoid a non-nil error with a nil pointer
		return err
	}
	return nil
}

// The conditions that the store itself does not report.
var (
	errGone     = errors.New("the store's file is not there")
	errReplaced = errors.New("another file has taken the place of the store's")
	errLogGone  = errors.New("the charge log's files are not there")
	errBacklog  = errors.New("too many charges wait for the store")
)

// reasons are texts for SQLite's error codes that mean an outage.
var reasons = map[sqlite3.ErrNo]string{
	sqlite3.ErrFull: reasonFull, sqlite3.ErrBusy: reasonLocked, sqlite3.ErrLocked: reasonLocked, sqlite3.ErrProtocol: reasonLocked,
	sqlite3.ErrReadonly: reasonReadOnly, sqlite3.ErrPerm: reasonReadOnly, sqlite3.ErrAuth: reasonReadOnly,
	sqlite3.ErrIoErr: reasonDisk, sqlite3.ErrCantOpen: reasonGone, sqlite3.ErrCorrupt: reasonDamaged, sqlite3.ErrNotADB: reasonDamaged,
	sqlite3.ErrNomem: "there is no memory for it", sqlite3.ErrInterrupt: reasonDisk, sqlite3.ErrNoLFS: reasonDisk,
}

const (
	reasonFull     = "the disk is full"
	reasonLocked   = "another process holds its lock"
	reasonReadOnly = "it is read-only"
	reasonDisk     = "the disk fails"
	reasonGone     = "its file is not there"
	reasonDamaged  = "its file is damaged"
	reasonBacklog  = "too many charges wait for the store"
	reasonExpelled = "other gateways took this one for dead"
	reasonAway     = "the database does not answer"
	reasonSlow     = "the database is too slow"
	reasonOther    = "a commit failed"
)

// outageOf reports whether an error means that the store cannot be written, and why. Other errors concern a single change.
func outageOf(err error) (reason string, ok bool) {
	var s sqlite3.Error
	var errno syscall.Errno
	switch {
	case err == nil:
		return "", false
	case errors.Is(err, errGone), errors.Is(err, errReplaced), errors.Is(err, errLogGone), errors.Is(err, fs.ErrNotExist):
		return reasonGone, true
	case errors.Is(err, errBacklog):
		return reasonBacklog, true
	case errors.As(err, &s):
		if reason, ok := ofErrno(s.SystemErrno); ok {
			return reason, true
		}
		reason, ok = reasons[s.Code]
		return reason, ok
	case errors.Is(err, errExpelled):
		return reasonExpelled, true
	case sqlState(err) != "":
		return ofState(sqlState(err))
	case isAway(err):
		return reasonAway, true
	case errors.As(err, &errno):
		if reason, ok := ofErrno(errno); ok {
			return reason, true
		}
		return reasonDisk, true
	}
	return "", false
}

// isOutage reports whether an error means that the store cannot be written.
func isOutage(err error) bool {
	_, ok := outageOf(err)
	return ok
}

// isUnwritable reports whether an error is an UnwritableError.
func isUnwritable(err error) bool {
	_, ok := errors.AsType[*UnwritableError](err)
	return ok
}

// reasonOf is why a commit failed.
func reasonOf(err error) string {
	if reason, ok := outageOf(err); ok {
		return reason
	}
	return reasonOther
}

// ofErrno is the system's reason, if it is more specific than SQLite's.
func ofErrno(e syscall.Errno) (reason string, ok bool) {
	switch e { //nolint:exhaustive // the others are not more specific than SQLite's
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return reasonFull, true
	case syscall.EROFS:
		return reasonReadOnly, true
	case syscall.ENOENT, syscall.ENOTDIR:
		return reasonGone, true
	}
	return "", false
}

// transient reports whether the connection still works once the cause is over.
func transient(reason string) bool {
	return slices.Contains([]string{reasonFull, reasonLocked, reasonSlow, reasonExpelled}, reason)
}
