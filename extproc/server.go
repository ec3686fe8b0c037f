package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

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
func (s *service) Process(stream ep.ExternalProcessor_ProcessServer) error {
	s.gateway.Metrics.StreamOpened()
	defer s.gateway.Metrics.StreamClosed()
	md, _ := metadata.FromIncomingContext(stream.Context())
	mode := md.Get(state.InitialMode)
	var err error
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
	msg, err := stream.Recv()
	if err != nil {
		return err
	}
	if msg.GetRequestHeaders() == nil {
		return d.pass(msg)
	}
	hd, end := requestHead(msg)
	return s.gateway.serve(stream.Context(), d, hd, end)
}

// attempt serves the filter of a provider's retry cluster: it writes this attempt's request anew from the exchange.
func (s *service) attempt(stream ep.ExternalProcessor_ProcessServer) error {
	msg, err := stream.Recv()
	if err != nil {
		return err
	}
	h := headerList(msg.GetRequestHeaders().GetHeaders())
	cluster := attribute(msg, "xds.cluster_name")
	n, _ := strconv.Atoi(h.Get("x-envoy-attempt-count"))
	id := msg.GetMetadataContext().GetFilterMetadata()[state.Metadata].GetFields()[state.KeyExchange].GetStringValue()
	call, err := s.gateway.encodeAttempt(id, cluster, n)
	if err != nil {
		// Envoy never retries after a failed upstream filter: the client gets the gateway's local 503.
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	set, remove := call.headers(h)
	resp := requestHeaders(&ep.CommonResponse{
		Status:         ep.CommonResponse_CONTINUE_AND_REPLACE,
		HeaderMutation: mutation(set, remove),
		BodyMutation:   &ep.BodyMutation{Mutation: &ep.BodyMutation_Body{Body: call.body}},
	})
	resp.DynamicMetadata = lengthMetadata(strconv.Itoa(len(call.body)))
	if err := stream.Send(resp); err != nil {
		return err
	}
	_, err = stream.Recv() // the stream ends with its attempt
	return err
}

// attribute is a string attribute that Envoy sent along with a message.
func attribute(msg *ep.ProcessingRequest, name string) string {
	return msg.GetAttributes()["envoy.filters.http.ext_proc"].GetFields()[name].GetStringValue()
}

// envoyDoor is the door over one ext_proc stream in FULL_DUPLEX_STREAMED mode.
type envoyDoor struct {
	stream ep.ExternalProcessor_ProcessServer
}

var _ door = (*envoyDoor)(nil)

func (d *envoyDoor) send(r *ep.ProcessingResponse) error {
	return d.stream.Send(r)
}

// requestHead reads the request's headers; end is true when it has no body.
func requestHead(msg *ep.ProcessingRequest) (hd head, end bool) {
	rh := msg.GetRequestHeaders()
	return newHead(headerList(rh.GetHeaders()), attribute(msg, "source.address")), rh.GetEndOfStream()
}

// pass lets an answer through as it is: Envoy refused the request itself, before any filter saw it.
func (d *envoyDoor) pass(msg *ep.ProcessingRequest) error {
	for {
		var err error
		switch v := msg.GetRequest().(type) {
		case *ep.ProcessingRequest_ResponseHeaders:
			err = d.send(responseHeaders(&ep.CommonResponse{}))
		case *ep.ProcessingRequest_ResponseBody:
			err = d.send(responseBody(v.ResponseBody.GetBody(), v.ResponseBody.GetEndOfStream()))
		case *ep.ProcessingRequest_ResponseTrailers:
			err = d.send(&ep.ProcessingResponse{Response: &ep.ProcessingResponse_ResponseTrailers{ResponseTrailers: &ep.TrailersResponse{}}})
		default:
			err = fmt.Errorf("%T in an answer to an unseen request", v)
		}
		if err != nil {
			return err
		}
		if msg, err = d.stream.Recv(); err != nil {
			return err
		}
	}
}

// RequestBody appends the request's body to buf until its end. It stops with tooLarge set once more than limit bytes came.
func (d *envoyDoor) RequestBody(buf []byte, limit int64) (body []byte, tooLarge bool, err error) {
	for {
		msg, err := d.stream.Recv()
		if err != nil {
			return buf, false, err
		}
		switch v := msg.GetRequest().(type) {
		case *ep.ProcessingRequest_RequestBody:
			if int64(len(buf)+len(v.RequestBody.GetBody())) > limit {
				return buf, true, nil
			}
			buf = append(buf, v.RequestBody.GetBody()...)
			if v.RequestBody.GetEndOfStream() {
				return buf, false, nil
			}
		case *ep.ProcessingRequest_RequestTrailers:
			return buf, false, d.send(&ep.ProcessingResponse{Response: &ep.ProcessingResponse_RequestTrailers{RequestTrailers: &ep.TrailersResponse{}}})
		default:
			return buf, false, fmt.Errorf("%T while reading a request body", v)
		}
	}
}

// Reply implements door.
func (d *envoyDoor) Reply(r reply) error { return d.send(immediate(r)) }

// Forward implements door.
func (d *envoyDoor) Forward(f forward) error {
	resp := requestHeaders(&ep.CommonResponse{HeaderMutation: mutation(f.set, f.remove), ClearRouteCache: true})
	resp.DynamicMetadata = orderMetadata(f.exchange, f.groups)
	if err := d.send(resp); err != nil {
		return err
	}
	return d.chunks(f.body, true, requestBody)
}

// chunks sends a body in pieces that Envoy takes.
func (d *envoyDoor) chunks(b []byte, end bool, wrap func([]byte, bool) *ep.ProcessingResponse) error {
	for len(b) > bodyChunk {
		if err := d.send(wrap(b[:bodyChunk], false)); err != nil {
			return err
		}
		b = b[bodyChunk:]
	}
	return d.send(wrap(b, end))
}

// Next implements door.
func (d *envoyDoor) Next() (piece, error) {
	for {
		msg, err := d.stream.Recv()
		if err != nil {
			return piece{}, err
		}
		switch v := msg.GetRequest().(type) {
		case *ep.ProcessingRequest_ResponseHeaders:
			return piece{head: newAnswerHead(msg, v.ResponseHeaders), end: v.ResponseHeaders.GetEndOfStream()}, nil
		case *ep.ProcessingRequest_ResponseBody:
			return piece{body: v.ResponseBody.GetBody(), end: v.ResponseBody.GetEndOfStream()}, nil
		case *ep.ProcessingRequest_ResponseTrailers:
			// Trailers end the body; the exchange ends it by its own last chunk, and trailers pass.
			if err := d.send(&ep.ProcessingResponse{Response: &ep.ProcessingResponse_ResponseTrailers{ResponseTrailers: &ep.TrailersResponse{}}}); err != nil {
				return piece{}, err
			}
			return piece{end: true}, nil
		case *ep.ProcessingRequest_RequestTrailers:
			// Late trailers of a request that was forwarded already.
		default:
			return piece{}, fmt.Errorf("%T while waiting for an answer", v)
		}
	}
}

func newAnswerHead(msg *ep.ProcessingRequest, h *ep.HttpHeaders) *answerHead {
	a := &answerHead{header: headerList(h.GetHeaders()), cluster: attribute(msg, "xds.cluster_name"), details: attribute(msg, "response.code_details")}
	a.status, _ = strconv.Atoi(a.header.Get(":status"))
	a.attempts, _ = strconv.Atoi(a.header.Get("x-envoy-attempt-count"))
	a.attempts = max(a.attempts, 1)
	a.outcomes = attemptOutcomes(msg.GetMetadataContext(), a.attempts)
	return a
}

// attemptOutcomes reads what each provider cluster noted of its answer; an attempt without an answer noted nothing.
func attemptOutcomes(md *core.Metadata, n int) []string {
	fields := md.GetFilterMetadata()[state.Metadata].GetFields()
	if len(fields) == 0 || n > 64 {
		return nil
	}
	out := make([]string, n)
	for i := range out {
		out[i] = fields[state.KeyAttempt+strconv.Itoa(i+1)].GetStringValue()
	}
	return out
}

// Answer implements door.
func (d *envoyDoor) Answer(r reply, remove []string) error {
	set := append(header.List{{Name: ":status", Value: strconv.Itoa(r.status)}}, r.header...)
	if err := d.send(responseHeaders(&ep.CommonResponse{HeaderMutation: mutation(set, remove)})); err != nil {
		return err
	}
	return d.chunks(r.body, true, responseBody)
}

// StreamHead implements door.
func (d *envoyDoor) StreamHead(code int, h header.List) error {
	h = append(header.List{{Name: ":status", Value: strconv.Itoa(code)}}, h...)
	return d.send(streamedImmediate(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_HeadersResponse{
		HeadersResponse: &ep.HttpHeaders{Headers: headerMap(h)},
	}}))
}

// StreamBody implements door.
func (d *envoyDoor) StreamBody(b []byte, end bool) error {
	return d.chunks(b, end, func(b []byte, end bool) *ep.ProcessingResponse {
		return streamedImmediate(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_BodyResponse{
			BodyResponse: &ep.StreamedBodyResponse{Body: b, EndOfStream: end},
		}})
	})
}

// StreamTrailers implements door.
func (d *envoyDoor) StreamTrailers(h header.List) error {
	return d.send(streamedImmediate(&ep.StreamedImmediateResponse{Response: &ep.StreamedImmediateResponse_TrailersResponse{TrailersResponse: headerMap(h)}}))
}
