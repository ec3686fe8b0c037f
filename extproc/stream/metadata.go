package stream

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Envoy's dynamic metadata is a google.protobuf.Struct: nested maps, which the generated code encodes slowly by reflection. Every request has a small one
// of the same shape, so it is encoded by hand here, in a seventh of the time.

// PriorityGroups appends the metadata of a request's attempts for the priority_group specifier: the encoded Struct {"priority_groups": [{"name": CLUSTER,
// "clusters": [{"cluster_name": CLUSTER, "weight": 1}]}, …]}. Groups are defined here, not only named: named groups would have to be in the route, and a
// request that started before the last configuration push has the older route.
func PriorityGroups(b []byte, clusters []string) []byte {
	var text, field, object [128]byte // of typical names, so that they stay on the stack
	var values, array [512]byte
	list := values[:0]
	for _, g := range clusters {
		name := AppendText(text[:0], g)
		cluster := AppendField(field[:0], "cluster_name", name)
		cluster = AppendField(cluster, "weight", one)
		var member, entry [256]byte
		members := appendBytes(member[:0], listValues, AppendStruct(object[:0], cluster))
		group := AppendField(AppendField(entry[:0], "name", name), "clusters", appendBytes(array[:0], valueList, members))
		list = appendBytes(list, listValues, AppendStruct(object[:0], group))
	}
	return AppendField(b, "priority_groups", appendBytes(array[:0], valueList, list))
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

// AppendField appends one field of a Struct; value is an encoded Value.
func AppendField(b []byte, name string, value []byte) []byte {
	const tag = 1 // bytes of one: the numbers are small
	b = protowire.AppendTag(b, structFields, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(tag+protowire.SizeBytes(len(name))+tag+protowire.SizeBytes(len(value)))) //nolint:gosec // sizes
	b = protowire.AppendTag(b, entryKey, protowire.BytesType)
	b = protowire.AppendString(b, name)
	return appendBytes(b, entryValue, value)
}

// AppendText appends a Value of a string.
func AppendText(b []byte, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, valueText, protowire.BytesType), s)
}

// AppendStruct appends a Value of a Struct with encoded fields.
func AppendStruct(b, fields []byte) []byte { return appendBytes(b, valueStruct, fields) }

func appendBytes(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}
