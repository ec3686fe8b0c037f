package xds_test

import (
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/state"
)

// sidecar is an ext_proc server that follows a request's x-script- headers, and forwards answers unchanged.
type sidecar struct {
	extprocv3.UnimplementedExternalProcessorServer
	address string

	mu       sync.Mutex
	server   *grpc.Server
	observed []observation
}

// observation is what the router stream of one request received.
type observation struct {
	request  map[string]string
	response map[string]string // headers of the answer
	cluster  string
	details  string
	attempts map[string]string // "attempt_1" → outcome
}

func newSidecar(t *testing.T, address string) *sidecar {
	t.Helper()
	s := &sidecar{address: address}
	s.start(t)
	t.Cleanup(s.stop)
	return s
}

func (s *sidecar) start(t *testing.T) {
	t.Helper()
	l, err := xds.Listen(context.Background(), s.address)
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(64<<20), grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(8<<20))
	extprocv3.RegisterExternalProcessorServer(g, s)
	s.mu.Lock()
	s.server = g
	s.mu.Unlock()
	go func(l net.Listener) { _ = g.Serve(l) }(l)
}

func (s *sidecar) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Stop()
}

func (s *sidecar) last() observation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.observed[len(s.observed)-1]
}

type extprocStream = grpc.BidiStreamingServer[extprocv3.ProcessingRequest, extprocv3.ProcessingResponse]

// Process serves one stream of either kind.
func (s *sidecar) Process(stream extprocStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	serve := s.router
	if md.Get(state.InitialMode)[0] == state.ModeAttempt {
		serve = s.attempt
	}
	err := serve(stream)
	if err == io.EOF || status.Code(err) == codes.Canceled { //nolint:errorlint // grpc returns it bare
		return nil
	}
	return err
}

func (s *sidecar) router(stream extprocStream) error {
	var o observation
	var body []byte
	for {
		req, err := stream.Recv()
		if err != nil {
			return err
		}
		switch v := req.Request.(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			o.request = headerMap(v.RequestHeaders.GetHeaders())
			if v.RequestHeaders.GetEndOfStream() {
				err = forward(stream, o.request, nil)
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			body = append(body, v.RequestBody.GetBody()...)
			if v.RequestBody.GetEndOfStream() {
				err = forward(stream, o.request, body)
			}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			o.response = headerMap(v.ResponseHeaders.GetHeaders())
			o.cluster, o.details = attribute(req, "xds.cluster_name"), attribute(req, "response.code_details")
			o.attempts = attempts(req)
			s.mu.Lock()
			s.observed = append(s.observed, o)
			s.mu.Unlock()
			err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{},
			}})
		case *extprocv3.ProcessingRequest_ResponseBody:
			err = sendBody(stream, v.ResponseBody.GetBody(), v.ResponseBody.GetEndOfStream(), responseBody)
		case *extprocv3.ProcessingRequest_ResponseTrailers:
			err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
				ResponseTrailers: &extprocv3.TrailersResponse{},
			}})
		}
		if err != nil {
			return err
		}
	}
}

// forward answers a request as its x-script- headers say: immediate, or order (clusters) with path and extra headers.
func forward(stream extprocStream, h map[string]string, body []byte) error {
	if code := h["x-script-immediate"]; code != "" {
		n, _ := strconv.Atoi(code)
		return stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
			ImmediateResponse: &extprocv3.ImmediateResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode(n)}, Body: []byte("of the sidecar"), Details: "bardo_reply",
			},
		}})
	}
	if h["x-script-stream"] != "" {
		return streamedReply(stream)
	}
	if h["x-script-die"] != "" {
		return status.Error(codes.Internal, "scripted")
	}
	set := []string{state.HeaderPath, h["x-script-path"], "content-length", strconv.Itoa(len(body)), "x-key", "first"}
	order := strings.Split(h["x-script-order"], ",")
	if h["x-script-order"] != "" {
		set = append(set, "x-envoy-max-retries", strconv.Itoa(len(order)-1))
	}
	if v := h["x-script-per-try"]; v != "" {
		set = append(set, "x-envoy-upstream-rq-per-try-timeout-ms", v)
	}
	var groups []any
	for _, name := range order {
		groups = append(groups, map[string]any{"name": name})
	}
	fields := map[string]any{
		state.Metadata:      map[string]any{state.KeyExchange: "id-" + h["x-request-id"]},
		state.MetadataOrder: map[string]any{"priority_groups": groups},
	}
	if h["x-script-order"] == "" {
		delete(fields, state.MetadataOrder)
	}
	md, err := structpb.NewStruct(fields)
	if err != nil {
		return err
	}
	err = stream.Send(&extprocv3.ProcessingResponse{
		DynamicMetadata: md,
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{ClearRouteCache: true, HeaderMutation: mutation(set...)},
		}},
	})
	if err != nil {
		return err
	}
	return sendBody(stream, body, true, requestBody)
}

func streamedReply(stream extprocStream) error {
	send := func(r *extprocv3.StreamedImmediateResponse) error {
		return stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_StreamedImmediateResponse{
			StreamedImmediateResponse: r,
		}})
	}
	head := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", RawValue: []byte("503")}}}
	if err := send(&extprocv3.StreamedImmediateResponse{Response: &extprocv3.StreamedImmediateResponse_HeadersResponse{
		HeadersResponse: &extprocv3.HttpHeaders{Headers: head},
	}}); err != nil {
		return err
	}
	return send(&extprocv3.StreamedImmediateResponse{Response: &extprocv3.StreamedImmediateResponse_BodyResponse{
		BodyResponse: &extprocv3.StreamedBodyResponse{Body: []byte("of the sidecar"), EndOfStream: true},
	}})
}

// attempt encodes the request again for its cluster.
func (s *sidecar) attempt(stream extprocStream) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	cluster := attribute(req, "xds.cluster_name")
	exchange := req.GetMetadataContext().GetFilterMetadata()[state.Metadata].GetFields()[state.KeyExchange].GetStringValue()
	body := `{"for":"` + cluster + `","exchange":"` + exchange + `"}`
	md, err := structpb.NewStruct(map[string]any{
		state.Metadata: map[string]any{state.KeyContentLength: strconv.Itoa(len(body))},
	})
	if err != nil {
		return err
	}
	err = stream.Send(&extprocv3.ProcessingResponse{
		DynamicMetadata: md,
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{
				Status:         extprocv3.CommonResponse_CONTINUE_AND_REPLACE,
				HeaderMutation: mutation(":path", "/for/"+cluster, ":authority", cluster+".example", "x-key", cluster),
				BodyMutation:   &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: []byte(body)}},
			},
		}},
	})
	if err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

type direction bool

const (
	requestBody  direction = false
	responseBody direction = true
)

// sendBody sends a body in pieces that fit.
func sendBody(stream extprocStream, b []byte, end bool, to direction) error {
	const piece = 60_000
	for {
		n := min(len(b), piece)
		last := end && n == len(b)
		common := &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
			Mutation: &extprocv3.BodyMutation_StreamedResponse{StreamedResponse: &extprocv3.StreamedBodyResponse{
				Body: b[:n], EndOfStream: last,
			}},
		}}
		r := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
			RequestBody: &extprocv3.BodyResponse{Response: common},
		}}
		if to == responseBody {
			r.Response = &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{Response: common}}
		}
		if err := stream.Send(r); err != nil {
			return err
		}
		if b = b[n:]; len(b) == 0 {
			return nil
		}
	}
}

func mutation(pairs ...string) *extprocv3.HeaderMutation {
	m := &extprocv3.HeaderMutation{}
	for i := 0; i < len(pairs); i += 2 {
		m.SetHeaders = append(m.SetHeaders, &corev3.HeaderValueOption{
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			Header:       &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])},
		})
	}
	return m
}

func headerMap(m *corev3.HeaderMap) map[string]string {
	out := map[string]string{}
	for _, h := range m.GetHeaders() {
		out[h.GetKey()] = h.GetValue() + string(h.GetRawValue())
	}
	return out
}

func attribute(req *extprocv3.ProcessingRequest, name string) string {
	return req.GetAttributes()["envoy.filters.http.ext_proc"].GetFields()[name].GetStringValue()
}

func attempts(req *extprocv3.ProcessingRequest) map[string]string {
	out := map[string]string{}
	for name, v := range req.GetMetadataContext().GetFilterMetadata()[state.MetadataAttempts].GetFields() {
		if strings.HasPrefix(name, state.KeyAttempt) {
			out[name] = v.GetStringValue()
		}
	}
	return out
}
