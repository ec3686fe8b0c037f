package hint_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

func decode(t testing.TB, d wire.Dialect, body string) *chat.Request {
	t.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFactsOfARequest(t *testing.T) {
	const (
		hi      = `"messages":[{"role":"user","content":"hi"}]}`
		oaImage = `"messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}]}`
		anImage = `"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"text","text":"look"}]}]}`
		inTool  = `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"url","url":"https://x/y"}}]}]}]}`
		schema  = `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}},`
		tool    = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"image_url":{"type":"string"}}}}}],`
	)
	for _, row := range []struct {
		about, body string
		d           wire.Dialect
		want        intent.Facts
	}{
		{"a plain question", `{"model":"m",` + hi, openai.Dialect{}, intent.Facts{Model: "m"}},
		{"to the gateway's choice", `{"model":"auto","max_tokens":9,"reasoning_effort":"max",` + hi, openai.Dialect{}, intent.Facts{
			Model: "auto", MaxTokens: 9, Effort: policy.EffortMax, Text: "hi",
		}},
		{"high effort", `{"model":"m","reasoning_effort":"high",` + hi, openai.Dialect{}, intent.Facts{Model: "m", Effort: policy.EffortHigh}},
		{"an image", `{"model":"m",` + oaImage, openai.Dialect{}, intent.Facts{Model: "m", Images: true}},
		{"an image in escapes", `{"model":"m",` + strings.ReplaceAll(oaImage, `image_url`, `im\u0061ge_url`), openai.Dialect{}, intent.Facts{Model: "m", Images: true}},
		{"an image of the other dialect", `{"model":"m","max_tokens":1,` + anImage, anthropic.Dialect{}, intent.Facts{Model: "m", MaxTokens: 1, Images: true}},
		{"an image of the other dialect in escapes", `{"model":"m","max_tokens":1,` + strings.Replace(anImage, `"image"`, `"i\u006Dage"`, 1), anthropic.Dialect{}, intent.Facts{Model: "m", MaxTokens: 1, Images: true}},
		{"an image in a tool's result", `{"model":"m","max_tokens":1,` + inTool, anthropic.Dialect{}, intent.Facts{Model: "m", MaxTokens: 1, Images: true}},
		{"a schema", `{"model":"m",` + schema + hi, openai.Dialect{}, intent.Facts{Model: "m", Schema: true}},
		{"JSON of any shape", `{"model":"m","response_format":{"type":"json_object"},` + hi, openai.Dialect{}, intent.Facts{Model: "m"}},
		{"a tool that speaks of images", `{"model":"m",` + tool + hi, openai.Dialect{}, intent.Facts{Model: "m", Tools: 1}},
		{"tools in the input", `{"model":"m","input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]},{"role":"user","content":"hi"}]}`, responses.Dialect{}, intent.Facts{Model: "m", Tools: 1}},
		{"no tools", `{"model":"m","tools":[],` + hi, openai.Dialect{}, intent.Facts{Model: "m"}},
		{"an agent", `{"model":"auto","max_tokens":1,"system":"be brief","tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],` + hi, anthropic.Dialect{}, intent.Facts{
			Model: "auto", MaxTokens: 1, Tools: 2, SystemBytes: 8, Text: "hi",
		}},
	} {
		t.Run(row.about, func(t *testing.T) {
			r := decode(t, row.d, row.body)
			got := hint.Facts(r, 77)
			if got.InputTokens != r.InputTokens || got.OutputTokens != 77 {
				t.Errorf("tokens of %+v", got)
			}
			row.want.InputTokens, row.want.OutputTokens = got.InputTokens, got.OutputTokens
			if got != row.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestFactsOfAPlainRequestNeedNoParsing(t *testing.T) {
	r := decode(t, openai.Dialect{}, `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}],"messages":[{"role":"user","content":"`+strings.Repeat("a parcel. ", 1000)+`"}]}`)
	if n := testing.AllocsPerRun(100, func() { hint.Facts(r, 1) }); n != 0 || r.Conv != nil {
		t.Errorf("%v allocations, parsed: %v", n, r.Conv != nil)
	}
}
