package ledger

import (
	"errors"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
)

type (
	// UnwritableError means that the store or the charge log cannot be written at the moment. For clients it is a fault of kind Unavailable.
	UnwritableError = commit.UnwritableError
	// Outage is a period in which charges could not be written to the charge log, or too many of them waited for the store.
	Outage = commit.Outage
)

// readTimeout is the timeout of reads that requests or the janitor wait for: a database may accept connections and never answer.
const readTimeout = 5 * time.Second

// asUnavailable makes a read's error a fault of kind Unavailable if the store cannot be read, unless it is a fault already.
func asUnavailable(err *error) {
	reason, outage := store.Outage(*err)
	if _, isFault := errors.AsType[*fault.Fault](*err); isFault || !outage {
		return
	}
	f := fault.New(fault.Unavailable, "the gateway cannot read its ledger at the moment: "+reason, *err)
	f.RetryAfter = commit.RetryAfter
	*err = f
}

// Writable is nil while charges are safe: the charge log accepts and syncs them, and the store is not too far behind. Otherwise the gateway admits
// no request that costs money, because it could not charge for it; charges of requests in flight stay in memory and are written when the log or
// the store works again, without a restart. It is an atomic load.
func (l *Ledger) Writable() error {
	if f := l.writer.Failure(); f != nil { // avoid a non-nil error with a nil pointer
		return f
	}
	return nil
}

// StoreFailure is why the store cannot be written and charges wait in the charge log; nil while they are applied. It is an atomic load.
func (l *Ledger) StoreFailure() *UnwritableError { return l.writer.StoreFailure() }

// Unwritten sums this gateway's charges that are not in the store.
func (l *Ledger) Unwritten() Unwritten { return l.writer.Unwritten() }
