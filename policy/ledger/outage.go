package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/ledger/store"
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

// readPatience bounds a read that a request, or the gateway's own upkeep, waits for: a database that takes connections may never answer on them.
const readPatience = 5 * time.Second

// tellAway makes a read's error one of kind Unavailable for clients, where the store does not answer.
func tellAway(err *error) {
	reason, away := store.Outage(*err)
	if _, told := errors.AsType[*fault.Fault](*err); told || !away {
		return
	}
	f := fault.New(fault.Unavailable, "the gateway cannot read its ledger at the moment: "+reason, *err)
	f.RetryAfter = retryAfter
	*err = f
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

// StoreFailure is why the store cannot be written, so that charges wait in the charge log; nil while they are applied. It is an atomic load.
func (l *Ledger) StoreFailure() *UnwritableError {
	if l.writer.backlog == nil {
		return nil
	}
	return l.writer.backlog.store.Load()
}

// The conditions that the store itself does not report.
var (
	errLogGone = errors.New("the charge log's files are not there")
	errBacklog = errors.New("too many charges wait for the store")
)

const (
	reasonBacklog = "too many charges wait for the store"
	reasonOther   = "a commit failed"
)

// outageOf reports whether an error means that charges cannot be written, and why. Other errors concern a single change.
func outageOf(err error) (reason string, ok bool) {
	switch {
	case errors.Is(err, errLogGone):
		return store.Gone, true
	case errors.Is(err, errBacklog):
		return reasonBacklog, true
	}
	return store.Outage(err)
}

// isOutage reports whether an error means that charges cannot be written.
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

// transient reports whether the connection still works once the cause is over.
func transient(reason string) bool {
	return slices.Contains([]string{store.Full, store.Locked, store.Slow, store.Expelled}, reason)
}
