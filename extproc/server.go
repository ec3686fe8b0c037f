package extproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/xds/state"
)

// Serve answers Envoy's ext_proc filters on l until ctx is done, then closes it and what is under way, and returns nil.
func Serve(ctx context.Context, g *Gateway, l net.Listener) error {
	c, err := newCodec()
	if err != nil {
		return err
	}
	s := grpc.NewServer(
		grpc.ForceServerCodecV2(c),
		grpc.MaxRecvMsgSize(64<<20),
		grpc.MaxConcurrentStreams(1<<20),
		// A stream takes a worker for its whole time, so there are as many as requests at once, not as cores: a stack that has
		// grown once takes 8 % off a request.
		grpc.NumStreamWorkers(64),
		grpc.InitialWindowSize(1<<20),
		grpc.InitialConnWindowSize(8<<20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{PermitWithoutStream: true}),
	)
	ep.RegisterExternalProcessorServer(s, &service{gateway: g})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

type service struct {
	ep.UnimplementedExternalProcessorServer
	gateway *Gateway
}

// Process serves one stream: a client's request from its first header to its last byte, or one attempt's request headers.
// A panic that no exchange has caught ends the stream alone: Envoy answers in its place.
func (s *service) Process(stream ep.ExternalProcessor_ProcessServer) (err error) {
	s.gateway.Metrics.StreamOpened()
	defer s.gateway.Metrics.StreamClosed()
	defer func() {
		if r := recover(); r != nil {
			_ = s.gateway.panicked("", r)
			err = status.Error(codes.Internal, "the gateway failed to handle this stream")
		}
	}()
	md, _ := metadata.FromIncomingContext(stream.Context())
	mode := md.Get(state.InitialMode)
	switch {
	case len(mode) == 1 && mode[0] == state.ModeRouter:
		err = s.client(stream)
	case len(mode) == 1 && mode[0] == state.ModeAttempt:
		err = s.attempt(stream)
	default:
		return status.Errorf(codes.InvalidArgument, "stream metadata %s must be %s or %s", state.InitialMode, state.ModeRouter, state.ModeAttempt)
	}
	if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
		err = nil // the client, or the attempt, is gone
	}
	return err
}

// client serves the router-level filter.
func (s *service) client(stream ep.ExternalProcessor_ProcessServer) error {
	d := &envoyDoor{stream: stream}
	defer d.in.free()
	if err := d.receive(); err != nil {
		return err
	}
	if d.in.kind != kindRequestHeaders {
		return d.pass()
	}
	return s.gateway.serve(stream.Context(), d, newHead(d.in.headers, d.in.attribute(attrPeer)), d.in.end)
}

// attempt serves the filter of a provider's retry cluster: it writes this attempt's request anew from the exchange.
func (s *service) attempt(stream ep.ExternalProcessor_ProcessServer) error {
	var in message
	defer in.free()
	if err := stream.RecvMsg(&in); err != nil {
		return err
	}
	n, _ := strconv.Atoi(in.headers.Get("x-envoy-attempt-count"))
	call, err := s.gateway.encodeAttempt(in.note(state.KeyExchange), in.attribute(attrCluster), n)
	if err != nil {
		// Envoy never retries after a failed upstream filter: the client gets the gateway's local 503.
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	set, remove := call.headers(in.headers)
	resp := requestHeaders(&ep.CommonResponse{
		Status:         ep.CommonResponse_CONTINUE_AND_REPLACE,
		HeaderMutation: mutation(set, remove),
		BodyMutation:   &ep.BodyMutation{Mutation: &ep.BodyMutation_Body{Body: call.body}},
	})
	resp.DynamicMetadata = lengthMetadata(strconv.Itoa(len(call.body)))
	if err := stream.Send(resp); err != nil {
		return err
	}
	return stream.RecvMsg(&in) // the stream ends with its attempt
}

// The attributes that Envoy sends.
const (
	attrPeer    = "source.address"
	attrCluster = "xds.cluster_name"
	attrDetails = "response.code_details"
)

// envoyDoor is the door over one ext_proc stream in FULL_DUPLEX_STREAMED mode.
type envoyDoor struct {
	stream ep.ExternalProcessor_ProcessServer
	in     message // the last one that came
	out    response

	// Names of the trailers that end the provider's answer; nil: it has none. They end its body in the place of its last piece, so Envoy waits
	// for what is said of them. None is passed on, as its headers are not.
	trailers []string
}

var _ door = (*envoyDoor)(nil)

// send writes a message. Nothing of it is needed when it returns.
func (d *envoyDoor) send(r response) error {
	d.out = r
	return d.stream.SendMsg(&d.out)
}

// receive waits for the next message.
func (d *envoyDoor) receive() error { return d.stream.RecvMsg(&d.in) }

// pass lets an answer through as it is: Envoy refused the request itself, before any filter saw it.
func (d *envoyDoor) pass() error {
	for {
		var err error
		switch d.in.kind {
		case kindResponseHeaders:
			err = d.send(response{around: inResponseHeaders, what: changes})
		case kindResponseBody:
			err = d.chunks(inResponseBody, d.in.body, d.in.end)
		case kindResponseTrailers:
			err = d.stream.Send(responseTrailers(nil))
		case kindRequestHeaders, kindRequestBody, kindRequestTrailers:
			err = fmt.Errorf("%s in an answer to an unseen request", d.in.kind)
		}
		if err != nil {
			return err
		}
		if err := d.receive(); err != nil {
			return err
		}
	}
}

// RequestBody implements door.
func (d *envoyDoor) RequestBody(u *upload) error {
	late := func() {
		defer u.x.contain()
		_ = d.Reply(u.giveUp()) // a client that is gone needs no answer
	}
	var w watch
	defer w.end()
	for {
		w.begin(u.patience(), late)
		err := d.receive()
		w.end()
		if u.late != nil {
			return answeredError{u.late}
		}
		if err != nil {
			return err
		}
		switch d.in.kind {
		case kindRequestBody:
			if err := u.add(d.in.body); err != nil || d.in.end {
				return err
			}
		case kindRequestTrailers:
			// Envoy would write them behind a body whose length was said, where the provider reads its next request.
			return fault.Newf(fault.InvalidRequest, "the request ends in trailers, which are not supported: send it without them")
		default:
			return fmt.Errorf("%s while reading a request body", d.in.kind)
		}
	}
}

// Reply implements door.
func (d *envoyDoor) Reply(r reply) error { return d.stream.Send(immediate(r)) }

// Forward implements door.
func (d *envoyDoor) Forward(f forward) error {
	head := response{around: inRequestHeaders, what: rerouting, set: f.set, remove: f.remove, metadata: orderMetadata(f.exchange, f.groups)}
	if err := d.send(head); err != nil {
		return err
	}
	return d.chunks(inRequestBody, f.body, true)
}

// chunks sends a body in pieces that Envoy takes.
func (d *envoyDoor) chunks(around []tag, b []byte, end bool) error {
	for len(b) > bodyChunk {
		if err := d.send(response{around: around, body: b[:bodyChunk]}); err != nil {
			return err
		}
		b = b[bodyChunk:]
	}
	return d.send(response{around: around, body: b, end: end})
}

// Next implements door. What it returns is the caller's.
func (d *envoyDoor) Next() (piece, error) {
	for {
		if err := d.receive(); err != nil {
			return piece{}, err
		}
		switch d.in.kind {
		case kindResponseHeaders:
			return piece{head: newAnswerHead(&d.in), end: d.in.end}, nil
		case kindResponseBody:
			return piece{body: bytes.Clone(d.in.body), end: d.in.end}, nil
		case kindResponseTrailers:
			d.trailers = foreign(d.in.headers, nil)
			return piece{end: true}, nil
		case kindRequestTrailers:
			// Late trailers of a request that was forwarded already.
		default:
			return piece{}, fmt.Errorf("%s while waiting for an answer", d.in.kind)
		}
	}
}

func newAnswerHead(m *message) *answerHead {
	a := &answerHead{header: m.headers, cluster: m.attribute(attrCluster), details: m.attribute(attrDetails)}
	a.status, _ = strconv.Atoi(a.header.Get(":status"))
	a.attempts, _ = strconv.Atoi(a.header.Get("x-envoy-attempt-count"))
	a.attempts = max(a.attempts, 1)
	a.outcomes = attemptOutcomes(m, a.attempts)
	return a
}

// attemptOutcomes reads what each provider cluster noted of its answer; an attempt without an answer noted nothing.
func attemptOutcomes(m *message, n int) []string {
	if len(m.metadata) == 0 || n > 64 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = m.note(state.KeyAttempt + strconv.Itoa(i+1))
	}
	return out
}

// Answer implements door.
func (d *envoyDoor) Answer(r reply, remove []string) error {
	set := append(header.List{{Name: ":status", Value: strconv.Itoa(r.status)}}, r.header...)
	if err := d.send(response{around: inResponseHeaders, what: changes, set: set, remove: remove}); err != nil {
		return err
	}
	if err := d.chunks(inResponseBody, r.body, d.trailers == nil); err != nil || d.trailers == nil {
		return err
	}
	return d.stream.Send(responseTrailers(d.trailers))
}

// StreamHead implements door.
func (d *envoyDoor) StreamHead(code int, h header.List) error {
	h = append(header.List{{Name: ":status", Value: strconv.Itoa(code)}}, h...)
	return d.send(response{around: inStreamHead, what: someHeaders, set: h})
}

// StreamBody implements door.
func (d *envoyDoor) StreamBody(b []byte, end bool) error { return d.chunks(inStreamBody, b, end) }

// StreamTrailers implements door.
func (d *envoyDoor) StreamTrailers(h header.List) error {
	return d.send(response{around: inStreamTrailers, what: someHeaders, set: h})
}
