package crossing_test

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
)

// TestC17ResultsReachEachProviderInItsForm: search_result blocks for models that support them, else texts; a client's own text in the same
// form stays text.
func TestC17ResultsReachEachProviderInItsForm(t *testing.T) {
	t.Parallel()
	const (
		text  = `<search_result source=\"s\" title=\"t\">\nRex\n</search_result>`
		block = `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"Rex"}]`
		cited = block + `,"citations":{"enabled":true}},`
		part  = `{"type":"text","text":"` + text + `"},`
	)
	bodies := map[string]struct {
		d    wire.Dialect
		body string
	}{
		"chat completions": {openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":[` + part + `{"type":"text","text":"Which dog?"}]}]}`},
		"messages":         {anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` + part + `{"type":"text","text":"Which dog?"}]}]}`},
		"responses":        {responses.Dialect{}, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"` + text + `"},{"type":"input_text","text":"Which dog?"}]}]}`},
		"gemini":           {gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", ""), `{"contents":[{"role":"user","parts":[{"text":"` + text + `"},{"text":"Which dog?"}]}]}`},
	}
	for client, row := range bodies {
		decoded := func(retrieved, cites bool) *chat.Request {
			r, err := row.d.Decode(chat.Generate, nil, "", []byte(row.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Retrieved, r.Cites = retrieved, cites
			return r
		}
		for _, retrieved := range []bool{true, false} {
			for about, try := range map[string]struct {
				reads, cites bool
				want         string
			}{
				"a model that reads results":      {true, false, block + `},`},
				"a model that cites results":      {true, true, cited},
				"a model that does not read them": {false, true, part},
			} {
				if !retrieved {
					try.want = part
				}
				body, degraded, err := anthropic.EncodeRequest(nil, decoded(retrieved, try.cites), anthropic.RequestOptions{Model: "m", SearchResults: try.reads})
				if err != nil || len(degraded) > 0 || !strings.Contains(string(body), `"content":[`+try.want+`{"type":"text","text":"Which dog?"}]`) {
					t.Errorf("%s, to %s, retrieved %t: %v, %q\n%s", client, about, retrieved, err, degraded, body)
				}
			}
		}
		body, degraded, err := openai.EncodeRequest(nil, decoded(true, true), openai.RequestOptions{Model: "m"})
		if before, after, ok := strings.Cut(string(body), text); err != nil || len(degraded) > 0 || !ok || strings.Contains(before, "Which dog?") || !strings.Contains(after, "Which dog?") {
			t.Errorf("%s, to a server of OpenAI's format: %v, %q\n%s", client, err, degraded, body)
		}
		if client == "chat completions" && !strings.Contains(string(body), `{"role":"user","content":"`+text+`\n\nWhich dog?"}`) {
			t.Errorf("it is no string: %s", body)
		}
		if own, _, err := openai.EncodeRequest(nil, decoded(false, false), openai.RequestOptions{Model: "m"}); client == "chat completions" && (err != nil || string(own) != row.body) {
			t.Errorf("a client's own parts become %s, %v", own, err)
		}
	}
}

// TestC17CitationsGiveWayToASchema: the API refuses both together.
func TestC17CitationsGiveWayToASchema(t *testing.T) {
	t.Parallel()
	const form = `<search_result source=\"s\" title=\"t\">\nRex\n</search_result>`
	schema := []byte(`{"type":"object","properties":{},"additionalProperties":false}`)
	for client, row := range map[string]struct {
		d    wire.Dialect
		body string
	}{
		"a client's schema": {anthropic.Dialect{}, `{"model":"m","max_tokens":9,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},"messages":[{"role":"user","content":[{"type":"text","text":"` + form + `"},{"type":"text","text":"q"}]}]}`},
		"a profile's":       {anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":"` + form + `"},{"type":"text","text":"q"}]}]}`},
		"another format's":  {openai.Dialect{}, `{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + string(schema) + `}},"messages":[{"role":"user","content":[{"type":"text","text":"` + form + `"},{"type":"text","text":"q"}]}]}`},
	} {
		r, err := row.d.Decode(chat.Generate, nil, "", []byte(row.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Retrieved, r.Cites = true, true
		if client == "a profile's" {
			r.Profile = &chat.Profile{Default: chat.Params{Schema: schema}}
		}
		body, _, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m", SearchResults: true, StructuredOutputs: true})
		if err != nil || !strings.Contains(string(body), `"type":"search_result"`) || strings.Contains(string(body), `"citations"`) || !strings.Contains(string(body), `"format"`) {
			t.Errorf("%s: %v\n%s", client, err, body)
		}
	}
}
