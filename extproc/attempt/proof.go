package attempt

import (
	"errors"
	"io"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	reasons "bardo.money/gateway/policy/attestation"
)

// Answers of enclaves (P-05): the call asks for a receipt, all of the body is hashed as it comes, and the receipt is verified behind its end. Until then the
// sink holds the answer back.

// askForProof adds to a call what asks for a receipt, where the answer has to be attested.
func (t *Attempt) askForProof(call *provider.Call) {
	t.Proof = nil
	p, by := t.View.Attests(&t.To)
	if p == nil {
		return
	}
	t.Proof = attestation.New(p, by, call.Model)
	call.Header = append(call.Header, t.Proof.Ask()...)
}

// readAttested is read for an answer that has to be attested. One that broke off is not attested either.
func (c *call) readAttested(resp *http.Response, h header.List, open func(int, header.List) Sink) (*upstream.Failure, error) {
	if err := c.t.Proof.Head(h); err != nil {
		upstream.CloseBody(resp)
		return c.failure(upstream.Unattested, err), nil
	}
	c.trailers = func() header.List { return upstream.HeaderList(resp.Trailer) }
	f, err := c.read(resp.Body, open(resp.StatusCode, h))
	if f != nil && f.Kind == upstream.Reset && !errors.Is(f.Cause, upstream.ErrTooLong) {
		f = c.failure(upstream.Unattested, reasons.Truncated)
	}
	return f, err
}

// attested reads an answer's body to its end, behind the answer itself, and verifies its receipt.
func (c *call) attested(body io.Reader, ended bool) (*upstream.Failure, error) {
	if !ended {
		if f, err := c.drain(body); f != nil || err != nil {
			return f, err
		}
	}
	if err := c.t.Proof.Verify(c.trailers(), time.Now()); err != nil {
		return c.failure(upstream.Unattested, err), nil
	}
	return nil, nil
}

// failedAttested is the failure of an answer that has to be attested, and was none by what its body says (ended, where all of it was read): an error, or nothing that can be
// read. That is a failure of the provider's only if its enclave has said so.
func (c *call) failedAttested(body io.Reader, ended bool, f *upstream.Failure) (*upstream.Failure, error) {
	if f.Kind == upstream.Reset || f.Kind == upstream.TimedOut { // it has no end
		return f, nil
	}
	if why, err := c.attested(body, ended); why != nil || err != nil {
		return why, err
	}
	return f, nil
}

// maxRest is how much of a body may follow behind the end of the answer in it, in bytes.
const maxRest = 1 << 20

// drain hashes the rest of a body.
func (c *call) drain(body io.Reader) (*upstream.Failure, error) {
	for rest := 0; rest <= maxRest; {
		p := c.next(body)
		switch {
		case p.err != nil && c.ctx.Err() != nil:
			return c.interrupted(c.ctx, true)
		case p.err != nil:
			return c.failure(upstream.Unattested, reasons.Truncated), nil //nolint:nilerr // the reason is what is told
		}
		c.t.Proof.Write(p.b)
		if p.end {
			return nil, nil
		}
		rest += len(p.b)
	}
	return c.failure(upstream.Unattested, reasons.TooLarge), nil
}
