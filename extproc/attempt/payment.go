package attempt

import (
	"errors"
	"net/http"

	"bardo.money/gateway/extproc/runtime"
)

// sender sends a call: once, or a second time with its payment, where its provider is paid for single calls.
func (c *call) sender(req *http.Request) func() head {
	client := c.w.clientFor(c.t)
	payer, paid := c.t.View.Payment(&c.t.To, func(name, value string) (*http.Response, error) { return sendWith(client, req, name, value) })
	if payer == nil {
		return func() head {
			resp, err := client.Do(req) //nolint:bodyclose // closed by who reads it
			return head{resp: resp, err: err}
		}
	}
	return func() head {
		resp, amount, err := payer.Pay(req.Context(), paid) //nolint:bodyclose // as above
		return head{resp, amount, err}
	}
}

// sendWith sends a copy of a call, with one header more unless name is "".
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
