package fake

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/e2e/fake/check"
)

// embeddings is OpenAI's endpoint of that name.
type embeddings struct{ openAI }

// usualDimensions is how long a vector is that nobody asks another length of.
const usualDimensions = 1536

var embeddingParams = []string{"model", "input", "encoding_format", "dimensions", "user"}

func (embeddings) read(h http.Header, body []byte, cfg *Config) (*asked, *refusal) {
	o, refused := check.OpenAIBody(h, body, cfg.checked())
	if refused != nil {
		return nil, refused
	}
	if name := o.Unknown(append(slices.Clone(embeddingParams), cfg.Allow...)...); name != "" {
		return nil, check.Bad(name, "unknown_parameter", "Unknown parameter: '%s'.", name)
	}
	inputs, tokens := embeddingInputs(o["input"])
	if inputs == 0 {
		return nil, check.Bad("input", "", "'$.input' is invalid. Please check the API reference: https://platform.openai.com/docs/api-reference.")
	}
	format := o.Str("encoding_format")
	if format != "" && format != "float" && format != "base64" {
		return nil, check.Bad("encoding_format", "invalid_value", "Invalid value: '%s'. Supported values are: 'float' and 'base64'.", format)
	}
	n, _ := o.Num("dimensions")
	return &asked{model: o.Str("model"), choices: inputs, inputTokens: tokens, vector: cmp.Or(int(n), usualDimensions), base64: format == "base64"}, nil
}

// embeddingInputs counts what is to be embedded, and its tokens: about four bytes of text each, or as many as are given as numbers.
func embeddingInputs(raw json.RawMessage) (inputs, tokens int) {
	var text string
	var texts []string
	var list []int
	var lists [][]int
	switch {
	case json.Unmarshal(raw, &text) == nil && text != "":
		return 1, 1 + len(text)/4
	case json.Unmarshal(raw, &texts) == nil:
		for _, t := range texts {
			tokens += 1 + len(t)/4
		}
		return len(texts), tokens
	case json.Unmarshal(raw, &list) == nil:
		return 1, len(list)
	case json.Unmarshal(raw, &lists) == nil:
		for _, l := range lists {
			tokens += len(l)
		}
		return len(lists), tokens
	}
	return 0, 0
}

func (embeddings) body(q *asked, b *Behaviour, _ int64) []byte {
	data := make([]string, q.choices)
	for i := range data {
		data[i] = fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":%s}`, i, vector(q, i))
	}
	usage := ""
	if b.Usage == nil || !b.Usage.Missing {
		n := q.inputTokens
		if b.Usage != nil {
			n = b.Usage.Input
		}
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d}`, n, n)
	}
	body := fmt.Sprintf(`{"object":"list","data":[%s],"model":%s%s%s}`, strings.Join(data, ","), quote(or(b.AnswerModel, q.model)), usage, extra(b))
	var out bytes.Buffer
	if json.Indent(&out, []byte(body), "", "  ") != nil { // Extra may be broken on purpose
		return []byte(body)
	}
	return append(out.Bytes(), '\n')
}

// vector is made up from its place.
func vector(q *asked, index int) string {
	numbers, packed := make([]string, q.vector), make([]byte, 0, 4*q.vector)
	for i := range numbers {
		f := float32(math.Sin(float64(1 + i + 7*index)))
		numbers[i] = strconv.FormatFloat(float64(f), 'g', -1, 32)
		packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(f))
	}
	if q.base64 {
		return quote(base64.StdEncoding.EncodeToString(packed))
	}
	return "[" + strings.Join(numbers, ",") + "]"
}
