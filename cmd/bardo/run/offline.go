package run

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/xds/health"
)

// UpstreamCall is a call that an Offline data path makes to a provider.
type UpstreamCall struct {
	Cluster string
	Path    string
	Header  header.List // of the forwarded request
	Body    []byte
}

// Upstream answers the calls of an Offline instead of the providers, with 200 and JSON in the format of the call's path. Safe for concurrent use.
type Upstream func(c UpstreamCall) []byte

// Offline is a data path in this process without Envoy: a function answers its provider calls, and its state is in its own directory. Safe for concurrent
// use.
type Offline struct {
	g        *gateway
	upstream Upstream
}

// OpenOffline opens a data path with its state in dir. It does not listen, and calls no provider.
func OpenOffline(ctx context.Context, cfg *config.Config, parts Parts, dir string, upstream Upstream) (*Offline, error) {
	r := &Offline{upstream: upstream, g: &gateway{start: start{home: home.Dir(dir), out: io.Discard, parts: parts}}}
	g := r.g
	own := *cfg
	own.Pipeline.Guardrails, own.Pipeline.Retrieval.Hooks, own.MCP.Servers = nil, nil, nil // no service of the operator is called
	own.Auth.Anonymous, own.Store.Ledger, own.Store.Cache, own.Store.Vectors, own.Telemetry.Events = true, "sqlite://$BARDO_HOME/bardo.db", "memory", "memory", ""
	own.Telemetry.ClickHouse = config.URL{}
	g.cfg.Store(&own)
	g.log = slog.New(slog.DiscardHandler)
	g.metrics = telemetry.New(telemetry.Build{})
	g.tracker = health.NewTracker(health.Options{}, settings.ProviderIDs(&own)...)
	g.calls = r
	g.learnSecrets(&own)
	if err := g.openData(ctx, &own); err != nil {
		return nil, fmt.Errorf("opening the data path: %w", err)
	}
	g.ready.Store(true)
	return r, nil
}

// Close closes the ledger.
func (r *Offline) Close() error { return r.g.books.Close() }

// Serve serves one request. The headers include the pseudo-headers, as from Envoy.
func (r *Offline) Serve(ctx context.Context, h header.List, body []byte) (stream.Reply, error) {
	c := &offlineClient{upstream: r.upstream, body: body}
	err := r.g.gate.Serve(ctx, c, stream.NewHead(h, "127.0.0.1:1"), false)
	return c.reply, err
}

// RoundTrip answers a call that the gateway makes through egress.
func (r *Offline) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	answer := r.upstream(UpstreamCall{Path: req.URL.Path, Body: body})
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {header.JSON}}, Body: io.NopCloser(bytes.NewReader(answer)), Request: req,
		ContentLength: int64(len(answer)),
	}, nil
}

// offlineClient is the client of one request, and takes Envoy's role.
type offlineClient struct {
	upstream Upstream
	body     []byte
	call     UpstreamCall
	read     int // number of answer pieces read
	reply    stream.Reply
}

var _ stream.Client = (*offlineClient)(nil)

// RequestBody implements stream.Client.
func (c *offlineClient) RequestBody(u stream.RequestBody) error {
	u.Wait()
	return u.Add(c.body)
}

// Forward implements stream.Client.
func (c *offlineClient) Forward(f stream.Forward) error {
	c.call = UpstreamCall{Cluster: f.Clusters[0], Path: f.Set.Get(":path"), Header: f.Set, Body: bytes.Clone(f.Body)}
	return nil
}

// Next implements stream.Client.
func (c *offlineClient) Next() (stream.Piece, error) {
	if c.read++; c.read == 1 {
		h := header.List{{Name: ":status", Value: "200"}, {Name: "content-type", Value: header.JSON}}
		return stream.Piece{Head: &stream.AnswerHead{Status: http.StatusOK, Header: h, Cluster: c.call.Cluster, Details: "via_upstream", Attempts: 1}}, nil
	}
	return stream.Piece{Body: c.upstream(c.call), End: true}, nil
}

// Answer implements stream.Client.
func (c *offlineClient) Answer(r stream.Reply, _ []string) error { return c.Reply(r) }

// Reply implements stream.Client.
func (c *offlineClient) Reply(r stream.Reply) error {
	c.reply = stream.Reply{Status: r.Status, Header: append(header.List(nil), r.Header...), Body: bytes.Clone(r.Body)}
	return nil
}

// Caller implements stream.Client.
func (*offlineClient) Caller() stream.Caller { return nil }

// Turn implements stream.Client.
func (*offlineClient) Turn() {}

// StreamHead implements stream.Client.
func (c *offlineClient) StreamHead(status int, h header.List) error {
	c.reply = stream.Reply{Status: status, Header: append(header.List(nil), h...)}
	return nil
}

// StreamBody implements stream.Client.
func (c *offlineClient) StreamBody(b []byte, _ bool) error {
	c.reply.Body = append(c.reply.Body, b...)
	return nil
}

// StreamTrailers implements stream.Client.
func (*offlineClient) StreamTrailers(header.List) error { return nil }

// Leave implements stream.Client.
func (*offlineClient) Leave(f func() error) error { return f() }
