package chatcompletion_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai/chatcompletion"
)

// token is a frame as OpenAI sends it per token: about 250 bytes.
const token = `data: {"id":"chatcmpl-AbCdEfGhIjKlMnOpQrStUvWx","object":"chat.completion.chunk","created":1700000000,` +
	`"model":"gpt-x-2026-01-01","service_tier":"default","system_fingerprint":"fp_0123","choices":[{"index":0,` +
	`"delta":{"content":" hello"},"finish_reason":null}]}` + "\n\n"

func benchmarkTokens(b *testing.B, o wire.Options) {
	b.Helper()
	d := chatcompletion.NewDecoder(&chat.Request{Dialect: chat.OpenAI, Stream: true}, 200, eventStream)
	enc := chatcompletion.NewEncoder(o)
	chunk := []byte(token)
	var out []byte
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		out = out[:0]
		events := d.Decode(chunk, false)
		for i := range events {
			out = enc.Append(out, &events[i])
		}
	}
	if !strings.Contains(string(out), `"content":" hello"`) {
		b.Fatalf("got %s", out)
	}
}

func TestATokenAllocatesNothing(t *testing.T) {
	for name, o := range map[string]wire.Options{
		"same dialect": {Same: true, Stream: true, Model: "gpt-x"},
		"translated":   {Stream: true, Model: "gpt-x", RequestID: "0123456789abcdef"},
	} {
		d := chatcompletion.NewDecoder(&chat.Request{Dialect: chat.OpenAI, Stream: true}, 200, eventStream)
		enc := chatcompletion.NewEncoder(o)
		chunk := []byte(strings.Replace(token, " hello", ` he said \"hi\"\n`, 1))
		var out []byte
		n := testing.AllocsPerRun(100, func() {
			out = out[:0]
			events := d.Decode(chunk, false)
			for i := range events {
				out = enc.Append(out, &events[i])
			}
		})
		if n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkTokenSameDialect(b *testing.B) {
	benchmarkTokens(b, wire.Options{Same: true, Stream: true, Model: "gpt-x"})
}

func BenchmarkTokenTranslated(b *testing.B) {
	benchmarkTokens(b, wire.Options{Stream: true, Model: "gpt-x", RequestID: "0123456789abcdef"})
}
