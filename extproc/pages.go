package extproc

import (
	"context"
	"net/http"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cors"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/site"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
)

// maxFormBytes is the maximum size of a form that a page sends.
const maxFormBytes = 64 << 10

// page answers a request for a page of the dashboard, which authenticates by itself. Pages of other origins cannot read it.
func (x *exchange) page(ctx context.Context, bodyless bool) (err error) {
	if x.gw.Pages == nil {
		return fault.New(fault.NotFound, "this gateway has no dashboard (listen.ui: off)", nil)
	}
	d := x.connection()
	var body []byte
	if x.Head.Method == http.MethodPost && !bodyless {
		if body, err = x.readBodyUpTo(bodyless, maxFormBytes); err != nil {
			return err
		}
	}
	end := &record.End{Outcome: record.OK}
	x.trace.Unbilled = end
	end.Status, err = site.Serve(ctx, d, &x.Head, body, x.gw.Pages)
	return err
}

// Local returns the server of the gateway's own endpoints, for its dashboard.
func (g *Gateway) Local() *api.Server { return &g.api }

// connection returns the client without the headers for web pages of other origins.
func (x *exchange) connection() stream.Client {
	if other, ok := x.client.(cors.Client); ok {
		return other.Client
	}
	return x.client
}
