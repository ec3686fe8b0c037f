package request

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// TestPitfall7AQuoteIsOfWhatItsPriceDependsOn: it includes headers that change how a request is served, path, query, body and model, but not the
// payer or unrelated headers.
func TestPitfall7AQuoteIsOfWhatItsPriceDependsOn(t *testing.T) {
	view := func(change func(*View)) *View {
		v := &View{
			Exchange: pipeline.Exchange{Found: []policy.Resolution{{Model: "m"}}, Request: &chat.Request{Doc: jsonx.Doc{Bytes: []byte(`{"model":"m"}`)}}},
			Head: stream.Head{Path: "/v1/chat/completions", Query: "a=b", Header: header.List{
				{Name: "x-bardo-quality", Value: "low"}, {Name: "anthropic-beta", Value: "b"}, {Name: "user-agent", Value: "c"},
			}},
		}
		if change != nil {
			change(v)
		}
		return v
	}
	add := func(name, value string) func(*View) {
		return func(v *View) { v.Head.Header = append(v.Head.Header, header.Field{Name: name, Value: value}) }
	}
	want := view(nil).Digest()
	for name, change := range map[string]func(*View){
		"the path":         func(v *View) { v.Head.Path = "/v1/messages" },
		"the query":        func(v *View) { v.Head.Query = "a=c" },
		"path and query":   func(v *View) { v.Head.Path, v.Head.Query = "/v1/chat/completionsa", "=b" },
		"the body":         func(v *View) { v.Request.Doc.Bytes = []byte(`{"model":"n"}`) },
		"the model":        func(v *View) { v.Found[0].Model = "n" },
		"a hint":           func(v *View) { v.Head.Header[0].Value = "maximum" },
		"no hint":          func(v *View) { v.Head.Header = v.Head.Header[1:] },
		"a hint more":      add("x-bardo-web-search", "true"),
		"a key of its own": add("x-bardo-upstream-key", "sk-1"),
		"a beta":           func(v *View) { v.Head.Header[1].Value = "context-1m" },
		"a version":        add("anthropic-version", "2023-06-01"),
	} {
		if view(change).Digest() == want {
			t.Errorf("%s does not count", name)
		}
	}
	for name, change := range map[string]func(*View){
		"the wallet":     add("x-bardo-wallet", "0x1"),
		"the payment":    add("payment-signature", "e30="),
		"Envoy's own":    add("x-bardo-internal-exchange", "1"),
		"another client": func(v *View) { v.Head.Header[2].Value = "d" },
		"another order":  func(v *View) { h := v.Head.Header; h[0], h[1] = h[1], h[0] },
	} {
		if view(change).Digest() != want {
			t.Errorf("%s counts", name)
		}
	}
}
