package processor

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"

	"bardo.money/gateway/xds/state"
)

// Dynamic metadata is a google.protobuf.Struct: nested maps, which the generated code encodes slowly by reflection. Every request has a small one
// of the same shape, so it is encoded by hand here, in a seventh of the time.

// orderMetadata is the clusters of a request's attempts for the priority_group specifier, and the exchange's id for the streams of later
// attempts. Unlike headers, metadata never reaches a provider. Groups are defined here, not only named: named groups would have to be in the
// route, and a request that started before the last configuration push has the older route.
func orderMetadata(exchange string, groups []string) []byte {
	var text, field, object [128]byte // of typical names, so that they stay on the stack
	var values, array, whole [512]byte
	list := values[:0]
	for _, g := range groups {
		name := appendText(text[:0], g)
		cluster := appendField(field[:0], "cluster_name", name)
		cluster = appendField(cluster, "weight", one)
		var member, entry [256]byte
		clusters := appendBytes(member[:0], listValues, appendBytes(object[:0], valueStruct, cluster))
		group := appendField(appendField(entry[:0], "name", name), "clusters", appendBytes(array[:0], valueList, clusters))
		list = appendBytes(list, listValues, appendBytes(object[:0], valueStruct, group))
	}
	order := appendField(whole[:0], "priority_groups", appendBytes(array[:0], valueList, list))
	id := appendField(field[:0], state.KeyExchange, appendText(text[:0], exchange))
	b := appendField(make([]byte, 0, len(order)+len(id)+64), state.Metadata, appendBytes(object[:0], valueStruct, id))
	return appendField(b, state.MetadataOrder, appendBytes(array[:0], valueStruct, order))
}

// lengthMetadata is the content length of the body of an attempt.
func lengthMetadata(n string) *structpb.Struct {
	length := appendField(nil, state.KeyContentLength, appendText(nil, n))
	return encoded(appendField(nil, state.Metadata, appendBytes(nil, valueStruct, length)))
}

// encoded is a Struct with encoded fields, kept as unknown fields: it looks empty but is marshalled completely.
func encoded(fields []byte) *structpb.Struct {
	s := &structpb.Struct{}
	s.ProtoReflect().SetUnknown(fields)
	return s
}

// Field numbers of google.protobuf.Struct, of an entry of its map, of Value and of ListValue.
const (
	structFields protowire.Number = 1
	entryKey     protowire.Number = 1
	entryValue   protowire.Number = 2
	valueNumber  protowire.Number = 2
	valueText    protowire.Number = 3
	valueStruct  protowire.Number = 5
	valueList    protowire.Number = 6
	listValues   protowire.Number = 1
)

// one is the number 1 as a Value.
var one = protowire.AppendFixed64(protowire.AppendTag(nil, valueNumber, protowire.Fixed64Type), math.Float64bits(1))

// appendField appends one field of a Struct; value is an encoded Value.
func appendField(b []byte, name string, value []byte) []byte {
	const tag = 1 // bytes of one: the numbers are small
	b = protowire.AppendTag(b, structFields, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(tag+protowire.SizeBytes(len(name))+tag+protowire.SizeBytes(len(value)))) //nolint:gosec // sizes
	b = protowire.AppendTag(b, entryKey, protowire.BytesType)
	b = protowire.AppendString(b, name)
	return appendBytes(b, entryValue, value)
}

func appendText(b []byte, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, valueText, protowire.BytesType), s)
}

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}
