package attempt

import (
	"errors"
	"net/http"

	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
)

// send sends a call: once, or again with its payment if its provider is paid per call. It returns the amount paid.
func (c *call) send(req *http.Request) (resp *http.Response, paid policy.Micro, err error) {
	client := c.w.clientFor(c.t)
	payer, call := c.t.View.Payment(&c.t.To, func(name, value string) (*http.Response, error) { return sendWith(client, req, name, value) })
	if payer == nil {
		resp, err = client.Do(req)
		return resp, 0, err
	}
	c.payer = payer
	return payer.Pay(req.Context(), call)
}

// noteUnserved notifies the payer that a call it paid for has failed.
func (c *call) noteUnserved(f *upstream.Failure) {
	if f != nil && c.payer != nil && c.t.Paid > 0 {
		c.payer.Unserved(c.t.View.ID)
	}
}

// sendWith sends a copy of a call, with one more header unless name is "".
func sendWith(client *http.Client, req *http.Request, name, value string) (*http.Response, error) {
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	if name != "" {
		again.Header.Set(name, value)
	}
	return client.Do(again)
}

func isUnpaid(err error) bool {
	_, ok := errors.AsType[*runtime.UnpaidError](err)
	return ok
}
