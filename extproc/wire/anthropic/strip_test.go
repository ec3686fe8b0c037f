package anthropic_test

import (
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/internal/jsonx"
)

// TestK16StrippedThinkingLeavesAllOtherBytes: crossing/testdata tests what is stripped; this test checks that the rest is unchanged.
func TestK16StrippedThinkingLeavesAllOtherBytes(t *testing.T) {
	const signed, redacted, unsigned = `{"type":"thinking", "thinking":"Hm.","signature":"c2ln"}`, `{"data":"x","type":"redacted_thinking"}`, `{"type":"thinking","thinking":"Hm."}`
	body := func(content ...string) string {
		s := `{"model":"m", "max_tokens":10, "n":1.50,"messages":[ {"role":"user","content":"hi"}`
		for _, c := range content {
			s += ` , {"role":"assistant", "content":` + c + ` }`
		}
		return s + ` , {"role":"user","content":"thinking"} ] }`
	}
	tests := []struct {
		name     string
		which    anthropic.Strip
		in, want string
		degraded []string
	}{
		{"nothing", anthropic.StripNothing, body(`[` + signed + ` , ` + unsigned + `]`), body(`[` + signed + ` , ` + unsigned + `]`), nil},
		{"at the head", anthropic.StripAll, body(`[ ` + signed + ` , ` + redacted + ` , {"type":"text","text":"\u00e9"} ]`), body(`[ {"type":"text","text":"\u00e9"} ]`), []string{"thinking"}},
		{"at the end", anthropic.StripAll, body(`[ {"type":"text","text":"a"} , ` + redacted + ` , ` + signed + ` ]`), body(`[ {"type":"text","text":"a"} ]`), []string{"thinking"}},
		{"in between", anthropic.StripAll, body(`[{"type":"text","text":"a"},` + signed + `,{"type":"text","text":"b"}]`), body(`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`), []string{"thinking"}},
		{"a whole message", anthropic.StripAll, body(`[`+signed+`]`, `"there"`), body(`"there"`), []string{"thinking"}},
		{"what nobody signed", anthropic.StripUnsigned, body(`[` + unsigned + `,` + signed + `,` + redacted + `]`), body(`[` + signed + `,` + redacted + `]`), []string{"thinking"}},
		{"signatures, and what only they hold", anthropic.StripSignatures, body(`[` + signed + `, ` + redacted + `,` + unsigned + `,{"type":"thinking","thinking":"","signature":"c2ln"},{"type":"text","text":"a"}]`), body(`[{"type":"thinking", "thinking":"Hm.","signature":""},` + unsigned + `,{"type":"text","text":"a"}]`), []string{"thinking"}},
		{"nothing was signed", anthropic.StripSignatures, body(`[` + unsigned + `]`), body(`[` + unsigned + `]`), nil},
		{"an empty signature among others", anthropic.StripUnsigned, body(`[`+signed+`]`, `[{"type":"thinking","thinking":"a","signature" : ""},{"type":"text","text":"a"}]`), body(`[`+signed+`]`, `[{"type":"text","text":"a"}]`), []string{"thinking"}},
		{"null for a signature", anthropic.StripUnsigned, body(`[` + signed + `,{"type":"thinking","thinking":"a","signature":null}]`), body(`[` + signed + `]`), []string{"thinking"}},
		{"signed alone", anthropic.StripUnsigned, body(`[` + signed + `]`), body(`[` + signed + `]`), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := decode(t, tt.in)
			got, degraded, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m", StripThinking: tt.which})
			if err != nil || string(got) != tt.want || !slices.Equal(degraded, tt.degraded) {
				t.Errorf("got  %s, %v, %v\nwant %s", got, degraded, err, tt.want)
			}
			second, _, _ := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m"})
			if string(second) != tt.in {
				t.Errorf("an attempt elsewhere left its marks: %s", second)
			}
		})
	}
}

// TestK16ATurnWithoutThinkingContinuesWithout: the turn was started by a model that shows no thinking, or its thinking is refused.
func TestK16ATurnWithoutThinkingContinuesWithout(t *testing.T) {
	const on = `"thinking":{"type":"enabled","budget_tokens":1024},`
	body := func(thinking, last string) string {
		return `{"model":"m","max_tokens":2000,` + thinking + `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":` + last + `}]}`
	}
	const result = `[{"type":"tool_result","tool_use_id":"t","content":"x"}]`
	for _, r := range []struct {
		name     string
		which    anthropic.Strip
		in, want string
	}{
		{"in the middle of the turn", anthropic.StripAll, body(on, result), body("", result)},
		{"after the turn", anthropic.StripAll, body(on, `"so?"`), body(on, `"so?"`)},
		{"thinking adapts", anthropic.StripAll, body(`"thinking":{"type":"adaptive"},`, result), body(`"thinking":{"type":"adaptive"},`, result)},
		{"the provider has not refused it", anthropic.StripUnsigned, body(on, result), body(on, result)},
		{"the model signs nothing", anthropic.StripSignatures, body(on, result), body(on, result)},
	} {
		got, degraded, err := anthropic.EncodeRequest(nil, decode(t, r.in), anthropic.RequestOptions{Model: "m", StripThinking: r.which})
		if err != nil || string(got) != r.want || (len(degraded) > 0) != (r.in != r.want) {
			t.Errorf("%s: got %s, %v, %v", r.name, got, degraded, err)
		}
	}
}

func TestK16HintsAndThinkingAreStrippedTogether(t *testing.T) {
	const in = `{"model":"m","max_tokens":10,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"a","bardo":"static"},{"bardo":"static","type":"text","text":"b"}]},{"role":"user","content":"hi"}]}`
	const want = `{"model":"m","max_tokens":10,"messages":[{"role":"assistant","content":[{"type":"text","text":"b"}]},{"role":"user","content":"hi"}]}`
	got, _, err := anthropic.EncodeRequest(nil, decode(t, in), anthropic.RequestOptions{Model: "m", StripThinking: anthropic.StripAll})
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func FuzzStrippedHistoriesAreValid(f *testing.F) {
	f.Add(`{"role":"assistant","content":[{"type":"thinking"},{"type":"text","text":"a","bardo":1}]}`)
	f.Add(`{"role":"assistant","content":[{"type":"redacted_thinking","bardo":1}]},{"role":"user","content":[{"type":"tool_result"}]}`)
	f.Add(`{"content":[{"type":"thinking"}],"role":"assistant","content":[]}`)
	f.Fuzz(func(t *testing.T, messages string) {
		for _, thinking := range []string{``, `,"thinking":{"type":"enabled"},"context_management":{"edits":[{"type":"clear_thinking_1"}]}`} {
			body := `{"model":"m","max_tokens":1,"messages":[` + messages + `]` + thinking + `}`
			r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
			if err != nil {
				continue
			}
			got, _, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m", StripThinking: anthropic.StripAll})
			if err != nil {
				t.Fatal(err)
			}
			doc, err := jsonx.Scan(got)
			if err != nil {
				t.Fatalf("%s became %s: %v", body, got, err)
			}
			checkNoThinking(t, body, &doc)
		}
	})
}

func checkNoThinking(t *testing.T, body string, doc *jsonx.Doc) {
	t.Helper()
	for _, m := range doc.Get("messages").Each {
		for _, block := range m.Get("content").Each {
			kind := block.Get("type")
			if m.Get("role").Equal("assistant") && (kind.Equal("thinking") || kind.Equal("redacted_thinking")) {
				t.Fatalf("%s became %s", body, doc.Bytes)
			}
		}
	}
}

// TestThinkingSignedByAnotherVendorIsStripped: a history with turns of a model of Google's is sent to Anthropic's API without Google's
// signatures.
func TestThinkingSignedByAnotherVendorIsStripped(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},` +
		`{"type":"thinking","thinking":"So.","signature":"google-gemini-v1#YQ=="},{"type":"text","text":"Hi."},{"type":"redacted_thinking","data":"google-gemini-v1#Yg=="}]},{"role":"user","content":"and?"}]}`
	const want = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},` +
		`{"type":"text","text":"Hi."}]},{"role":"user","content":"and?"}]}`
	r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	got, names, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{StripThinking: anthropic.StripUnsigned})
	if err != nil || string(got) != want || len(names) != 1 || names[0] != "thinking" {
		t.Errorf("%v, degraded %v\n%s\nwant\n%s", err, names, got, want)
	}
}
