package attempt

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/e2ee"
)

// Sealed requests, which only an enclave can read (P-06): the call is encrypted after its adapter encoded it, and the answer is decrypted as a whole
// before any of it is decoded.

// seal encrypts a call that only its candidate's enclave may read.
func (t *Attempt) seal(call *provider.Call) (err error) {
	t.Sealed = nil
	keys := t.View.Seals(&t.To)
	if len(keys) == 0 {
		return nil
	}
	doc, err := jsonx.Scan(call.Body)
	if err != nil {
		return err
	}
	model, _ := doc.Get("model").Str()
	call.Body, t.Sealed, err = e2ee.Seal(keys[min(t.To.Without.SealKeys, len(keys)-1)], model, 0, call.Body)
	return err
}

// inEnclave returns the request to be sealed, for the model in the candidate's attested enclave if there is one.
func (t *Attempt) inEnclave(req *chat.Request) *chat.Request {
	if !slices.Contains(t.To.Features, policy.TEEAttested) || t.View.Seals(&t.To) == nil {
		return req
	}
	in, p := *req, chat.Profile{NoGuidance: true}
	if req.Profile != nil {
		p = *req.Profile
	}
	p.Default.TEE = true
	in.Profile = &p
	return &in
}

// codeKeyUnknown is the error code of an enclave that lacks the key which a request was encrypted for.
const codeKeyUnknown = "e2ee_key_unknown"

// NextKey returns the candidate with the next of its enclave's keys, if the enclave lacks the key that was used.
func NextKey(to policy.Resolution, keys int, f *upstream.Failure) (again policy.Resolution, ok bool) {
	if f.Kind != upstream.ByStatus || f.Err == nil || f.Err.Code != codeKeyUnknown || to.Without.SealKeys+1 >= keys {
		return to, false
	}
	to.Without.SealKeys++
	return to, true
}

// readSealed is read for a sealed answer: all of it is read, verified if required, and decrypted; the sink gets the plaintext.
func (c *call) readSealed(resp *http.Response, h header.List, open func(int, header.List) Sink) (*upstream.Failure, error) {
	if c.t.Proof != nil {
		if err := c.t.Proof.Head(h); err != nil {
			upstream.CloseBody(resp)
			return c.failure(upstream.Unattested, err), nil
		}
	}
	body, f, err := c.whole(resp)
	if f != nil || err != nil {
		return f, err
	}
	if c.t.Proof != nil {
		if err := c.t.Proof.Verify(upstream.HeaderList(resp.Trailer), time.Now()); err != nil {
			return c.failure(upstream.Unattested, err), nil
		}
	}
	inside, _, err := c.t.Sealed.Open(body)
	if err != nil {
		return c.failure(upstream.Unsealed, err), nil
	}
	return c.give(open(resp.StatusCode, c.t.headInside(h)), inside)
}

// headInside returns the head of an answer without the headers of its encryption.
func (t *Attempt) headInside(h header.List) header.List {
	kind := header.JSON
	if r := t.View.Request; r.Stream && r.Op != chat.CountTokens {
		kind = header.EventStream
	}
	out := make(header.List, 0, len(h))
	for _, f := range h {
		if f.Name != "content-type" && f.Name != "content-length" && f.Name != "content-encoding" {
			out = append(out, f)
		}
	}
	return append(out, header.Field{Name: "content-type", Value: kind})
}

// give feeds a whole answer to the sink.
func (c *call) give(sink Sink, body []byte) (*upstream.Failure, error) {
	sink.Feed(c.client, body, true)
	if done, err := sink.Pass(c.client); done || err != nil {
		return nil, err
	}
	if f := sink.Failure(); f != nil {
		return f, nil
	}
	return c.failure(upstream.Reset, errors.New("the answer has no end")), nil
}

// whole reads a body to its end.
func (c *call) whole(resp *http.Response) ([]byte, *upstream.Failure, error) {
	defer upstream.CloseBody(resp)
	maxBytes := min(c.t.View.Config.MaxAnswer, e2ee.MaxAnswer)
	for body := []byte(nil); ; {
		p := c.next(resp.Body)
		if p.err != nil && c.ctx.Err() != nil {
			f, err := c.interrupted(c.ctx, false)
			return nil, f, err
		}
		if c.t.Proof != nil {
			c.t.Proof.Write(p.b)
		}
		body = append(body, p.b...)
		switch {
		case p.err != nil:
			return nil, c.failure(upstream.Unsealed, e2ee.NotWhole), nil
		case int64(len(body)) > maxBytes:
			return nil, c.failure(upstream.Unsealed, e2ee.NotBounded), nil
		case p.end:
			return body, nil, nil
		}
	}
}
