package crossing_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
)

// encoded is what EncodeRequest of a dialect returns.
type encoded struct {
	body     []byte
	degraded []string
}

func TestRequestsOfOpenAIClientsToAnthropicProviders(t *testing.T) {
	runPairs(t, "testdata/request/openai-to-anthropic", func(t *testing.T, p pair) []txtar.File {
		t.Helper()
		o := anthropicOptions(t, p.options())
		return crossed(t, openai.Dialect{}, p, func(r *chat.Request) (e encoded, err error) {
			e.body, e.degraded, err = anthropic.EncodeRequest(nil, r, o)
			return e, err
		})
	})
}

func TestRequestsBetweenAnthropicsSides(t *testing.T) {
	runPairs(t, "testdata/request/anthropic-to-anthropic", func(t *testing.T, p pair) []txtar.File {
		t.Helper()
		o := anthropicOptions(t, p.options())
		return crossed(t, anthropic.Dialect{}, p, func(r *chat.Request) (e encoded, err error) {
			e.body, e.degraded, err = anthropic.EncodeRequest(nil, r, o)
			return e, err
		})
	})
}

func TestRequestsOfAnthropicClientsToOpenAIProviders(t *testing.T) {
	runPairs(t, "testdata/request/anthropic-to-openai", func(t *testing.T, p pair) []txtar.File {
		t.Helper()
		o := openaiOptions(t, p.options())
		return crossed(t, anthropic.Dialect{}, p, func(r *chat.Request) (e encoded, err error) {
			e.body, e.degraded, err = openai.EncodeRequest(nil, r, o)
			return e, err
		})
	})
}

// crossed decodes a pair's request in the client's dialect and encodes it in the provider's.
func crossed(t *testing.T, d wire.Dialect, p pair, encode func(*chat.Request) (encoded, error)) []txtar.File {
	t.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(p.file("in.json")))
	if err != nil {
		return refused(t, err)
	}
	e, err := encode(r)
	if err != nil {
		return refused(t, err)
	}
	return []txtar.File{
		{Name: "out.json", Data: e.body},
		{Name: "degraded", Data: []byte(strings.Join(e.degraded, "\n"))},
	}
}

func refused(t *testing.T, err error) []txtar.File {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) {
		t.Fatalf("%v is no fault", err)
	}
	return []txtar.File{{Name: "error", Data: []byte(f.CodeString() + "\n" + f.Public)}}
}

var strips = map[string]anthropic.Strip{"unsigned": anthropic.StripUnsigned, "signatures": anthropic.StripSignatures, "all": anthropic.StripAll}

func anthropicOptions(t *testing.T, lines []string) anthropic.RequestOptions {
	t.Helper()
	o := anthropic.RequestOptions{Model: "claude"}
	for _, l := range lines {
		key, value, _ := strings.Cut(l, " ")
		switch key {
		case "max_output":
			o.MaxOutput = number(t, value)
		case "adaptive":
			o.Adaptive = true
		case "structured_outputs":
			o.StructuredOutputs = true
		case "strip":
			o.StripThinking = strips[value]
		default:
			t.Fatalf("unknown option %q", l)
		}
	}
	return o
}

func openaiOptions(t *testing.T, lines []string) openai.RequestOptions {
	t.Helper()
	o := openai.RequestOptions{Model: "gpt"}
	for _, l := range lines {
		key, value, _ := strings.Cut(l, " ")
		switch key {
		case "no_effort":
			o.NoEffort = true
		case "cache_control":
			o.CacheControl = true
		case "reasoning_details":
			o.ReasoningDetails = true
		case "efforts":
			o.Efforts = strings.Fields(value)
		case "fixed_sampling":
			o.FixedSampling = true
		case "max_stop":
			o.MaxStop = number(t, value)
		case "max_completion_tokens":
			o.TokensField = openai.MaxCompletionTokens
		default:
			t.Fatalf("unknown option %q", l)
		}
	}
	return o
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
