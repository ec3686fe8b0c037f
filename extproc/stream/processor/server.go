// Package processor serves Envoy's external processing filters (envoy.service.ext_proc.v3) over gRPC: the router's filter, whose stream is one client
// request, and the filters of retry clusters, whose streams are one attempt each. It is the only package of the data path that knows gRPC and
// protobuf.
package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/stream/coroutine"
	"bardo.money/gateway/extproc/stream/duplex"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// maxMessage is the maximum size of a message from Envoy, in bytes.
const maxMessage = 64 << 20

// Serve serves Envoy's ext_proc filters on l with h until ctx is done, then closes l and all open streams and returns nil.
func Serve(ctx context.Context, h stream.Handler, l net.Listener) error {
	s := &service{handler: h}
	server := duplex.Server{
		Path: ep.ExternalProcessor_Process_FullMethodName, Serve: s.process, MaxMessage: maxMessage,
		Watchdog: coroutine.NewWatchdog(h.Held),
	}
	return server.Listen(ctx, l)
}

type service struct{ handler stream.Handler }

// process serves one stream: a client's request, or the request headers of one attempt.
func (s *service) process(envoy *duplex.Stream) error {
	s.handler.Opened()
	return s.step(envoy, func() error {
		switch mode := envoy.Metadata(state.InitialMode); mode {
		case state.ModeRouter:
			return s.client(envoy)
		case state.ModeAttempt:
			return envoy.Leave(func() error { return s.attempt(envoy) })
		default:
			return &duplex.Status{Code: codes.InvalidArgument, Message: fmt.Sprintf("stream metadata %s must be %s or %s", state.InitialMode, state.ModeRouter, state.ModeAttempt)}
		}
	})
}

// step runs f, which serves a stream or the rest of one. An unrecovered panic ends only this stream, and Envoy answers the client.
func (s *service) step(envoy *duplex.Stream, f func() error) (err error) {
	leaves := false
	defer func() {
		if r := recover(); r != nil {
			s.handler.Panicked(r)
			err = &duplex.Status{Code: codes.Internal, Message: "the gateway failed to handle this stream"}
		}
		if !leaves {
			s.handler.Closed()
		}
	}()
	err = f()
	if l, ok := errors.AsType[*stream.Leaving](err); ok {
		leaves = true
		return &stream.Leaving{Rest: func() error { return s.step(envoy, l.Rest) }}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, stream.ErrDisconnected) || envoy.Context().Err() != nil {
		err = nil // the client disconnected, or the attempt ended
	}
	return err
}

// client serves the router-level filter.
func (s *service) client(envoy *duplex.Stream) error {
	d := &client{envoy: envoy}
	if err := d.receive(); err != nil {
		return err
	}
	if d.in.kind != kindRequestHeaders {
		return d.passThrough()
	}
	hd, bodyless := stream.NewHead(d.in.headers, d.in.headers.Get(state.HeaderPeer)), d.in.end
	serve := func() error { return s.handler.Serve(envoy.Context(), d, hd, bodyless) }
	if hd.IsShort(bodyless) {
		return serve()
	}
	return d.Leave(serve)
}

// attempt serves the filter of a provider's retry cluster: it encodes the attempt's request from the exchange.
func (s *service) attempt(envoy *duplex.Stream) error {
	d := client{envoy: envoy}
	if err := d.receive(); err != nil {
		return err
	}
	in := &d.in
	n, _ := strconv.Atoi(in.headers.Get("x-envoy-attempt-count"))
	r, err := s.handler.Attempt(&stream.Attempt{Exchange: in.metadataValue(state.KeyExchange), Cluster: in.attribute(attrCluster), Number: n, Header: in.headers})
	if err != nil {
		// Envoy never retries after a failed upstream filter: the client gets the gateway's local 503.
		return &duplex.Status{Code: codes.FailedPrecondition, Message: err.Error()}
	}
	resp := requestHeaders(&ep.CommonResponse{
		Status:         ep.CommonResponse_CONTINUE_AND_REPLACE,
		HeaderMutation: mutation(r.Set, r.Remove),
		BodyMutation:   &ep.BodyMutation{Mutation: &ep.BodyMutation_Body{Body: r.Body}},
	})
	resp.DynamicMetadata = lengthMetadata(strconv.Itoa(len(r.Body)))
	if err := d.sendMessage(resp); err != nil {
		return err
	}
	return d.receive() // the stream ends with its attempt
}

// Attributes that Envoy sends.
const (
	attrCluster = "xds.cluster_name"
	attrDetails = "response.code_details"
)

// connection is a stream of messages with Envoy: a *duplex.Stream.
type connection interface {
	Receive() ([]byte, error)
	Send(size int, fill func([]byte) []byte) error
	SendNow(size int, fill func([]byte) []byte) error
	Leave(f func() error) error
	Turn()
}

// client is the client over one ext_proc stream in FULL_DUPLEX_STREAMED mode.
type client struct {
	envoy connection
	in    message // the last received message

	bodyless bool // the head of the provider's answer ended the stream

	// trailers are the names of the trailers of the provider's answer; nil if there are none. They end the body instead of its last chunk, so Envoy
	// waits for a response to them. They are removed, as the provider's headers are.
	trailers []string
}

var _ stream.Client = (*client)(nil)

// send sends a message. r can be reused afterwards.
func (c *client) send(r response) error { return disconnected(c.envoy.Send(r.size(), r.appendTo)) }

// sendMessage sends an infrequent message with the generated code.
func (c *client) sendMessage(m proto.Message) error { return c.generated(m, c.envoy.Send) }

func (*client) generated(m proto.Message, send func(int, func([]byte) []byte) error) error {
	b, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	return disconnected(send(len(b), func(to []byte) []byte { return append(to, b...) }))
}

// receive waits for the next message. After a client disconnects, the stream ends before its context does.
func (c *client) receive() error {
	b, err := c.envoy.Receive()
	if errors.Is(err, io.EOF) {
		return stream.ErrDisconnected
	}
	if err != nil {
		return disconnected(err)
	}
	return c.in.read(b)
}

// disconnected maps the error of a stream that Envoy ended.
func disconnected(err error) error {
	if errors.Is(err, duplex.ErrDisconnected) {
		return stream.ErrDisconnected
	}
	return err
}

// passThrough forwards an answer unchanged: Envoy refused the request before any filter ran.
func (c *client) passThrough() error {
	for {
		var err error
		switch c.in.kind {
		case kindResponseHeaders:
			err = c.send(response{envelope: inResponseHeaders, what: headerChanges})
		case kindResponseBody:
			err = c.chunks(inResponseBody, c.in.body, c.in.end)
		case kindResponseTrailers:
			err = c.sendMessage(responseTrailers(nil))
		case kindRequestHeaders, kindRequestBody, kindRequestTrailers:
			err = fmt.Errorf("%s in an answer to an unseen request", c.in.kind)
		}
		if err != nil {
			return err
		}
		if err := c.receive(); err != nil {
			return err
		}
	}
}

// RequestBody implements stream.Client.
func (c *client) RequestBody(u stream.RequestBody) error {
	late := false
	timedOut := func() {
		late = true
		u.TimedOut(c.Reply)
	}
	var w bodyDeadline
	defer w.end()
	for {
		w.begin(u.Wait(), timedOut)
		err := c.receive()
		w.end()
		if late {
			return stream.ErrAnswered
		}
		if err != nil {
			return err
		}
		switch c.in.kind {
		case kindRequestBody:
			if err := u.Add(c.in.body); err != nil || c.in.end {
				return err
			}
		case kindRequestTrailers:
			// Envoy would send trailers after a body with a content-length, where the provider expects the next request.
			return fault.Newf(fault.InvalidRequest, "the request ends in trailers, which are not supported: send it without them")
		default:
			return fmt.Errorf("%s while reading a request body", c.in.kind)
		}
	}
}

// Reply implements stream.Client. It may run concurrently with receive.
func (c *client) Reply(r stream.Reply) error { return c.generated(immediate(r), c.envoy.SendNow) }

// Forward implements stream.Client.
func (c *client) Forward(f stream.Forward) error {
	head := response{envelope: inRequestHeaders, what: headerChangesReroute, set: f.Set, remove: f.Remove, metadata: orderMetadata(f.Exchange, f.Clusters)}
	if err := c.send(head); err != nil {
		return err
	}
	return c.chunks(inRequestBody, f.Body, true)
}

// chunks sends a body in pieces of at most MaxPiece.
func (c *client) chunks(envelope []tag, b []byte, end bool) error {
	for len(b) > stream.MaxPiece {
		if err := c.send(response{envelope: envelope, body: b[:stream.MaxPiece]}); err != nil {
			return err
		}
		b = b[stream.MaxPiece:]
	}
	return c.send(response{envelope: envelope, body: b, end: end})
}

// Next implements stream.Client. The caller owns the result.
func (c *client) Next() (stream.Piece, error) {
	for {
		if err := c.receive(); err != nil {
			return stream.Piece{}, err
		}
		switch c.in.kind {
		case kindResponseHeaders:
			c.bodyless = c.in.end
			return stream.Piece{Head: newAnswerHead(&c.in), End: c.in.end}, nil
		case kindResponseBody:
			return stream.Piece{Body: bytes.Clone(c.in.body), End: c.in.end}, nil
		case kindResponseTrailers:
			c.trailers = names(c.in.headers)
			return stream.Piece{End: true}, nil
		case kindRequestTrailers:
			// Late trailers of a request that was forwarded already.
		default:
			return stream.Piece{}, fmt.Errorf("%s while waiting for an answer", c.in.kind)
		}
	}
}

func newAnswerHead(m *message) *stream.AnswerHead {
	a := &stream.AnswerHead{Header: m.headers, Cluster: m.attribute(attrCluster), Details: m.attribute(attrDetails)}
	a.Status, _ = strconv.Atoi(a.Header.Get(":status"))
	a.Attempts, _ = strconv.Atoi(a.Header.Get("x-envoy-attempt-count"))
	a.Attempts = max(a.Attempts, 1)
	a.Outcomes = attemptOutcomes(m, a.Attempts)
	return a
}

// names returns the names of a list's fields, without pseudo-headers.
func names(l header.List) []string {
	out := make([]string, 0, len(l))
	for _, f := range l {
		if f.Name != "" && f.Name[0] != ':' {
			out = append(out, f.Name)
		}
	}
	return out
}

// attemptOutcomes reads the outcomes that the provider clusters' filters wrote to metadata; an attempt without an answer has none.
func attemptOutcomes(m *message, n int) []string {
	if len(m.metadata) == 0 || n > 64 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = m.metadataValue(state.KeyAttempt + strconv.Itoa(i+1))
	}
	return out
}

// Answer implements stream.Client.
func (c *client) Answer(r stream.Reply, remove []string) error {
	if c.bodyless { // Envoy accepts no body after a head that ended the stream
		return c.Reply(r)
	}
	set := append(header.List{{Name: ":status", Value: strconv.Itoa(r.Status)}}, r.Header...)
	if err := c.send(response{envelope: inResponseHeaders, what: headerChanges, set: set, remove: remove}); err != nil {
		return err
	}
	if err := c.chunks(inResponseBody, r.Body, c.trailers == nil); err != nil || c.trailers == nil {
		return err
	}
	return c.sendMessage(responseTrailers(c.trailers))
}

// Leave implements stream.Client.
func (c *client) Leave(f func() error) error { return c.envoy.Leave(f) }

// Turn implements stream.Client.
func (c *client) Turn() { c.envoy.Turn() }

// Caller implements stream.Client: calls go through the egress listener.
func (*client) Caller() stream.Caller { return nil }

// StreamHead implements stream.Client.
func (c *client) StreamHead(code int, h header.List) error {
	h = append(header.List{{Name: ":status", Value: strconv.Itoa(code)}}, h...)
	return c.send(response{envelope: inStreamHead, what: headerMap, set: h})
}

// StreamBody implements stream.Client.
func (c *client) StreamBody(b []byte, end bool) error { return c.chunks(inStreamBody, b, end) }

// StreamTrailers implements stream.Client.
func (c *client) StreamTrailers(h header.List) error {
	return c.send(response{envelope: inStreamTrailers, what: headerMap, set: h})
}
