package commit

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

// RetryAfter is when a client should try again.
const RetryAfter = 5 * time.Second

// Error is for logs.
func (e *UnwritableError) Error() string {
	return fmt.Sprintf("the ledger cannot be written: %s: %v", e.Reason, e.cause)
}

// Unwrap returns the client's fault and the cause.
func (e *UnwritableError) Unwrap() []error {
	f := fault.New(fault.Unavailable, "the gateway cannot record charges at the moment, so it serves nothing that costs money: try again later", e.cause)
	f.RetryAfter = RetryAfter
	return []error{f, e.cause}
}

// IsUnwritable reports whether an error is an UnwritableError.
func IsUnwritable(err error) bool {
	_, ok := errors.AsType[*UnwritableError](err)
	return ok
}

// Outage is a period in which charges could not be written to the charge log, or too many of them waited for the store.
type Outage struct {
	Err     *UnwritableError
	Ended   bool
	Lasted  time.Duration // set at its end
	Written int           // changes that were written to the store meanwhile
}

// The conditions that the store itself does not report.
var (
	errLogMissing = errors.New("the charge log's files are not there")
	errBacklog    = errors.New("too many charges wait for the store")
)

// Reasons why charges cannot be written, in addition to those of package store.
const (
	ReasonBacklog = "too many charges wait for the store"
	reasonOther   = "a commit failed"
)

// outageOf reports whether an error means that charges cannot be written, and why. Other errors concern a single change.
func outageOf(err error) (reason string, ok bool) {
	switch {
	case errors.Is(err, errLogMissing):
		return store.Missing, true
	case errors.Is(err, errBacklog):
		return ReasonBacklog, true
	}
	return store.Outage(err)
}

// isOutage reports whether an error means that charges cannot be written.
func isOutage(err error) bool {
	_, ok := outageOf(err)
	return ok
}

// reasonOf is why a commit failed.
func reasonOf(err error) string {
	if reason, ok := outageOf(err); ok {
		return reason
	}
	return reasonOther
}

// keepsConnection reports whether the connection still works once the cause of an outage is over.
func keepsConnection(reason string) bool {
	return slices.Contains([]string{store.Full, store.Locked, store.Slow, store.Expelled}, reason)
}
