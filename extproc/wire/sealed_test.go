package wire_test

import (
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
)

func TestASealIsBounded(t *testing.T) {
	_, ours, err := wire.Unseal(wire.SealPrefix+strings.Repeat("A", 4<<20), "x")
	if f, ok := errors.AsType[*fault.Fault](err); !ours || !ok || !strings.Contains(f.Public, "longer than") {
		t.Errorf("%v %v", ours, err)
	}
}

func FuzzASealRoundTrip(f *testing.F) {
	f.Add("let me \"think\"", "c2ln", "")
	f.Add("", "", "b3A=")
	f.Fuzz(func(t *testing.T, text, sign, data string) {
		p := chat.Part{Kind: chat.PartThinking, Text: strings.ToValidUTF8(text, "?"), Signature: strings.ToValidUTF8(sign, "?")}
		if data != "" {
			p = chat.Part{Kind: chat.PartRedacted, Data: strings.ToValidUTF8(data, "?")}
		} else if p.Signature == "" {
			p.Signature = "s"
		}
		got, ours, err := wire.Unseal(string(wire.Seal(&p)), "x")
		if !ours || err != nil || got.Kind != p.Kind || got.Text != p.Text || got.Signature != p.Signature || got.Data != p.Data {
			t.Errorf("%+v came back as %+v, %v, %v", p, got, ours, err)
		}
		if _, _, err := wire.Unseal(text, "x"); err != nil {
			if _, ok := errors.AsType[*fault.Fault](err); !ok {
				t.Errorf("%v is no fault", err)
			}
		}
	})
}
