package openai_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

// TestMembersThatAProviderRefusesAreCut: wherever they are, next to each other or alone, and nothing else changes.
func TestMembersThatAProviderRefusesAreCut(t *testing.T) {
	t.Parallel()
	const (
		mark   = `"cache_control":{"type":"ephemeral"}`
		images = `"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}]`
	)
	openAI, strict := openai.RequestOptions{Extras: openai.OpenAIExtras}, openai.RequestOptions{Extras: openai.StrictExtras}
	rows := []struct {
		name, in string
		o        openai.RequestOptions
		out      string // of the message; "" for as it came
		degraded string
	}{
		{"marks of a message and its parts", `{` + mark + `,"role":"user","content":[{` + mark + `,"type":"text","text":"a"},{"type":"text","text":"b",` + mark + `}]}`, openAI, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "cache_control"},
		{"marks that a provider accepts", `{"role":"user","content":"a",` + mark + `}`, openai.RequestOptions{Extras: openai.StrictExtras, KeepMarks: true}, "", ""},
		{"marks that a provider supports", `{"role":"user","content":"a",` + mark + `}`, openai.RequestOptions{Extras: openai.OpenAIExtras, CacheControl: true}, "", ""},
		{"marks at an unknown server", `{"role":"user","content":"a",` + mark + `}`, openai.RequestOptions{}, "", ""},
		{"a member of the gateway's next to them", `{"bardo":"static",` + mark + `,"role":"system","content":"a"}`, openAI, `{"role":"system","content":"a"}`, "cache_control"},
		{"an image with text", `{"role":"assistant","content":"a",` + images + `}`, openAI, `{"role":"assistant","content":"a"}`, "images"},
		{"an image alone", `{"role":"assistant","content":null,` + images + `}`, openAI, `{"role":"assistant","content":"[image]"}`, "images"},
		{"an image without content", `{` + images + `,"role":"assistant"}`, strict, `{"content":"[image]","role":"assistant"}`, "images"},
		{"an empty list of images", `{"role":"assistant","content":"a","images":[]}`, openAI, `{"role":"assistant","content":"a"}`, ""},
		{"an answer of OpenAI's", `{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null}`, openAI, "", ""},
		{"an answer of OpenAI's at another", `{"role":"assistant","content":"a","refusal":null,"annotations":[],"audio":null}`, strict, `{"role":"assistant","content":"a"}`, ""},
		{"a refusal", `{"role":"assistant","content":null,"refusal":"no"}`, strict, `{"role":"assistant","content":"no"}`, ""},
		{"a refusal after a text", `{"role":"assistant","content":"a","refusal":"no"}`, strict, `{"role":"assistant","content":"a"}`, "refusal"},
		{"audio", `{"role":"assistant","content":null,"audio":{"id":"a1"}}`, strict, `{"role":"assistant","content":"[audio]"}`, "audio"},
		{"audio at OpenAI", `{"role":"assistant","content":null,"audio":{"id":"a1"}}`, openAI, "", ""},
		{"null members", `{"role":"assistant","content":"a","function_call":null,"tool_calls":null}`, openAI, `{"role":"assistant","content":"a"}`, ""},
		{"a call of the legacy format", `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}`, openAI, "", ""},
		{"members of calls", `{"role":"assistant","content":null,"tool_calls":[{"extra_content":{},"id":"1","type":"function","function":{"provider_specific_fields":{},"name":"f","arguments":"{}"},"provider_specific_fields":{}}]}`, openAI, `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, ""},
		{"marks of calls", `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"},` + mark + `}]}`, openAI, `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, "cache_control"},
		{"reasoning next to them", `{"reasoning":"t","provider_specific_fields":{},"reasoning_content":"t","role":"assistant","content":"a"}`, openai.RequestOptions{Extras: openai.StrictExtras, NoDetails: true, ReasoningContent: openai.NoReasoningContent}, `{"role":"assistant","content":"a"}`, ""},
		{"reasoning in the member that a provider reads", `{"reasoning_content":"t","role":"assistant","content":"a"}`, openai.RequestOptions{Extras: openai.StrictExtras, NoDetails: true, KeepReasoning: true, ReasoningContent: openai.NoReasoningContent}, `{"reasoning":"t","role":"assistant","content":"a"}`, ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			body := func(message string) string {
				return `{"model":"m","messages":[` + message + `,{"role":"user","content":"b"}]}`
			}
			r.o.Model = "m"
			got, degraded, err := openai.EncodeRequest(nil, decode(t, body(r.in)), r.o)
			if err != nil {
				t.Fatal(err)
			}
			want := r.out
			if want == "" {
				want = r.in
			}
			if string(got) != body(want) || strings.Join(degraded, ",") != r.degraded {
				t.Errorf("\ngot  %s, %v\nwant %s, %s", got, degraded, body(want), r.degraded)
			}
		})
	}
	const tools = `{"model":"m","cache_control":{"type":"ephemeral"},` + hi + `,"tools":[{"type":"function","function":{"name":"f",` + mark + `},` + mark + `}]}`
	got, degraded, err := openai.EncodeRequest(nil, decode(t, tools), openai.RequestOptions{Model: "m", Extras: openai.OpenAIExtras})
	if err != nil || string(got) != `{"model":"m",`+hi+`,"tools":[{"type":"function","function":{"name":"f"}}]}` || strings.Join(degraded, ",") != "cache_control" {
		t.Errorf("tools: %s, %v, %v", got, degraded, err)
	}
}

// TestAnUnknownServersRefusalIsAmended only if it is about a member that clients add or send back.
func TestAnUnknownServersRefusalIsAmended(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"Extra inputs are not permitted, field: 'messages[0].cache_control'":                                                      true,
		"messages.2.assistant.provider_specific_fields: property 'provider_specific_fields' is unsupported":                       true,
		"Unknown parameter: 'messages[1].images'.":                                                                                true,
		"Unknown parameter: 'frequency_penalty'.":                                                                                 false,
		"A maximum of 4 blocks with cache_control may be provided. Found 5.":                                                      false,
		"'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : property 'refusal' is unsupported)]": true,
	} {
		to, ok := openai.AmendExtras(policy.Resolution{}, &chat.ProviderError{Status: 400, Message: message})
		if ok != want || to.Without.Extras != want {
			t.Errorf("%s: %v", message, ok)
		}
		if _, again := openai.AmendExtras(to, &chat.ProviderError{Status: 400, Message: message}); again && want {
			t.Errorf("%s: amended twice", message)
		}
	}
}
