// Package admin implements the operator's operations on a gateway's ledger: keys, projects and owners, balances, past requests, usage, and providers.
// The HTTP admin API, the commands and the dashboard share it. It does not know HTTP, flags or pages. Its errors are faults: Param is the name of the
// invalid member, and the message begins with it.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// Service works on one ledger. Safe for concurrent use.
type Service struct {
	Books   *ledger.Ledger
	Pepper  func(context.Context) (*auth.Pepper, error)                  // pepper that key secrets are hashed with
	Payment func(context.Context, string) (json.RawMessage, bool, error) // state of a request's payment; nil: there are no payments

	// Wallet returns the failed payment of a request, or, if request is "", all failed payments of a wallet, by its address. Its error is a fault.
	// nil: there are no payments.
	Wallet func(ctx context.Context, request, payer string) (Wallet, error)
}

// invalid returns the fault for an invalid member. format continues the sentence after the member's name.
func invalid(member, format string, args ...any) *fault.Fault {
	f := fault.Newf(fault.InvalidRequest, "%s", member+fmt.Sprintf(format, args...))
	f.Param = member
	return f
}

// causes lists the ledger errors that the caller is responsible for, with their fault kinds.
var causes = []struct {
	is   error
	kind fault.Kind
}{
	{ledger.ErrUnknownKey, fault.NotFound},
	{ledger.ErrUnknownRequest, fault.NotFound},
	{ledger.ErrUnknownGroup, fault.NotFound},
	{ledger.ErrKeyExists, fault.Conflict},
	{ledger.ErrGroupExists, fault.Conflict},
	{ledger.ErrReused, fault.Conflict},
	{ledger.ErrMetered, fault.Conflict},
	{ledger.ErrPrepaid, fault.Conflict},
	{ledger.ErrGroupID, fault.InvalidRequest},
	{ledger.ErrAmount, fault.InvalidRequest},
	{ledger.ErrRules, fault.InvalidRequest},
	{ledger.ErrClosed, fault.Unavailable},
}

// faultOf converts an error of the ledger to a fault.
func faultOf(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Fault](err); ok {
		return f
	}
	for _, c := range causes {
		if errors.Is(err, c.is) {
			return fault.New(c.kind, err.Error(), err)
		}
	}
	return fault.New(fault.Internal, "the books cannot be read or written", err)
}

// now returns the current time, in UTC.
func now() time.Time { return time.Now().UTC() }

// revoked returns the fault for a change of a revoked key.
func revoked(id policy.Account) error {
	return fault.Newf(fault.Conflict, "change key %s: the key was revoked, which is for good", id)
}
