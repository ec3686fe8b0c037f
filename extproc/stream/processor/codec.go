package processor

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// codec is gRPC's protobuf codec with other buffer sizes. gRPC's pool has none between 32 KiB and 1 MiB and clears whole buffers: long prompts
// arrive in pieces of about 50 kB, and clearing 1 MiB for each was a quarter of their cost.
type codec struct{ buffers mem.BufferPool }

var _ encoding.CodecV2 = codec{}

// newCodec makes the codec of one server. Safe for concurrent use.
func newCodec() (codec, error) {
	buffers, err := mem.NewBinaryTieredBufferPool(8, 12, 14, 15, 16, 17, 18, 19, 20) // powers of two
	return codec{buffers}, err
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*response); ok {
		return c.write(r.size(), func(b []byte) ([]byte, error) { return r.appendTo(b), nil })
	}
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a protobuf message", v)
	}
	size := proto.Size(m)
	o := proto.MarshalOptions{UseCachedSize: true} // m does not change in between
	return c.write(size, func(b []byte) ([]byte, error) { return o.MarshalAppend(b, m) })
}

// write allocates a buffer and fills it.
func (c codec) write(size int, fill func([]byte) ([]byte, error)) (mem.BufferSlice, error) {
	if mem.IsBelowBufferPoolingThreshold(size) {
		b, err := fill(make([]byte, 0, size))
		return mem.BufferSlice{mem.SliceBuffer(b)}, err
	}
	buf := c.buffers.Get(size)
	if _, err := fill((*buf)[:0]); err != nil {
		c.buffers.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, c.buffers)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	buf := data.MaterializeToBuffer(c.buffers)
	if m, ok := v.(*message); ok {
		return m.read(buf)
	}
	defer buf.Free()
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a protobuf message", v)
	}
	return proto.Unmarshal(buf.ReadOnlyData(), m)
}
