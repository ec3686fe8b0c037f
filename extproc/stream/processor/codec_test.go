package processor

import (
	"bytes"
	"fmt"
	"testing"

	ep "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func requestPiece(size int) *ep.ProcessingRequest {
	return &ep.ProcessingRequest{Request: &ep.ProcessingRequest_RequestBody{
		RequestBody: &ep.HttpBody{Body: bytes.Repeat([]byte("x"), size), EndOfStream: true},
	}}
}

func TestTheCodecIsCompatibleWithGRPCs(t *testing.T) {
	own := encoding.GetCodecV2(grpcproto.Name)
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 10, 1 << 10, 50_000, 1 << 16, 1 << 20, 3 << 20} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			want := requestPiece(size)
			for range 2 { // the second time with buffers that were used
				data, err := c.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := own.Marshal(want)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(data.Materialize(), theirs.Materialize()) {
					t.Error("the bytes differ")
				}
				got := &ep.ProcessingRequest{}
				if err := c.Unmarshal(inFrames(data.Materialize()), got); err != nil || !proto.Equal(got, want) {
					t.Errorf("read something else: %v", err)
				}
				data.Free()
				theirs.Free()
			}
		})
	}
}

func TestTheCodecRefusesOtherTypes(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("text was written")
	}
	if err := c.Unmarshal(nil, new(string)); err == nil {
		t.Error("text was read")
	}
	if err := c.Unmarshal(inFrames([]byte{0xff}), &ep.ProcessingRequest{}); err == nil {
		t.Error("half a varint was read")
	}
}

// inFrames cuts a message as HTTP/2 does.
func inFrames(b []byte) mem.BufferSlice {
	const frame = 16 << 10
	var out mem.BufferSlice
	for len(b) > frame {
		out, b = append(out, mem.SliceBuffer(b[:frame])), b[frame:]
	}
	return append(out, mem.SliceBuffer(b))
}

func BenchmarkReadPiece(b *testing.B) {
	own, err := newCodec()
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{300, 50_000} {
		raw, err := proto.Marshal(requestPiece(size))
		if err != nil {
			b.Fatal(err)
		}
		data := inFrames(raw)
		for name, c := range map[string]encoding.CodecV2{"ours": own, "gRPC's": encoding.GetCodecV2(grpcproto.Name)} {
			b.Run(fmt.Sprint(size, " bytes ", name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					var m ep.ProcessingRequest
					if err := c.Unmarshal(data, &m); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
