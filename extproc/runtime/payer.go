package runtime

import (
	"context"
	"net/http"

	"bardo.money/gateway/policy"
)

// Payer pays a provider per call. Safe for concurrent use.
type Payer interface {
	// Pay sends a call, and pays for it if the provider requires that. paid is the signed amount, which is the call's cost whatever its result. An
	// *UnpaidError means that the call was not sent, or that a payment was sent without a response; other errors are those of c.Send.
	Pay(ctx context.Context, c *PaidCall) (resp *http.Response, paid policy.Micro, err error)
	// Unserved reports that a paid call of an exchange failed: nothing more is paid for that exchange.
	Unserved(exchange string)
}

// PaidCall is a call that may need a payment.
type PaidCall struct {
	Exchange string
	Model    string       // the provider's name of it
	MaxCost  policy.Micro // maximum price
	Estimate policy.Micro // maximum cost by known prices

	// Send sends the call, with one more header unless name is "".
	Send func(name, value string) (*http.Response, error)
}

// UnpaidError is why a call was not made, or what happened to its payment.
type UnpaidError struct{ Err error }

func (e *UnpaidError) Error() string { return e.Err.Error() }

func (e *UnpaidError) Unwrap() error { return e.Err }
