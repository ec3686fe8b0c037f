package pii_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
)

// TestSealedThinkingIsMasked: clients of the Responses API send signed thinking back in encrypted_content, in which their own values are restored. It is masked
// as when it was signed, even if the same bytes, as a text, are known to have no values.
func TestSealedThinkingIsMasked(t *testing.T) {
	sealed := string(wire.Seal(&chat.Part{Kind: chat.PartThinking, Text: "write to a@b.com", Signature: "c2ln"}))
	l := newLayer(layer.Mask)
	send := func(items string) *pipeline.Exchange {
		r, err := responses.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","input":[`+items+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		x := &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}}
		if err := run(t, l, x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	send(`{"role":"user","content":"` + sealed + `"}`)
	x := send(`{"role":"user","content":"hi"},{"type":"reasoning","id":"rs_bardo_1","summary":[],"encrypted_content":"` + sealed + `"},{"role":"user","content":"and?"}`)
	c, err := x.Request.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	got := c.Messages[1].Parts[0]
	if got.Kind != chat.PartThinking || got.Signature != "c2ln" || !strings.HasPrefix(got.Text, "write to <EMAIL_") {
		t.Errorf("the provider gets %+v", got)
	}
}
