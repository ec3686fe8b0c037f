package openai_test

import (
	"bytes"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
)

func FuzzARequestEncodesToValidJSON(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true,"max_tokens":1,"stream_options":{"a":1},` + hi + `,"bardo":{}}`))
	f.Add([]byte(`{"model":"m","messages":[{"bardo":1,"role":"user","content":[{"bardo":1,"bardo":2},{"type":"text","text":"a","bardo":3}]}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"data:a;base64,b"}}]}],"tools":[{"type":"function","function":{"name":"f"}}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", body)
		if err != nil {
			return
		}
		o := openai.RequestOptions{Model: "up", TokensField: openai.MaxCompletionTokens}
		out, _, err := openai.EncodeRequest(nil, req, o)
		checkRequest(t, body, out, err)
		if _, err := req.Conversation(); err != nil {
			return
		}
		req.Dialect = chat.Anthropic                                     // as if it came from another dialect
		if out, _, err = openai.EncodeRequest(nil, req, o); err != nil { // a history that cannot be expressed
			return
		}
		checkRequest(t, body, out, err)
		second, _, _ := openai.EncodeRequest(nil, req, o)
		if !bytes.Equal(out, second) {
			t.Fatalf("%s then %s", out, second)
		}
	})
}

func checkRequest(t *testing.T, body, out []byte, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	d, err := jsonx.Scan(out)
	if err != nil {
		t.Fatalf("%q became %q: %v", body, out, err)
	}
	if !d.Get("model").Equal("up") || d.Find("bardo") >= 0 {
		t.Fatalf("%q became %q", body, out)
	}
}
