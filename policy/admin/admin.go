// Package admin is what an operator does with a gateway's books: keys, projects and owners, balances, past requests, usage, and providers. There is
// one implementation for the HTTP admin API, the commands and the dashboard. It does not know HTTP, flags or pages. Its errors are faults; Param
// names the member that is wrong, and the sentence begins with it.
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
	Pepper  func(context.Context) (*auth.Pepper, error)                  // what secrets of keys are hashed with
	Payment func(context.Context, string) (json.RawMessage, bool, error) // how the payment for a request stands; nil: there are no payments

	// Wallet finds the failed payment of a request, or, with "", all of a wallet, by its address. Its error is a fault. nil: there are no payments.
	Wallet func(ctx context.Context, request, payer string) (Wallet, error)
}

// invalid is the fault of a member; the sentence goes on behind its name.
func invalid(member, format string, args ...any) *fault.Fault {
	f := fault.Newf(fault.InvalidRequest, "%s", member+fmt.Sprintf(format, args...))
	f.Param = member
	return f
}

// causes are the ledger's errors that are the caller's, with their kind.
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

// faultOf is an error of the ledger as its caller sees it.
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

// now is the time that is shown.
func now() time.Time { return time.Now().UTC() }

// revoked is the fault of a change of a revoked key.
func revoked(id policy.Account) error {
	return fault.Newf(fault.Conflict, "change key %s: the key was revoked, which is for good", id)
}
