package attempt

import "errors"

// PanicError is a panic during an attempt. The request ends with it; no other candidate is called.
type PanicError struct{ Cause error }

// Error is for logs.
func (e PanicError) Error() string { return e.Cause.Error() }

// Unwrap is the fault that the client is told.
func (e PanicError) Unwrap() error { return e.Cause }

// IsPanic reports whether an error is a panic.
func IsPanic(err error) bool {
	_, ok := errors.AsType[PanicError](err)
	return ok
}
