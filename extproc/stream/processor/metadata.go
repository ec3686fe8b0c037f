package processor

import (
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/xds/state"
)

// orderMetadata encodes the clusters of a request's attempts for the priority_group specifier, and the exchange's id for the streams of later
// attempts. Unlike headers, metadata never reaches a provider.
func orderMetadata(exchange string, groups []string) []byte {
	var field, object [128]byte // of typical names, so that they stay on the stack
	var array, whole [512]byte
	order := stream.PriorityGroups(whole[:0], groups)
	id := stream.AppendField(field[:0], state.KeyExchange, stream.AppendText(nil, exchange))
	b := stream.AppendField(make([]byte, 0, len(order)+len(id)+64), state.Metadata, stream.AppendStruct(object[:0], id))
	return stream.AppendField(b, state.MetadataOrder, stream.AppendStruct(array[:0], order))
}

// lengthMetadata returns the content length of an attempt's body.
func lengthMetadata(n string) *structpb.Struct {
	length := stream.AppendField(nil, state.KeyContentLength, stream.AppendText(nil, n))
	return encoded(stream.AppendField(nil, state.Metadata, stream.AppendStruct(nil, length)))
}

// encoded returns a Struct with encoded fields, kept as unknown fields: it looks empty but is marshalled completely.
func encoded(fields []byte) *structpb.Struct {
	s := &structpb.Struct{}
	s.ProtoReflect().SetUnknown(fields)
	return s
}
