package onnx

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"bardo.money/gateway/internal/modeltest"
)

func TestTheSignatureOfTheInstalledModels(t *testing.T) {
	for _, row := range []struct {
		file        string
		inputs, out []string
	}{
		{"all-minilm-l6-v2.int8.onnx", []string{"input_ids", "attention_mask", "token_type_ids"}, []string{"sentence_embedding"}},
		{"stackone-defender-v5.onnx", []string{"input_ids", "attention_mask"}, []string{"logits"}},
	} {
		in, out, err := signature(filepath.Join(modeltest.Dir(t), row.file))
		if err != nil || !slices.Equal(in, row.inputs) || !slices.Equal(out, row.out) {
			t.Errorf("%s: %q %q %v", row.file, in, out, err)
		}
	}
}

// message is fields of a message: numbers and their bytes, in turn.
func message(fields ...any) (b []byte) {
	for i := 0; i < len(fields); i += 2 {
		b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
		b = protowire.AppendBytes(b, fields[i+1].([]byte))
	}
	return b
}

func TestFilesThatAreNoModel(t *testing.T) {
	value := func(name string) []byte { return message(2, []byte("type"), valueName, []byte(name)) }
	graph := message(5, []byte("weights"), graphInput, value("input_ids"), graphOutput, value("logits"))
	numbers := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 8)
	numbers = protowire.AppendFixed64(protowire.AppendTag(numbers, 20, protowire.Fixed64Type), 1)
	numbers = protowire.AppendFixed32(protowire.AppendTag(numbers, 21, protowire.Fixed32Type), 1)
	whole := slices.Concat(numbers, message(2, []byte("producer"), modelGraph, graph))
	for _, row := range []struct {
		about string
		file  []byte
		good  bool
	}{
		{"a model", whole, true},
		{"nothing", nil, false},
		{"a text", []byte("this is no model"), false},
		{"no graph", message(2, []byte("producer")), false},
		{"a graph that ends early", whole[:len(whole)-3], false},
		{"a weight beyond the end", append(protowire.AppendTag(nil, 7, protowire.BytesType), 20, 0x2a, 100), false},
		{"a length beyond what there is", append(protowire.AppendTag(nil, 3, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), false},
		{"an input without a name", message(modelGraph, message(graphInput, message(2, []byte("type")))), false},
		{"an input that is too long", message(modelGraph, message(graphInput, make([]byte, maxValueInfo+1))), false},
		{"a group", protowire.AppendTag(nil, 7, protowire.StartGroupType), false},
		{"field 0", []byte{0x02, 0x00}, false},
	} {
		path := filepath.Join(t.TempDir(), "model.onnx")
		if err := os.WriteFile(path, row.file, 0o600); err != nil {
			t.Fatal(err)
		}
		in, out, err := signature(path)
		if row.good != (err == nil) || err != nil && !errors.Is(err, errNoModel) {
			t.Errorf("%s: %v", row.about, err)
		}
		if row.good && (!slices.Equal(in, []string{"input_ids"}) || !slices.Equal(out, []string{"logits"})) {
			t.Errorf("%s: %q %q", row.about, in, out)
		}
	}
}
