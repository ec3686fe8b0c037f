package pii_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

func exchange(t testing.TB, messages string) *pipeline.Exchange {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, header.List{}, "", []byte(`{"model":"m","messages":[`+messages+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}}
}

func newLayer(m layer.Mode) layer.Layer {
	return layer.Layer{Mode: m, Finder: pii.NewMemo(pii.NewScanner(pii.Detectors{Types: pii.Default})), Secret: func() []byte { return []byte("s") }}
}

func run(t testing.TB, l layer.Layer, x *pipeline.Exchange) error {
	t.Helper()
	return pipeline.New(l).Request(t.Context(), x)
}

const mail = `{"role":"user","content":"write to a@b.com"}`

func TestARequestWithoutValuesIsNotTouched(t *testing.T) {
	for _, m := range []layer.Mode{"", layer.Off, layer.Detect, layer.Mask, layer.Block} {
		x := exchange(t, `{"role":"user","content":"hi"}`)
		before := x.Request
		if err := run(t, newLayer(m), x); err != nil || x.Request != before || len(x.Log) != 0 || x.Watched() {
			t.Errorf("%s: %v, %+v", m, err, x.Log)
		}
	}
}

func TestD05ConfidentialRequestsAreMasked(t *testing.T) {
	for _, m := range []layer.Mode{"", layer.Off, layer.Detect, layer.Mask} {
		x := exchange(t, mail)
		x.Hints.SecurityClass = policy.SecurityConfidential
		if err := run(t, newLayer(m), x); err != nil || strings.Contains(string(x.Request.Doc.Bytes), "a@b.com") || !x.Watched() {
			t.Errorf("%s: %v, %s", m, err, x.Request.Doc.Bytes)
		}
	}
	x := exchange(t, mail)
	x.Hints.SecurityClass = policy.SecurityConfidential
	if f := fault.From(run(t, newLayer(layer.Block), x)); f.Kind != fault.SecretInPrompt {
		t.Error(f)
	}
}

// TestD37AKeyHasItsOwnPolicy, instead of the configured one; a confidential request is at least masked.
func TestD37AKeyHasItsOwnPolicy(t *testing.T) {
	for _, row := range []struct {
		configured   layer.Mode
		own          string
		confidential bool
		want         string
	}{
		{"", "", false, "detect"},
		{layer.Block, "off", false, "off"},
		{layer.Off, "mask", false, "mask"},
		{layer.Mask, "detect", false, "detect"},
		{"", "block", false, "block"},
		{layer.Block, "off", true, "mask"},
		{layer.Mask, "detect", true, "mask"},
		{layer.Off, "block", true, "block"},
	} {
		l, x := newLayer(row.configured), exchange(t, mail)
		x.Principal.Guards.PII = row.own
		if row.confidential {
			x.Hints.SecurityClass = policy.SecurityConfidential
		}
		if name, does := l.Guard(&x.Principal, x.Hints.SecurityClass); name != "pii" || does != row.want {
			t.Errorf("%+v: %s is %s", row, name, does)
		}
		err, got := run(t, l, x), "off"
		switch {
		case err != nil:
			got = "block"
		case x.Watched():
			got = "mask"
		case len(x.Log) > 0:
			got = "detect"
		}
		if got != row.want {
			t.Errorf("%+v: %s, %v", row, got, err)
		}
	}
}

func TestD30RequestsToAnEnclaveAreNotMasked(t *testing.T) {
	x := exchange(t, mail)
	x.Intent.PrivacyTier = policy.PrivacyTEE
	if err := run(t, newLayer(layer.Mask), x); err != nil || !strings.Contains(string(x.Request.Doc.Bytes), "a@b.com") || len(x.Log) != 0 {
		t.Errorf("%v, %s", err, x.Request.Doc.Bytes)
	}
}

// TestD37APrivateKeyIsRefusedForAnEnclaveToo, since a refusal changes nothing that a receipt covers. Requests with end-to-end encryption are not searched, and no
// values are counted.
func TestD37APrivateKeyIsRefusedForAnEnclaveToo(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	enclave := policy.Resolution{Provider: "p", Features: []policy.Feature{policy.TEEAttested, policy.EndToEndEncryption}}
	for _, row := range []struct {
		mode    layer.Mode
		in      policy.Intent
		refused bool
	}{
		{"", policy.Intent{PrivacyTier: policy.PrivacyTEE}, true},
		{layer.Mask, policy.Intent{PrivacyTier: policy.PrivacyTEE}, true},
		{layer.Block, policy.Intent{Require: []policy.Feature{policy.TEEAttested}}, true},
		{layer.Off, policy.Intent{PrivacyTier: policy.PrivacyTEE}, false},
		{layer.Mask, policy.Intent{PrivacyTier: policy.PrivacyEndToEnd}, false},
		{layer.Block, policy.Intent{Require: []policy.Feature{policy.EndToEndEncryption}}, false},
	} {
		x := exchange(t, mail+`,{"role":"user","content":"private key: `+key+`"}`)
		x.Intent, x.Found = row.in, []policy.Resolution{enclave}
		err := run(t, newLayer(row.mode), x)
		if f := fault.From(err); (err != nil) != row.refused || row.refused && (f.Kind != fault.SecretInPrompt || strings.Contains(f.Error(), key)) || len(x.Log) != 0 {
			t.Errorf("%+v: %v, %+v", row, err, x.Log)
		}
	}
}

// TestD37APrivateKeyIsRefusedByItsName: in the arguments of a tool call, only the name of the member identifies the number.
func TestD37APrivateKeyIsRefusedByItsName(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	args := `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"sign","arguments":"{\"%s\":\"0x` + key + `\"}"}}]}`
	for _, m := range []layer.Mode{"", layer.Detect, layer.Mask, layer.Block} {
		f := fault.From(run(t, newLayer(m), exchange(t, mail+","+strings.Replace(args, "%s", "private_key", 1))))
		if f.Kind != fault.SecretInPrompt || !strings.Contains(f.Public, "turn 1, arguments") || strings.Contains(f.Error(), key) {
			t.Errorf("%s: %v", m, f)
		}
		if err := run(t, newLayer(m), exchange(t, strings.Replace(args, "%s", "tx_hash", 1))); err != nil {
			t.Errorf("%s: a hash: %v", m, err)
		}
	}
	if err := run(t, newLayer(layer.Off), exchange(t, strings.Replace(args, "%s", "private_key", 1))); err != nil {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Find(context.Context, string, []pii.Span) ([]pii.Span, error) {
	return nil, errors.New("no model")
}

func TestARequestThatCannotBeSearchedIsNotSent(t *testing.T) {
	if err := run(t, layer.Layer{Mode: layer.Mask, Finder: pii.NewMemo(pii.NewScanner(broken{}))}, exchange(t, mail)); err == nil {
		t.Error("no error")
	}
}

// counting counts the texts that are searched.
type counting struct{ texts []string }

func (c *counting) Find(_ context.Context, text string, out []pii.Span) ([]pii.Span, error) {
	c.texts = append(c.texts, text)
	return out, nil
}

func TestATextIsSearchedOnce(t *testing.T) {
	c := &counting{}
	l := layer.Layer{Finder: pii.NewMemo(pii.NewScanner(c))}
	const first, second = `{"role":"user","content":"what is the weather"}`, `{"role":"user","content":"and tomorrow \u0061fternoon"}`
	for _, messages := range []string{first, first + "," + second, first + "," + second} {
		if err := run(t, l, exchange(t, messages)); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"what is the weather", "and tomorrow afternoon"}; !slices.Equal(c.texts, want) {
		t.Errorf("searched %q, want %q", c.texts, want)
	}
}

// TestTheSameBytesAreSearchedByTheirKind: escapes in arguments are decoded, and those in a user's text are not.
func TestTheSameBytesAreSearchedByTheirKind(t *testing.T) {
	const text = `"{\"to\":\"a\\u0040b.com\"}"`
	l := newLayer("")
	for _, tt := range []struct {
		messages string
		found    bool
	}{
		{`{"role":"user","content":` + text + `}`, false},
		{`{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":` + text + `}}]},{"role":"tool","tool_call_id":"c","content":"ok"}`, true},
		{`{"role":"user","content":` + text + `}`, false},
	} {
		x := exchange(t, tt.messages)
		if err := run(t, l, x); err != nil || (len(x.Log) > 0) != tt.found {
			t.Errorf("%s: %v, %v", tt.messages, x.Log, err)
		}
	}
}

// TestK66AnswersAreRestoredBlockByBlock: held text is emitted before the block, or its kind, changes.
func TestK66AnswersAreRestoredBlockByBlock(t *testing.T) {
	x := exchange(t, mail)
	if err := run(t, newLayer(layer.Mask), x); err != nil {
		t.Fatal(err)
	}
	masked := string(x.Request.Doc.Bytes)
	h := masked[strings.Index(masked, "<") : strings.Index(masked, ">")+1]
	events := []chat.Event{
		{Kind: chat.Start},
		{Kind: chat.Thought, Text: []byte("to " + h[:5]), Raw: []byte("data: x")},
		{Kind: chat.Thought, Text: []byte(h[5:] + " " + h[:4])},
		{Kind: chat.Text, Index: 1, Text: []byte("a " + h[:9])},
		{Kind: chat.UsageInfo},
		{Kind: chat.Other, Raw: []byte("x")},
		{Kind: chat.Text, Index: 1, Text: []byte(h[9:] + "<")},
		{Kind: chat.BlockStop, Index: 1},
		{Kind: chat.ToolStart, Index: 2},
		{Kind: chat.ToolArgs, Index: 2, Text: []byte(`{"a":"\u003c` + h[1:7])},
		{Kind: chat.ToolArgs, Index: 2, Text: []byte(h[7:len(h)-1] + `\u003e"}`)},
		{Kind: chat.ToolStart, Index: 3, ID: chat.CustomTool},
		{Kind: chat.ToolArgs, Index: 3, Text: []byte(h + `\`)},
		{Kind: chat.Extra, ID: "x", Text: []byte(`{"q":"` + h + `"}`), Cites: []chat.Citation{{Title: h}}},
		{Kind: chat.Stop, Text: []byte(h)},
		{Kind: chat.End},
	}
	var got []string
	for i := range events {
		out, err := x.Response(t.Context(), &events[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range out {
			if ev.Raw != nil {
				t.Errorf("%v keeps the provider's bytes", ev)
			}
			for _, c := range ev.Cites {
				got = append(got, c.Title)
			}
			if len(ev.Text) > 0 {
				got = append(got, string(ev.Text))
			}
		}
	}
	want := "to |a@b.com |" + h[:4] + "|a |a@b.com|<|{\"a\":\"|a@b.com\"}|a@b.com\\|a@b.com|{\"q\":\"a@b.com\"}|a@b.com"
	if all := strings.Join(got, "|"); all != want {
		t.Errorf("the answer is\n%s\nwant\n%s", all, want)
	}
}

// TestK66WhatIsHeldBackKeepsItsPlace: before a signature, which covers all thinking before it, and before a call, if the text's block has no end.
func TestK66WhatIsHeldBackKeepsItsPlace(t *testing.T) {
	for _, kinds := range [][2]chat.EventKind{{chat.Thought, chat.Signature}, {chat.Thought, chat.Redacted}, {chat.Text, chat.ToolStart}, {chat.Text, chat.Stop}} {
		first, next := kinds[0], kinds[1]
		x := exchange(t, mail)
		if err := run(t, newLayer(layer.Mask), x); err != nil {
			t.Fatal(err)
		}
		index := 0
		if next == chat.ToolStart {
			index = 1
		}
		var got []chat.EventKind
		for _, ev := range []chat.Event{{Kind: chat.Start}, {Kind: first, Text: []byte("<")}, {Kind: next, Index: index, Text: []byte("s")}, {Kind: chat.End}} {
			out, err := x.Response(t.Context(), &ev)
			if err != nil {
				t.Fatal(err)
			}
			for i := range out {
				got = append(got, out[i].Kind)
			}
		}
		if want := []chat.EventKind{chat.Start, first, next, chat.End}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestD37ACardInSeveralMembersIsMaskedAndRestored: masked in arguments and results of tools, and restored in arguments that are split anywhere.
func TestD37ACardInSeveralMembersIsMaskedAndRestored(t *testing.T) {
	const card = `{"card1":"4539","card2":"1488","card3":"0343","card4":"6467"}`
	quoted := strings.ReplaceAll(card, `"`, `\"`)
	x := exchange(t, `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"pay","arguments":"`+quoted+`"}}]},{"role":"tool","tool_call_id":"c","content":"`+quoted+`"}`)
	if err := run(t, newLayer(layer.Mask), x); err != nil {
		t.Fatal(err)
	}
	sent := string(x.Request.Doc.Bytes)
	holders := regexp.MustCompile(`<CARD_\w+>`).FindAllString(sent, -1)
	if len(holders) != 8 || x.Log[0].Note != "masked;card=8" {
		t.Fatalf("%s; %+v", sent, x.Log)
	}
	for _, part := range []string{"4539", "1488", "0343", "6467"} {
		if strings.Contains(sent, part) {
			t.Errorf("%s is sent: %s", part, sent)
		}
	}
	args := card
	for i, part := range []string{"4539", "1488", "0343", "6467"} {
		args = strings.Replace(args, part, holders[i], 1)
	}
	for cut := range len(args) {
		var got []byte
		for _, ev := range []chat.Event{
			{Kind: chat.Start},
			{Kind: chat.ToolStart},
			{Kind: chat.ToolArgs, Text: []byte(args[:cut])},
			{Kind: chat.ToolArgs, Text: []byte(args[cut:])},
			{Kind: chat.End},
		} {
			out, err := x.Response(t.Context(), &ev)
			if err != nil {
				t.Fatal(err)
			}
			for i := range out {
				got = append(got, out[i].Text...)
			}
		}
		if string(got) != card {
			t.Fatalf("cut at %d, the arguments are %s", cut, got)
		}
	}
}

// TestD37ACardInNumbersIsMasked: the JSON numbers become strings in all texts, and other numbers are unchanged.
func TestD37ACardInNumbersIsMasked(t *testing.T) {
	const card = `{\"card\":[4539,1488,343,6467],\"year\":2031,\"n\":[4539,45390,4539.5]}`
	x := exchange(t, `{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"pay","arguments":"`+card+`"}}]},{"role":"tool","tool_call_id":"c","content":"paid 1488 with 4539, code \"343\""}`)
	if err := run(t, newLayer(layer.Mask), x); err != nil {
		t.Fatal(err)
	}
	sent := regexp.MustCompile(`<CARD_\w+>`).ReplaceAllString(string(x.Request.Doc.Bytes), "#")
	for _, want := range []string{`{\"card\":[\"#\",\"#\",343,\"#\"],\"year\":2031,\"n\":[\"#\",45390,4539.5]}`, `paid # with #, code \"343\"`} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s lacks %s", sent, want)
		}
	}
}

// TestD37ANameInTwoMembersIsMasked: in the members, and where both parts are together; a part alone is another word elsewhere.
func TestD37ANameInTwoMembersIsMasked(t *testing.T) {
	x := exchange(t, `{"role":"user","content":"Will you mark the order of Will Marks? Marks, I said."},`+
		`{"role":"tool","tool_call_id":"c","content":"{\"first_name\":\"Will\",\"last_name\":\"Marks\",\"alias\":\"Will\",\"note\":\"Will pays\",\"by\":\"Marks Will\"}"},`+
		`{"role":"user","content":"長谷川美咲の注文"},{"role":"tool","tool_call_id":"d","content":"{\"姓\":\"長谷川\",\"名\":\"美咲\"}"}`)
	if err := run(t, newLayer(layer.Mask), x); err != nil {
		t.Fatal(err)
	}
	sent := regexp.MustCompile(`<PERSON_NAME_\w+>`).ReplaceAllString(string(x.Request.Doc.Bytes), "#")
	for _, want := range []string{
		`Will you mark the order of #? Marks, I said.`, `{\"first_name\":\"#\",\"last_name\":\"#\",\"alias\":\"#\",\"note\":\"Will pays\",\"by\":\"#\"}`, `"#の注文"`, `{\"姓\":\"#\",\"名\":\"#\"}`,
	} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s lacks %s", sent, want)
		}
	}
	if x.Log[0].Note != "masked;person_name=4" {
		t.Errorf("%+v", x.Log)
	}
	ev := chat.Event{Kind: chat.Text, Text: regexp.MustCompile(`<PERSON_NAME_\w+>`).Find(x.Request.Doc.Bytes)}
	out, err := x.Response(t.Context(), &ev)
	if err != nil || len(out) != 1 || string(out[0].Text) != "Will Marks" {
		t.Errorf("%v, %+v", err, out)
	}
}

// TestD37ANumberWhoseCountryCodeIsAnotherMemberIsMasked: the name of the member identifies it.
func TestD37ANumberWhoseCountryCodeIsAnotherMemberIsMasked(t *testing.T) {
	x := exchange(t, `{"role":"tool","tool_call_id":"c","content":"{\"country_code\":\"+49\",\"phone\":\"30 901820\"}"}`)
	if err := run(t, newLayer(layer.Mask), x); err != nil || strings.Contains(string(x.Request.Doc.Bytes), "901820") {
		t.Errorf("%v, %s", err, x.Request.Doc.Bytes)
	}
}

// TestForbiddenTextsAreFoundApart from everything else that the layer does: nothing is changed, counted, or refused for other values.
func TestForbiddenTextsAreFoundApart(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for m, refuses := range map[layer.Mode]bool{"": true, layer.Off: false, layer.Detect: true, layer.Mask: true, layer.Block: true} {
		for text, forbidden := range map[string]bool{"write to a@b.com": false, "my private key is " + key: true} {
			x := exchange(t, fmt.Sprintf(`{"role":"user","content":%q}`, text))
			before := x.Request
			err := pipeline.New(newLayer(m)).Forbids(t.Context(), x)
			if (err != nil) != (refuses && forbidden) || err != nil && fault.From(err).Kind != fault.SecretInPrompt || x.Request != before || len(x.Log) != 0 {
				t.Errorf("%q: %q: %v, %v", m, text, err, x.Log)
			}
		}
	}
}
