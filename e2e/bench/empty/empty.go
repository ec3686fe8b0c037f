// Package empty is a data path with nothing in it: it hands every body back as it came, with about as many changes of headers as the gateway makes.
// Behind Envoy it shows what Envoy and the connection to it cost alone.
package empty

import (
	"context"
	"net"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/extproc/stream/processor"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/state"
)

// Serve serves Envoy's ext_proc filter on a Unix socket, until ctx is done. Requests go to the cluster.
func Serve(ctx context.Context, socket, cluster string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	return processor.Serve(ctx, New(cluster), l)
}

// Handler is the data path. Safe for concurrent use.
type Handler struct{ clusters []string }

// New makes a Handler whose requests go to the cluster.
func New(cluster string) *Handler {
	return &Handler{clusters: []string{cluster, state.RetryCluster(policy.ProviderID(cluster))}}
}

var _ stream.Handler = (*Handler)(nil)

// Serve implements stream.Handler.
func (e *Handler) Serve(_ context.Context, c stream.Client, h stream.Head, _ bool) error {
	var body collected
	if err := c.RequestBody(&body); err != nil {
		return err
	}
	err := c.Forward(stream.Forward{
		Set: requestHeader(h.Path, len(body.b)), Remove: []string{"x-forwarded-for", "x-request-id"}, Body: body.b,
		Exchange: "req_0123456789abcdefghjkmnpq", Clusters: e.clusters,
	})
	if err != nil {
		return err
	}
	var answer []byte
	var status int
	for {
		p, err := c.Next()
		if err != nil {
			return err
		}
		if p.Head != nil {
			status = p.Head.Status
		}
		if answer = append(answer, p.Body...); p.End {
			return c.Answer(stream.Reply{Status: status, Header: answerHeader(len(answer)), Body: answer}, []string{"date", "x-envoy-attempt-count"})
		}
	}
}

func requestHeader(path string, length int) header.List {
	return header.List{
		{Name: ":method", Value: "POST"},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: "127.0.0.1"},
		{Name: "content-type", Value: header.JSON},
		{Name: "content-length", Value: strconv.Itoa(length)},
		{Name: "accept", Value: "*/*"},
		{Name: "accept-encoding", Value: "identity"},
		{Name: "authorization", Value: "Bearer sk-fake"},
		{Name: state.HeaderPath, Value: state.PathJSON},
		{Name: "x-envoy-max-retries", Value: "1"},
		{Name: "x-envoy-upstream-rq-timeout-ms", Value: "900000"},
		{Name: "x-envoy-upstream-rq-per-try-timeout-ms", Value: "60000"},
	}
}

func answerHeader(length int) header.List {
	return header.List{
		{Name: "x-request-id", Value: "req_0123456789abcdefghjkmnpq"},
		{Name: "request-id", Value: "req_0123456789abcdefghjkmnpq"},
		{Name: "x-bardo-provider", Value: "provider"},
		{Name: "x-bardo-model", Value: "model"},
		{Name: "x-bardo-attempts", Value: "1"},
		{Name: "x-bardo-spread", Value: "0"},
		{Name: "x-bardo-cache", Value: "miss"},
		{Name: "x-bardo-cost", Value: "0.000000"},
		{Name: "content-type", Value: header.JSON},
		{Name: "content-length", Value: strconv.Itoa(length)},
	}
}

// Attempt implements stream.Handler: the provider does not fail.
func (*Handler) Attempt(*stream.Attempt) (stream.AttemptRequest, error) {
	return stream.AttemptRequest{}, nil
}

// Opened implements stream.Handler.
func (*Handler) Opened() {}

// Closed implements stream.Handler.
func (*Handler) Closed() {}

// Panicked implements stream.Handler.
func (*Handler) Panicked(value any) { panic(value) }

// Held implements stream.Handler.
func (*Handler) Held(coroutine.Hold) {}

// collected is a request's body.
type collected struct{ b []byte }

// Add implements stream.RequestBody.
func (c *collected) Add(piece []byte) error {
	c.b = append(c.b, piece...)
	return nil
}

// Wait implements stream.RequestBody.
func (*collected) Wait() time.Duration { return 0 }

// TimedOut implements stream.RequestBody: there is no time limit.
func (*collected) TimedOut(func(stream.Reply) error) {}
