package processor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"

	"bardo.money/gateway/extproc/stream"
)

// envoy is Envoy's end of one stream: it stores what it is sent, and sends scripted messages.
type envoy struct {
	says []*ep.ProcessingRequest
	got  []*ep.ProcessingResponse
}

func (e *envoy) Receive() ([]byte, error) {
	if len(e.says) == 0 {
		return nil, io.EOF
	}
	b, err := proto.Marshal(e.says[0])
	e.says = e.says[1:]
	return b, err
}

func (e *envoy) Send(size int, fill func([]byte) []byte) error {
	b := fill(nil)
	if len(b) != size {
		return fmt.Errorf("%d bytes were announced, %d written", size, len(b))
	}
	r := &ep.ProcessingResponse{}
	e.got = append(e.got, r)
	return proto.Unmarshal(b, r)
}

func (e *envoy) SendNow(size int, fill func([]byte) []byte) error { return e.Send(size, fill) }

func (*envoy) Turn() {}

func (*envoy) Leave(f func() error) error { return f() }

// TestK51LargeBodiesAreSentInPieces: Envoy takes at most 64 KiB of a streamed body in one message.
func TestK51LargeBodiesAreSentInPieces(t *testing.T) {
	sent := func(r *ep.ProcessingResponse) *ep.StreamedBodyResponse {
		if b := r.GetRequestBody(); b != nil {
			return b.GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		if b := r.GetResponseBody(); b != nil {
			return b.GetResponse().GetBodyMutation().GetStreamedResponse()
		}
		return r.GetStreamedImmediateResponse().GetBodyResponse()
	}
	for name, send := range map[string]func(*client, []byte) error{
		"a request":         func(d *client, b []byte) error { return d.Forward(stream.Forward{Body: b, Clusters: []string{"p"}}) },
		"an answer":         func(d *client, b []byte) error { return d.Answer(stream.Reply{Body: b}, nil) },
		"an answer of ours": func(d *client, b []byte) error { return d.StreamBody(b, true) },
	} {
		for _, size := range []int{0, 1, stream.MaxPiece - 1, stream.MaxPiece, stream.MaxPiece + 1, 64<<10 + 1, 3*stream.MaxPiece + 7, 10 << 20} {
			e := &envoy{}
			body := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
			if err := send(&client{envoy: e}, body); err != nil {
				t.Fatal(err)
			}
			var whole []byte
			ends := 0
			for _, r := range e.got {
				s := sent(r)
				if s == nil { // the head
					continue
				}
				if len(s.GetBody()) > 64<<10 {
					t.Errorf("%s of %d bytes: a piece of %d", name, size, len(s.GetBody()))
				}
				if ends > 0 {
					t.Errorf("%s of %d bytes: a piece after the end", name, size)
				}
				if s.GetEndOfStream() {
					ends++
				}
				whole = append(whole, s.GetBody()...)
			}
			if ends != 1 || !bytes.Equal(whole, body) {
				t.Errorf("%s of %d bytes: %d bytes arrived, %d ends", name, size, len(whole), ends)
			}
		}
	}
}

// TestD59TrailersOfProvidersAreDropped: a provider that speaks HTTP/2 may send trailers. They are removed, and answered after the whole answer, since
// Envoy waits for nothing else then.
func TestD59TrailersOfProvidersAreDropped(t *testing.T) {
	trailers := &core.HeaderMap{}
	for _, name := range []string{"set-cookie", "openai-organization", "x-payment-response"} {
		trailers.Headers = append(trailers.Headers, &core.HeaderValue{Key: name, RawValue: []byte("v")})
	}
	e := &envoy{says: []*ep.ProcessingRequest{
		{Request: &ep.ProcessingRequest_ResponseTrailers{ResponseTrailers: &ep.HttpTrailers{Trailers: trailers}}},
	}}
	d := &client{envoy: e}
	if p, err := d.Next(); err != nil || !p.End || len(e.got) != 0 {
		t.Fatalf("%+v, %v, %d messages", p, err, len(e.got))
	}
	if err := d.Answer(stream.Reply{Status: 200, Body: []byte("{}")}, nil); err != nil || len(e.got) != 3 {
		t.Fatalf("%v, %d messages", err, len(e.got))
	}
	if e.got[1].GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
		t.Error("the body ends before its trailers")
	}
	got := e.got[2].GetResponseTrailers().GetHeaderMutation().GetRemoveHeaders()
	if want := []string{"set-cookie", "openai-organization", "x-payment-response"}; !slices.Equal(got, want) {
		t.Errorf("taken off are %q, want %q", got, want)
	}
}

// TestK34AStreamThatEnvoyEndsIsADisconnect: its context may end slightly later.
func TestK34AStreamThatEnvoyEndsIsADisconnect(t *testing.T) {
	c := &client{envoy: &envoy{}}
	if _, err := c.Next(); !errors.Is(err, stream.ErrDisconnected) {
		t.Errorf("the next piece is %v", err)
	}
	if err := c.receive(); !errors.Is(err, stream.ErrDisconnected) {
		t.Errorf("the next message is %v", err)
	}
}
