package processor

import (
	"context"
	"errors"
	"net"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/xds/state"
)

// attempts is a handler of attempts: one that fails, and one that panics.
type attempts struct {
	stream.Handler
	panics chan any
}

func (attempts) Opened() {}
func (attempts) Closed() {}

func (a attempts) Panicked(value any) { a.panics <- value }

func (attempts) Attempt(a *stream.Attempt) (stream.AttemptRequest, error) {
	if a.Cluster != state.RetryCluster("p") || a.Number != 2 {
		return stream.AttemptRequest{}, errors.New("the attempt was read wrong")
	}
	if a.Exchange == "panics" {
		panic("in an attempt")
	}
	return stream.AttemptRequest{Body: []byte(a.Exchange)}, nil
}

// TestAPanicEndsOnlyItsStream: a panic that the handler did not catch ends one stream, and the server serves the next.
func TestAPanicEndsOnlyItsStream(t *testing.T) {
	socket, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	h := attempts{panics: make(chan any, 1)}
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, h, socket) }()
	conn, err := grpc.NewClient(socket.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(exchange string) (*ep.ProcessingResponse, error) {
		t.Helper()
		s, err := ep.NewExternalProcessorClient(conn).Process(metadata.AppendToOutgoingContext(ctx, state.InitialMode, state.ModeAttempt))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Send(&ep.ProcessingRequest{
			Request: &ep.ProcessingRequest_RequestHeaders{RequestHeaders: &ep.HttpHeaders{Headers: &core.HeaderMap{
				Headers: []*core.HeaderValue{{Key: "x-envoy-attempt-count", RawValue: []byte("2")}},
			}}},
			MetadataContext: &core.Metadata{FilterMetadata: map[string]*structpb.Struct{state.Metadata: object(state.KeyExchange, exchange)}},
			Attributes:      map[string]*structpb.Struct{filterName: object(attrCluster, state.RetryCluster("p"))},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s.Recv()
	}
	if _, err := ask("panics"); status.Code(err) != codes.Internal || <-h.panics != "in an attempt" {
		t.Errorf("%v, want %s", err, codes.Internal)
	}
	r, err := ask("lives")
	if got := r.GetRequestHeaders().GetResponse().GetBodyMutation().GetBody(); err != nil || string(got) != "lives" {
		t.Errorf("%q, %v", got, err)
	}
	_ = conn.Close()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
