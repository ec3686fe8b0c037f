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

// Attested answers of enclaves (P-05): the call requests a receipt, the whole body is hashed as it arrives, and the receipt is verified after its
// end. Until then the sink holds the answer back.

// askForProof adds the request for a receipt to a call whose answer must be attested.
func (t *Attempt) askForProof(call *provider.Call) {
	t.Proof = nil
	p, by := t.View.Attests(&t.To)
	if p == nil {
		return
	}
	t.Proof = attestation.New(p, by, call.Model)
	call.Header = append(call.Header, t.Proof.RequestHeaders()...)
}

// readAttested is read for an answer that must be attested. A truncated one is not attested.
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

// attested reads an answer's body to its end, beyond the answer itself, and verifies its receipt.
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

// failedAttested returns the failure of an answer that must be attested and failed by its own content (an error, or undecodable); ended: all of it
// was read. It counts as the provider's failure only if the enclave signed it.
func (c *call) failedAttested(body io.Reader, ended bool, f *upstream.Failure) (*upstream.Failure, error) {
	if f.Kind == upstream.Reset || f.Kind == upstream.TimedOut { // the body has no end
		return f, nil
	}
	if unproved, err := c.attested(body, ended); unproved != nil || err != nil {
		return unproved, err
	}
	return f, nil
}

// maxRest is the maximum number of bytes of a body after the end of the answer in it.
const maxRest = 1 << 20

// drain hashes the rest of a body.
func (c *call) drain(body io.Reader) (*upstream.Failure, error) {
	for rest := 0; rest <= maxRest; {
		p := c.next(body)
		switch {
		case p.err != nil && c.ctx.Err() != nil:
			return c.interrupted(c.ctx, true)
		case p.err != nil:
			return c.failure(upstream.Unattested, reasons.Truncated), nil //nolint:nilerr // the reason is reported
		}
		c.t.Proof.Write(p.b)
		if p.end {
			return nil, nil
		}
		rest += len(p.b)
	}
	return c.failure(upstream.Unattested, reasons.TooLarge), nil
}
