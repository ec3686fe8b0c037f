package providertest

import (
	"errors"
	"fmt"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/policy"
)

// contents are requests with content that not all formats support.
var contents = map[chat.Dialect][]string{ //nolint:exhaustive // the dialects of the samples
	chat.OpenAI: {
		`{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"data:video/mp4;base64,QQ=="}}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}}]}]}`,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/heic;base64,QQ=="}}]}]}`,
	},
	chat.Anthropic: {
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"url","url":"https://example.com/a.pdf"}}]}]}`,
		`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}]}`,
	},
	chat.Gemini: {
		`{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"video/mp4","data":"QQ=="}}]}]}`,
		`{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"audio/mp3","data":"QQ=="}}]}]}`,
		`{"contents":[{"role":"user","parts":[{"fileData":{"mimeType":"image/png","fileUri":"gs://b/a"}}]}]}`,
	},
}

// testContent checks that the prediction of whether a candidate supports content, which saves the call, matches its adapter (D-86).
func (p *pairing) testContent(t *testing.T) {
	if p.same() {
		return // the client's own bytes are sent
	}
	for _, body := range contents[p.client.Name()] {
		for _, features := range [][]policy.Feature{nil, {policy.Video}} {
			req, err := at(p.client, gemini.Root+"/m:generateContent").Decode(chat.Generate, nil, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			c, err := req.Conversation()
			if err != nil {
				t.Fatal(err)
			}
			to := resolution()
			to.Features = features
			predicted := wire.TargetOf(p.format.Name(), &to).CheckContent(c, req.Dialect)
			_, err = p.adapter.Encode(nil, req, to, p.at)
			var u *wire.Unsupported
			if fmt.Sprint(err) != fmt.Sprint(predicted) || err != nil && !errors.As(err, &u) {
				t.Errorf("%v: %s\nis written with %v, predicted %v", features, body, err, predicted)
			}
		}
	}
}
