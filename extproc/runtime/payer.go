package runtime

import (
	"context"
	"net/http"

	"bardo.money/gateway/policy"
)

// Payer pays a provider for single calls. Safe for concurrent use.
type Payer interface {
	// Pay sends a call, and pays for it if the provider wants that. paid is what was signed for it, which the call has cost whatever comes of it. An *UnpaidError says that
	// it is not sent, or that a payment left and nothing came back; other errors are those of c.Send.
	Pay(ctx context.Context, c *PaidCall) (resp *http.Response, paid policy.Micro, err error)
	// Unserved is told of an exchange's call that was paid for, and whose answer is none: nothing more is paid for that exchange.
	Unserved(exchange string)
}

// PaidCall is a call that may have to be paid for.
type PaidCall struct {
	Exchange string
	Model    string       // by the provider's name
	Most     policy.Micro // that it may cost
	Estimate policy.Micro // of its highest cost, by known prices

	// Send sends it, with one header more unless name is "".
	Send func(name, value string) (*http.Response, error)
}

// UnpaidError says why a call was not made, or what became of its payment.
type UnpaidError struct{ Err error }

func (e *UnpaidError) Error() string { return e.Err.Error() }

func (e *UnpaidError) Unwrap() error { return e.Err }
