package openai_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/jsonx"
)

func TestARequestOfTheSameDialectIsSpliced(t *testing.T) {
	rows := []struct {
		name, in string
		o        openai.RequestOptions
		out      string
	}{
		{"nothing to do", ` {"model" : "m", "x":1.50,` + hi + `}`, openai.RequestOptions{Model: "m"}, ` {"model" : "m", "x":1.50,` + hi + `}`},
		{"another model", `{"model" : "p/m",` + hi + `}`, openai.RequestOptions{Model: "up"}, `{"model" : "up",` + hi + `}`},
		{"no hints", `{"bardo":{},"model":"m",` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m",` + hi + `}`},
		{"usage asked for (K-28)", `{"model":"m","stream":true,` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,` + hi + `,"stream_options":{"include_usage":true}}`},
		{"usage refused (K-28)", `{"model":"m","stream":true,"stream_options":{"a":1,"include_usage": false},` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,"stream_options":{"a":1,"include_usage":true},` + hi + `}`},
		{"other options stay (K-28)", `{"model":"m","stream":true,"stream_options":{ "a":1},` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,"stream_options":{ "a":1,"include_usage":true},` + hi + `}`},
		{"empty options (K-28)", `{"model":"m","stream":true,"stream_options":{},` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + hi + `}`},
		{"null options (K-28)", `{"model":"m","stream":true,"stream_options":null,` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + hi + `}`},
		{"usage already asked for", `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + hi + `}`},
		{"max_tokens as named (K-94)", `{"model":"m","max_tokens":5,` + hi + `}`, openai.RequestOptions{Model: "m"}, `{"model":"m","max_tokens":5,` + hi + `}`},
		{"max_tokens renamed (K-94)", `{"model":"m","max_tokens":5,` + hi + `}`, openai.RequestOptions{Model: "m", TokensField: openai.MaxCompletionTokens}, `{"model":"m",` + hi + `,"max_completion_tokens":5}`},
		{"max_completion_tokens renamed (K-94)", `{` + hi + `,"model":"m","max_completion_tokens":5}`, openai.RequestOptions{Model: "m", TokensField: openai.MaxTokens}, `{` + hi + `,"model":"m","max_tokens":5}`},
		{"both (K-94)", `{"model":"m","max_tokens":5,"max_completion_tokens":6,` + hi + `}`, openai.RequestOptions{Model: "m", TokensField: openai.MaxCompletionTokens}, `{"model":"m","max_completion_tokens":6,` + hi + `}`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			out, degraded, err := openai.EncodeRequest([]byte("kept"), decode(t, r.in), r.o)
			if err != nil || len(degraded) > 0 {
				t.Fatal(degraded, err)
			}
			if got := strings.TrimPrefix(string(out), "kept"); got != r.out {
				t.Errorf("\ngot  %s\nwant %s", got, r.out)
			}
		})
	}
}

func textPart(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }

func turn(role chat.Role, parts ...chat.Part) chat.Message {
	return chat.Message{Role: role, Parts: parts}
}

func use(id, name, args string) chat.Part {
	return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id, Name: name, Args: args}}
}

func result(id string, parts ...chat.Part) chat.Part {
	return chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts}
}

// foreign returns a request of another dialect.
func foreign(c chat.Conversation) *chat.Request {
	return &chat.Request{Dialect: chat.Anthropic, Choices: 1, Conv: &c}
}

func TestMessagesOfAnotherDialect(t *testing.T) {
	failed := result("b", textPart("boom"))
	failed.IsError = true
	png := chat.Part{Kind: chat.PartImage, Media: "image/png", Data: "QUJD"}
	pdf := chat.Part{Kind: chat.PartDocument, Media: "application/pdf", Data: "QQ==", Name: "a.pdf"}
	const callA = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},`
	rows := []struct {
		name     string
		conv     chat.Conversation
		want     string
		degraded string
	}{
		{"system and text", chat.Conversation{System: []chat.Part{textPart("a"), textPart("b")}, Messages: []chat.Message{turn(chat.RoleUser, textPart("hi\n"))}}, `{"role":"system","content":"a\n\nb"},{"role":"user","content":"hi\n"}`, ""},
		{"several texts", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, textPart("a"), textPart("b"))}}, `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, ""},
		{"images", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, png, chat.Part{Kind: chat.PartImage, URL: "https://x/y?a&b"})}}, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"image_url","image_url":{"url":"https://x/y?a&b"}}]}`, ""},
		{"documents (K-13)", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, pdf, chat.Part{Kind: chat.PartDocument, Text: "t", Name: "n"})}}, `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}},{"type":"text","text":"n\n\nt"}]}`, ""},
		{"thinking is not sent back (K-16)", chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, chat.Part{Kind: chat.PartThinking, Text: "t", Signature: "s"}, chat.Part{Kind: chat.PartRedacted, Data: "x"}, textPart("a"), textPart("b"))}}, `{"role":"assistant","content":"ab"}`, "thinking,prefill"},
		{"a turn of thinking alone", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, textPart("q")), turn(chat.RoleAssistant, chat.Part{Kind: chat.PartThinking, Text: "t"})}}, `{"role":"user","content":"q"}`, "thinking"},
		{
			"calls and results, with the user's words after (K-11)",
			chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, textPart("x"), use("a", "f", `{"k":1}`), use("b", "g", "{}")), turn(chat.RoleTool, result("a", textPart("r"), textPart("s")), failed), turn(chat.RoleUser, textPart("go"))}},
			`{"role":"assistant","content":"x","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"k\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]},{"role":"tool","tool_call_id":"a","content":"r\ns"},{"role":"tool","tool_call_id":"b","content":"Error: boom"},{"role":"user","content":"go"}`, "",
		},
		{
			"results and words in one turn",
			chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, use("a", "f", "{}")), turn(chat.RoleUser, textPart("go"), result("a", textPart("r")))}},
			callA + `{"role":"tool","tool_call_id":"a","content":"r"},{"role":"user","content":"go"}`, "",
		},
		{
			"an image in a result stands after all results (K-12)",
			chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, use("a", "f", "{}")), turn(chat.RoleAssistant, use("b", "f", "{}")), turn(chat.RoleTool, result("a", png)), turn(chat.RoleTool, result("b")), turn(chat.RoleUser, textPart("go"))}},
			strings.Replace(callA, "]},", `,{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]},`, 1) + `{"role":"tool","tool_call_id":"a","content":""},{"role":"tool","tool_call_id":"b","content":""},{"role":"user","content":[{"type":"text","text":"Returned by the tool call a:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}},{"type":"text","text":"go"}]}`, "",
		},
		{
			"an image in the last result (K-12)",
			chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, use("a", "f", "{}")), turn(chat.RoleTool, result("a", textPart("see"), png))}},
			callA + `{"role":"tool","tool_call_id":"a","content":"see"},{"role":"user","content":[{"type":"text","text":"Returned by the tool call a:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}`, "",
		},
		{"an empty turn (K-96)", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser), turn(chat.RoleAssistant), turn(chat.RoleUser, textPart("a"))}}, `{"role":"user","content":"a"}`, ""},
		{"what a provider's own tool left", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, textPart("a")), turn(chat.RoleAssistant, textPart("b"), chat.Part{Kind: chat.PartOther, Name: "server_tool_use", Trace: true, Raw: jsonx.Raw(`{"type":"server_tool_use"}`)}), turn(chat.RoleUser, textPart("c"))}}, `{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}`, "server_tool_use"},
		{"system in the middle (K-88)", chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, textPart("a")), turn(chat.RoleSystem, textPart("b"))}}, `{"role":"user","content":"a"},{"role":"system","content":"b"}`, ""},
		{"a refusal", chat.Conversation{Messages: []chat.Message{turn(chat.RoleAssistant, chat.Part{Kind: chat.PartRefusal, Text: "no"})}}, `{"role":"assistant","content":null,"refusal":"no"}`, "prefill"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			out, degraded, err := openai.EncodeRequest(nil, foreign(r.conv), openai.RequestOptions{Model: "up"})
			if err != nil {
				t.Fatal(err)
			}
			if want := `{"model":"up","messages":[` + r.want + `]}`; string(out) != want || strings.Join(degraded, ",") != r.degraded || !json.Valid(out) {
				t.Errorf("\ngot  %s\nwant %s\ndegraded %v", out, want, degraded)
			}
		})
	}
}

func TestMembersOfAnotherDialect(t *testing.T) {
	no := false
	rows := []struct {
		name     string
		edit     func(r *chat.Request)
		o        openai.RequestOptions
		want     string
		degraded string
	}{
		{"tools", func(r *chat.Request) {
			r.Conv.Tools = []chat.Tool{{Name: "f", Description: "d", Schema: jsonx.Raw(`{"type": "object","additionalProperties":false}`), Strict: true}, {Name: "g"}, {Raw: jsonx.Raw(`{"type":"web_search_1"}`)}}
			r.Conv.ToolChoice.Mode, r.Conv.ParallelTools = chat.ToolAny, &no
		}, openai.RequestOptions{}, `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type": "object","additionalProperties":false,"properties":{}},"strict":true}},{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{}}}}],"tool_choice":"required","parallel_tool_calls":false`, "web_search_1"},
		{"a named tool", func(r *chat.Request) {
			r.Conv.Tools = []chat.Tool{{Name: "f"}}
			r.Conv.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: "f"}
		}, openai.RequestOptions{}, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"tool_choice":{"type":"function","function":{"name":"f"}}`, ""},
		{"no tools, no choice", func(r *chat.Request) { r.Conv.ToolChoice.Mode = chat.ToolAny }, openai.RequestOptions{}, ``, "tool_choice"},
		{"max_tokens (K-94)", func(r *chat.Request) { r.MaxTokens = 9 }, openai.RequestOptions{}, `,"max_tokens":9`, ""},
		{"max_completion_tokens (K-94)", func(r *chat.Request) { r.MaxTokens = 9 }, openai.RequestOptions{TokensField: openai.MaxCompletionTokens}, `,"max_completion_tokens":9`, ""},
		{"parameters", func(r *chat.Request) {
			r.Conv.Params = chat.Params{Temperature: "0.30", TopP: "1e-1", TopK: "4", Stop: []string{"a\n", "b"}, User: "u"}
			r.Conv.Unmapped = []string{"metadata"}
		}, openai.RequestOptions{}, `,"temperature":0.30,"top_p":1e-1,"stop":["a\n","b"],"user":"u"`, "top_k,metadata"},
		{"a user too long", func(r *chat.Request) { r.Conv.Params.User = strings.Repeat("u", 65) }, openai.RequestOptions{}, ``, "user_id"},
		{"effort (K-19)", func(r *chat.Request) { r.Conv.Params.Effort = "xhigh" }, openai.RequestOptions{}, `,"reasoning_effort":"xhigh"`, ""},
		{"the most effort (K-19)", func(r *chat.Request) { r.Conv.Params.Effort = "max" }, openai.RequestOptions{}, `,"reasoning_effort":"high"`, "effort"},
		{"a budget (K-19)", func(r *chat.Request) { r.Conv.Params.ThinkingBudget = 4000 }, openai.RequestOptions{}, `,"reasoning_effort":"medium"`, ""},
		{"a budget for a model that does not think", func(r *chat.Request) { r.Conv.Params.ThinkingBudget = 4000 }, openai.RequestOptions{NoEffort: true}, ``, "thinking"},
		{"a schema", func(r *chat.Request) {
			r.Conv.Params.Schema = jsonx.Raw(`{"type":"object","additionalProperties":false}`)
		}, openai.RequestOptions{}, `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","additionalProperties":false},"strict":true}}`, ""},
		{"a schema that is told, and not enforced", func(r *chat.Request) { r.Conv.Params.Schema = jsonx.Raw(`{}`) }, openai.RequestOptions{}, `,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{},"strict":false}}`, "format"},
		{"a stream", func(r *chat.Request) { r.Stream = true }, openai.RequestOptions{}, `,"stream":true,"stream_options":{"include_usage":true}`, ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			req := foreign(chat.Conversation{Messages: []chat.Message{turn(chat.RoleUser, textPart("hi"))}})
			r.edit(req)
			r.o.Model = "up"
			var first []byte
			for range 100 { // K-25: the same request, the same bytes
				out, degraded, err := openai.EncodeRequest(nil, req, r.o)
				if err != nil {
					t.Fatal(err)
				}
				if want := `{"model":"up","messages":[{"role":"user","content":"hi"}]` + r.want + `}`; string(out) != want || strings.Join(degraded, ",") != r.degraded {
					t.Fatalf("\ngot  %s\nwant %s\ndegraded %v", out, want, degraded)
				}
				if first == nil {
					first = out
				}
				if !bytes.Equal(first, out) {
					t.Fatalf("K-25: %s and %s", first, out)
				}
			}
		})
	}
}
