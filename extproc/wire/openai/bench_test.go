package openai_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
)

func BenchmarkRequestSameDialect(b *testing.B) {
	body := []byte(`{"model":"p/gpt-x","stream":true,"messages":[` +
		strings.Repeat(`{"role":"user","content":"`+strings.Repeat("some words of text ", 20)+`"},`, 120) + `{"role":"user","content":"hi"}]}`)
	var buf []byte
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", body)
		if err != nil {
			b.Fatal(err)
		}
		if buf, _, err = openai.EncodeRequest(buf[:0], req, openai.RequestOptions{Model: "gpt-x"}); err != nil {
			b.Fatal(err)
		}
	}
}
