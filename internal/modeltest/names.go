package modeltest

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// Namer returns a directory with a fake of bert-base-ner-uncased, as if an operator had installed it: it labels the words of people (ada lovelace),
// places (paris, new york) and organizations (acme), in any context.
func Namer(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	put(tb, dir, "bert-base-ner-uncased.onnx", namerModel())
	put(tb, dir, "bert-base-ner-uncased.tokenizer.json", namerTokenizer(tb))
	return dir
}

// put writes a file with the record of its hash.
func put(tb testing.TB, dir, name string, content []byte) {
	tb.Helper()
	sum := sha256.Sum256(content)
	for path, b := range map[string][]byte{name: content, name + ".sha256": []byte(hex.EncodeToString(sum[:]) + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, path), b, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// namerLabels is the number of the model's labels; namerWords are the words it knows, with their labels in the manifest's order.
const namerLabels = 9

var namerWords = []struct {
	text  string
	label int
}{
	{"[PAD]", 0}, {"[UNK]", 0}, {"[CLS]", 0}, {"[SEP]", 0}, {"ada", 3}, {"lovelace", 4}, {"grace", 3}, {"##ful", 0}, {"paris", 7}, {"new", 7}, {"york", 8}, {"acme", 5},
}

func namerTokenizer(tb testing.TB) []byte {
	tb.Helper()
	vocab := make(map[string]int)
	for i, w := range namerWords {
		vocab[w.text] = i
	}
	special := func(name string) map[string]any {
		return map[string]any{"SpecialToken": map[string]any{"id": name, "type_id": 0}}
	}
	ids := make(map[string]any)
	var added []any
	for i, name := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]"} {
		added = append(added, map[string]any{"id": i, "special": true, "content": name, "normalized": false})
		ids[name] = map[string]any{"id": name, "ids": []int{i}, "tokens": []string{name}}
	}
	b, err := json.Marshal(map[string]any{
		"added_tokens":  added,
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"post_processor": map[string]any{
			"type": "TemplateProcessing", "special_tokens": ids,
			"single": []any{special("[CLS]"), map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}, special("[SEP]")},
		},
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// namerModel is the graph that looks up each token's labels: Gather(table, input_ids).
func namerModel() []byte {
	var table []byte
	for _, w := range namerWords {
		for label := range namerLabels {
			x := float32(0)
			if label == w.label {
				x = 9
			}
			table = binary.LittleEndian.AppendUint32(table, math.Float32bits(x))
		}
	}
	const float, integer = 1, 7
	node := join(text(1, "table"), text(1, "input_ids"), text(2, "logits"), text(4, "Gather"))
	weights := join(number(1, uint64(len(namerWords))), number(1, namerLabels), number(2, float), text(8, "table"), text(9, string(table)))
	graph := join(text(1, string(node)), text(2, "names"), text(5, string(weights)), value(11, "input_ids", integer, "b", "n"), value(11, "attention_mask", integer, "b", "n"),
		value(12, "logits", float, "b", "n", "l"))
	return join(number(1, 8), text(8, string(number(2, 13))), text(7, string(graph)))
}

// value returns the description of an input or output: a tensor with named dimensions.
func value(field protowire.Number, name string, elements uint64, dims ...string) []byte {
	var shape []byte
	for _, d := range dims {
		shape = append(shape, text(1, string(text(2, d)))...)
	}
	tensor := join(number(1, elements), text(2, string(shape)))
	return text(field, string(join(text(1, name), text(2, string(text(1, string(tensor)))))))
}

func text(field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), s)
}

func number(field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), n)
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
