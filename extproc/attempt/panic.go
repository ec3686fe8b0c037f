package attempt

import "errors"

// PanicError is a panic during an attempt. It ends the request; no other candidate is called.
type PanicError struct{ Cause error }

// Error returns the message for logs.
func (e PanicError) Error() string { return e.Cause.Error() }

// Unwrap returns the fault that the client gets.
func (e PanicError) Unwrap() error { return e.Cause }

// IsPanic reports whether an error is a panic.
func IsPanic(err error) bool {
	_, ok := errors.AsType[PanicError](err)
	return ok
}
