package defi_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/defi"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/policy"
)

const known = `
chains:
  - {id: 1, name: Ethereum, aliases: [mainnet]}
  - {id: 8453, name: Base}
  - {id: 42161, name: Arbitrum One, aliases: [arbitrum]}
tokens:
  - {symbol: USDC, name: USD Coin, chain: 1, address: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", decimals: 6}
  - {symbol: USDC, name: USD Coin, chain: 8453, address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", decimals: 6, note: native}
  - {symbol: USDC, chain: 42161, address: "0xaf88d065e77c8cC2239327C5EDb3A432268e5831", decimals: 6}
  - {symbol: USDC, name: bridged, chain: 42161, address: "0xFF970A61A04b1cA14834A43f5dE4533eBDDB5CC8", decimals: 6}
  - {symbol: USDC.e, chain: 42161, address: "0x1111111111111111111111111111111111111111", decimals: 6}
  - {symbol: WETH, chain: 8453, address: "0x4200000000000000000000000000000000000006", decimals: 18}
protocols:
  - {name: Aave V3, aliases: [Aave], chain: 8453, address: "0xA238Dd80C259a72e81d7e4664a9801593F98d1c5", note: Pool}
`

func facts(tb testing.TB) *defi.Facts {
	tb.Helper()
	f, err := defi.Parse([]byte(known))
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

func exchange(tb testing.TB, d wire.Dialect, body string) *pipeline.Exchange {
	tb.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		tb.Fatal(err)
	}
	return &pipeline.Exchange{Request: r}
}

// run runs the layer, and returns the resulting body.
func run(tb testing.TB, l defi.Layer, x *pipeline.Exchange) string {
	tb.Helper()
	if !l.Applies(x) {
		return string(x.Request.Doc.Bytes)
	}
	if err := l.Request(context.Background(), x); err != nil {
		tb.Fatal(err)
	}
	if !json.Valid(x.Request.Doc.Bytes) {
		tb.Fatalf("not JSON: %s", x.Request.Doc.Bytes)
	}
	return string(x.Request.Doc.Bytes)
}

func user(text string) string {
	b, _ := json.Marshal(text) // never fails
	return `{"model":"m","messages":[{"role":"user","content":` + string(b) + `}]}`
}

func TestR11WhatIsMentionedIsFoundExactly(t *testing.T) {
	const base, mainnet, weth, aave = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "0x4200000000000000000000000000000000000006", "0xA238Dd80C259a72e81d7e4664a9801593F98d1c5"
	for _, row := range []struct {
		text string
		want []string // addresses
	}{
		{"Swap 5 USDC.", nil}, // on which chain?
		{"Swap 5 USDC on Base.", []string{base}},
		{"Swap 5 USDC on base for WETH", []string{base, weth}},
		{"Bridge $USDC from Ethereum to Base", []string{mainnet, base}},
		{"Swap USDC on Arbitrum One.", nil}, // there are two
		{"Swap USDC.e, please.", []string{"0x1111111111111111111111111111111111111111"}},
		{"Is weth wrapped?", nil}, // symbols are exact
		{"WETH?", []string{weth}},
		{"WETHX and XWETH", nil},
		{"Supply to Aave V3 or Aave", []string{aave}},
		{"What is 0x4200000000000000000000000000000000000006?", []string{weth}},
		{"What is 0X833589FCD6EDB6E08F4C7C32D4F71B54BDA02913?", []string{base}},
		{"0x42000000000000000000000000000000000000060", nil},
		{"Hello.", nil},
	} {
		x := exchange(t, openai.Dialect{}, user(row.text))
		before := string(x.Request.Doc.Bytes)
		got := run(t, defi.Layer{Facts: facts(t), MaxTokens: 300}, x)
		var found []string
		_, added, _ := strings.Cut(got, "operator's list:")
		for line := range strings.SplitSeq(added, `\n- `) {
			if _, at, ok := strings.Cut(line, "address "); ok {
				found = append(found, at[:42])
			}
		}
		if !slices.Equal(found, row.want) {
			t.Errorf("%s: %v, want %v", row.text, found, row.want)
		}
		if row.want == nil && got != before {
			t.Errorf("%s: became %s", row.text, got)
		}
		if x.Request.VolatileEnd != (row.want != nil) || len(x.Log) != 1 || !strings.HasPrefix(x.Log[0].Note, "facts=") {
			t.Errorf("%s: volatile %t, log %+v", row.text, x.Request.VolatileEnd, x.Log)
		}
	}
}

func TestR11FactsStandBehindAllThatACacheHolds(t *testing.T) {
	const fact = `[Known facts about what is mentioned above, from the operator's list:\n- WETH on Base (chain id 8453): address 0x4200000000000000000000000000000000000006, 18 decimals]`
	gem := gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", "")
	for name, row := range map[string]struct {
		d          wire.Dialect
		body, want string
	}{
		"a text": {
			openai.Dialect{},
			`{"model":"m","messages":[{"role":"system","content":"WETH"},{"role":"user","content":"WETH?"}]}`,
			`{"model":"m","messages":[{"role":"system","content":"WETH"},{"role":"user","content":"WETH?\n\n` + fact + `"}]}`,
		},
		"a part with a mark": {
			anthropic.Dialect{},
			`{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"WETH?","cache_control":{"type":"ephemeral"}} ]}]}`,
			`{"model":"m","max_tokens":9,"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"WETH?","cache_control":{"type":"ephemeral"}},{"type":"text","text":"` + fact + `"}]}]}`,
		},
		"results of tools": {
			anthropic.Dialect{},
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"WETH"}]}]}`,
			`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"WETH"},{"type":"text","text":"` + fact + `"}]}]}`,
		},
		"an input that is a text": {responses.Dialect{}, `{"model":"m","input":"WETH?"}`, `{"model":"m","input":"WETH?\n\n` + fact + `"}`},
		"items of an input": {
			responses.Dialect{},
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"WETH?"}]}]}`,
			`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"WETH?"},{"type":"input_text","text":"` + fact + `"}]}]}`,
		},
		"parts of Gemini": {
			gem, `{"contents":[{"role":"user","parts":[{"text":"WETH?"}]}]}`,
			`{"contents":[{"role":"user","parts":[{"text":"WETH?"},{"text":"` + fact + `"}]}]}`,
		},
		"an end that is not the user's": {
			openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"WETH?"},{"role":"assistant","content":"WETH"}]}`, "",
		},
		"a mention in the system prompt alone": {openai.Dialect{}, `{"model":"m","messages":[{"role":"system","content":"WETH"},{"role":"user","content":"hi"}]}`, ""},
		"a mention long ago": {
			openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"WETH"},{"role":"assistant","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"},{"role":"user","content":"d"}]}`, "",
		},
	} {
		if row.want == "" {
			row.want = row.body
		}
		if got := run(t, defi.Layer{Facts: facts(t), MaxTokens: 300}, exchange(t, row.d, row.body)); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, row.want)
		}
	}
}

func TestR11FactsAreBoundedAndForbidden(t *testing.T) {
	const many = "USDC on Base and Ethereum, WETH, Aave, USDC.e"
	for _, most := range []int{50, 100, 300} {
		x := exchange(t, openai.Dialect{}, user(many))
		before := len(x.Request.Doc.Bytes)
		if got := run(t, defi.Layer{Facts: facts(t), MaxTokens: most}, x); 2*(len(got)-before)/7 > most+10 {
			t.Errorf("at most %d tokens: %d bytes were added", most, len(got)-before)
		}
	}
	for _, tier := range []policy.PrivacyTier{policy.PrivacyTEE, policy.PrivacyEndToEnd} {
		x := exchange(t, openai.Dialect{}, user("WETH"))
		x.Intent.PrivacyTier = tier
		if (defi.Layer{Facts: facts(t), MaxTokens: 300}).Applies(x) {
			t.Errorf("it applies at tier %s", tier)
		}
	}
	if (defi.Layer{}).Applies(exchange(t, openai.Dialect{}, user("WETH"))) {
		t.Error("it applies without facts")
	}
}

// TestX11FactsAreForTheirPlans: if the operator lists plans, only their keys get facts.
func TestX11FactsAreForTheirPlans(t *testing.T) {
	for _, tier := range []policy.Tier{"", policy.TierFree, policy.TierPro, policy.TierGolem} {
		x := exchange(t, openai.Dialect{}, user("WETH"))
		x.Principal.Tier = tier
		if !(defi.Layer{Facts: facts(t)}).Applies(x) || (defi.Layer{Facts: facts(t), Plans: []policy.Tier{policy.TierGolem}}).Applies(x) != (tier == policy.TierGolem) {
			t.Errorf("plan %q", tier)
		}
	}
}

func TestR11ABadFileIsAnErrorThatSaysWhere(t *testing.T) {
	const token = `{symbol: A, chain: 1, address: "0x4200000000000000000000000000000000000006", decimals: 18`
	for text, want := range map[string]string{
		"":                     "neither tokens nor protocols",
		"x":                    "cannot unmarshal",
		"tokens: [{symbl: A}]": "symbl not found",
		"tokens: [{}]":         "tokens[0]: symbol: expected a name",
		`tokens: [` + token + `}, {symbol: A, chain: 0, address: "0x1", decimals: 1}]`:                         "tokens[1]: chain: expected the chain's id",
		`tokens: [{symbol: A, chain: 1, address: "0x12", decimals: 1}]`:                                        "address: expected 0x and 40",
		`tokens: [{symbol: A, chain: 1, address: "0x4200000000000000000000000000000000000006"}]`:               "decimals: expected",
		`tokens: [{symbol: A, chain: 1, address: "0x4200000000000000000000000000000000000006", decimals: 78}]`: "decimals: expected",
		`tokens: [` + token + `}, ` + token + `}]`:                                                             "tokens[1]: address: 0x4200000000000000000000000000000000000006 is there twice on chain 1",
		`tokens: [` + token + `, note: "a\nb"}]`:                                                               "tokens[0]: note: expected one line",
		`{chains: [{id: 1, name: A}, {id: 1, name: B}], tokens: [` + token + `}]}`:                             "chains[1]: id: chain 1 is there twice",
		`{chains: [{id: 1, name: A}, {id: 2, name: a}], tokens: [` + token + `}]}`:                             `chains[1]: "a" is chain 1, too`,
		`{"tokens": [` + token + `}]}`:                                                                         "",
	} {
		_, err := defi.Parse([]byte(text))
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzRequest: for any text, the request stays valid JSON, and no more than the limit is added.
func FuzzRequest(f *testing.F) {
	f.Add("USDC on Base", true)
	f.Add("0x4200000000000000000000000000000000000006 \x00\\\"", false)
	l := defi.Layer{Facts: facts(f), MaxTokens: 100}
	f.Fuzz(func(t *testing.T, text string, inParts bool) {
		b, err := json.Marshal(text)
		if err != nil {
			return
		}
		content := string(b)
		if inParts {
			content = `[{"type":"text","text":` + content + `}]`
		}
		r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":`+content+`}]}`))
		if err != nil {
			return
		}
		x := &pipeline.Exchange{Request: r}
		before := len(r.Doc.Bytes)
		if got := run(t, l, x); len(got)-before > 100*7/2+100+len(content) {
			t.Errorf("%d bytes became %d", before, len(got))
		}
	})
}

// FuzzParse: any file is parsed, or an error.
func FuzzParse(f *testing.F) {
	f.Add([]byte(known))
	f.Add([]byte(`{"tokens":[{"symbol":"A","chain":1,"address":"0x4200000000000000000000000000000000000006","decimals":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if parsed, err := defi.Parse(b); (parsed == nil) == (err == nil) {
			t.Errorf("%v, %v", parsed, err)
		}
	})
}
