package modality

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	reasons "bardo.money/gateway/policy/attestation"
)

// proved reads an answer that must be attested to its end, verifies its receipt, and stores the proof. Its body is then read again from memory. If
// the receipt is invalid the attempt has failed and nothing of the answer is used. An answer that contains an error has a void proof.
func (c *Call) proved(ctx context.Context, to *policy.Resolution, resp *http.Response, p *attestation.Proof) (*http.Response, *upstream.Failure, error) {
	body, f := c.verified(ctx, to, resp, p)
	if f != nil {
		return nil, f, nil
	}
	if c.states(to, resp, body) {
		c.Sink.Void(ctx, to, p)
	} else if err := c.Sink.Attested(ctx, to, p); err != nil {
		return nil, nil, err
	}
	whole := *resp
	whole.Body = io.NopCloser(bytes.NewReader(body))
	return &whole, nil, nil
}

// states reports whether a body, as JSON or as events, contains an error.
func (c *Call) states(to *policy.Resolution, resp *http.Response, body []byte) bool {
	if statedError(body) != nil {
		return true
	}
	w := c.watch(to, resp.Header.Get("Content-Type"))
	w.take(body)
	w.end()
	return w.failed
}

// verified reads a body and verifies its receipt. The answer is closed.
func (c *Call) verified(ctx context.Context, to *policy.Resolution, resp *http.Response, p *attestation.Proof) ([]byte, *upstream.Failure) {
	defer upstream.CloseBody(resp)
	failure := func(kind upstream.Kind, cause error) *upstream.Failure {
		return &upstream.Failure{Provider: to.Provider, Kind: kind, Cause: cause}
	}
	if err := p.Head(upstream.HeaderList(resp.Header)); err != nil {
		return nil, failure(upstream.Unattested, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, c.View.Config.MaxAnswer+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, failure(upstream.TimedOut, context.Cause(ctx))
	case err != nil:
		return nil, failure(upstream.Unattested, reasons.Truncated)
	case int64(len(body)) > c.View.Config.MaxAnswer:
		return nil, failure(upstream.Reset, upstream.ErrTooLong)
	}
	p.Write(body)
	if err := p.Verify(upstream.HeaderList(resp.Trailer), time.Now()); err != nil {
		return nil, failure(upstream.Unattested, err)
	}
	return body, nil
}
