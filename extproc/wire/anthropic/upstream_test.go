package anthropic_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/internal/jsonx"
)

func messageOf(role chat.Role, parts ...chat.Part) chat.Message {
	return chat.Message{Role: role, Parts: parts}
}

func text(s string) chat.Part { return chat.Part{Kind: chat.PartText, Text: s} }

func call(id, name, args string) chat.Part {
	return chat.Part{Kind: chat.PartToolUse, Tool: chat.ToolCall{ID: id, Name: name, Args: args}}
}

func result(id string, parts ...chat.Part) chat.Part {
	return chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: id}, Parts: parts}
}

// encode encodes a request of an OpenAI client.
func encode(r chat.Request, c chat.Conversation, o anthropic.RequestOptions) (string, []string, error) {
	r.Dialect, r.Conv = chat.OpenAI, &c
	if o.Model == "" {
		o.Model = "m"
	}
	got, degraded, err := anthropic.EncodeRequest(nil, &r, o)
	return string(got), degraded, err
}

var hi = []chat.Message{messageOf(chat.RoleUser, text("hi"))}

var ephemeral = jsonx.Raw(`{"type":"ephemeral"}`)

// turnRows are messages, and how they are written.
var turnRows = []struct {
	name     string
	system   []chat.Part
	messages []chat.Message
	want     string // from "system" or "messages" on
	degraded []string
}{
	{
		name: "the least", messages: hi,
		want: `"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`,
	},
	{
		name: "system blocks keep their cache marks K-23", messages: hi,
		system: []chat.Part{text("a"), text(" "), {Kind: chat.PartText, Text: "b", CacheControl: ephemeral}},
		want:   `"system":[{"type":"text","text":"a"},{"type":"text","text":"b","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`,
	},
	{
		name: "a system prompt alone is a question", system: []chat.Part{text("say hi")},
		want: `"messages":[{"role":"user","content":[{"type":"text","text":"say hi"}]}]`,
	},
	{
		name:     "turns of one side are one turn",
		messages: []chat.Message{messageOf(chat.RoleUser, text("a")), messageOf(chat.RoleUser, text("b")), messageOf(chat.RoleAssistant, text("c")), messageOf(chat.RoleAssistant, text("d \n"))},
		want:     `"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]}]`,
	},
	{
		name:     "K-88 the assistant first, and system in the middle",
		messages: []chat.Message{messageOf(chat.RoleAssistant, text("hello")), messageOf(chat.RoleSystem, text("be brief")), messageOf(chat.RoleUser, text("hi"))},
		want:     `"messages":[{"role":"user","content":[{"type":"text","text":"Continue."}]},{"role":"assistant","content":[{"type":"text","text":"hello"}]},{"role":"user","content":[{"type":"text","text":"<system>\nbe brief\n</system>"},{"type":"text","text":"hi"}]}]`,
		degraded: []string{"system"},
	},
	{
		name: "parallel results are one turn and come first K-11 K-12",
		messages: []chat.Message{
			messageOf(chat.RoleUser, text("go")),
			messageOf(chat.RoleAssistant, text("ok"), call("a:1", "f", `{"x": 1}`), call("b", "g", "")),
			messageOf(chat.RoleUser, text("and")),
			messageOf(chat.RoleTool, chat.Part{Kind: chat.PartToolResult, Tool: chat.ToolCall{ID: "a:1"}, IsError: true, CacheControl: ephemeral, Parts: []chat.Part{text("bad"), {Kind: chat.PartImage, Media: "image/png", Data: "AA"}}}),
			messageOf(chat.RoleTool, result("b", text(""))),
		},
		want: `"messages":[{"role":"user","content":[{"type":"text","text":"go"}]},` +
			`{"role":"assistant","content":[{"type":"text","text":"ok"},{"type":"tool_use","id":"a_1","name":"f","input":{"x": 1}},{"type":"tool_use","id":"b","name":"g","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a_1","content":[{"type":"text","text":"bad"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA"}}],"is_error":true,"cache_control":{"type":"ephemeral"}},{"type":"tool_result","tool_use_id":"b"},{"type":"text","text":"and"}]}],` +
			`"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}},{"name":"g","input_schema":{"type":"object","properties":{}}}],"tool_choice":{"type":"none"}`,
	},
	{
		name: "images and documents K-13",
		messages: []chat.Message{messageOf(chat.RoleUser, text("see"),
			chat.Part{Kind: chat.PartImage, URL: "https://x/y.png"},
			chat.Part{Kind: chat.PartDocument, Media: "application/pdf", Data: "BB", Name: "a.pdf"},
			chat.Part{Kind: chat.PartDocument, Media: "text/csv", Data: "YSxi"})},
		want: `"messages":[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","url":"https://x/y.png"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"BB"},"title":"a.pdf"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"a,b"}}]}]`,
	},
	{
		name: "K-14 K-15 signed thinking stays, unsigned goes",
		messages: []chat.Message{messageOf(chat.RoleUser, text("q")), messageOf(chat.RoleAssistant,
			chat.Part{Kind: chat.PartThinking, Text: "hm", Signature: "s"}, chat.Part{Kind: chat.PartThinking, Text: "no"},
			chat.Part{Kind: chat.PartRedacted, Data: "x"}, chat.Part{Kind: chat.PartRefusal, Text: "I can't"}), messageOf(chat.RoleUser, text("why"))},
		want:     `"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"I can't"}]},{"role":"user","content":[{"type":"text","text":"why"}]}]`,
		degraded: []string{"thinking"},
	},
	{
		name:     "K-96 empty text and empty turns go",
		messages: []chat.Message{messageOf(chat.RoleUser, text("a")), messageOf(chat.RoleAssistant, text(" \n")), messageOf(chat.RoleUser, text(""), text("b"))},
		want:     `"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`,
	},
}

func TestTurnsAreWrittenAsThisFormatWantsThem(t *testing.T) {
	for _, tt := range turnRows {
		t.Run(tt.name, func(t *testing.T) {
			got, degraded, err := encode(chat.Request{MaxTokens: 9}, chat.Conversation{System: tt.system, Messages: tt.messages}, anthropic.RequestOptions{})
			if want := `{"model":"m","max_tokens":9,` + tt.want + `}`; err != nil || got != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
			if !slices.Equal(degraded, tt.degraded) {
				t.Errorf("degraded %v, want %v", degraded, tt.degraded)
			}
		})
	}
}

func TestOrphansOfToolCallsAreRefusedK96(t *testing.T) {
	tests := []struct {
		name     string
		messages []chat.Message
		contains string
	}{
		{"a result without its call", []chat.Message{messageOf(chat.RoleTool, result("x", text("1")))}, `a tool result for "x"`},
		{
			"a call without its result",
			[]chat.Message{messageOf(chat.RoleUser, text("q")), messageOf(chat.RoleAssistant, call("x", "f", "{}")), messageOf(chat.RoleUser, text("w"))},
			`the tool call "x"`,
		},
		{"a call at the end", []chat.Message{messageOf(chat.RoleUser, text("q")), messageOf(chat.RoleAssistant, call("x", "f", "{}"))}, `the tool call "x"`},
	}
	for _, tt := range tests {
		_, _, err := encode(chat.Request{}, chat.Conversation{Messages: tt.messages}, anthropic.RequestOptions{})
		checkFault(t, tt.name, err, "messages", tt.contains)
	}
}

// strictTool is a strict tool with a cache mark, for a model that does not enforce schemas.
var strictTool = []chat.Tool{{Name: "f", Description: "d", Schema: jsonx.Raw(`{"type":"object"}`), Strict: true, CacheControl: ephemeral}}

const strictToolJSON = `,"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}]`

// parameterRows are parameters, how they are written, and what is named as degraded.
var parameterRows = []struct {
	name     string
	req      chat.Request
	conv     chat.Conversation
	opts     anthropic.RequestOptions
	max      string // max_tokens in the result
	want     string // what follows the messages
	degraded []string
}{
	{name: "no limit anywhere K-94", max: "4096"},
	{name: "the model's limit", opts: anthropic.RequestOptions{MaxOutput: 8192}, max: "8192"},
	{name: "more than the model can", req: chat.Request{MaxTokens: 9000}, opts: anthropic.RequestOptions{MaxOutput: 8192}, max: "8192", degraded: []string{"max_tokens"}},
	{name: "a stream", req: chat.Request{Stream: true}, max: "4096", want: `,"stream":true`},
	{
		name: "sampling", max: "4096",
		conv: chat.Conversation{Params: chat.Params{Temperature: "0.30", TopK: "5", Stop: []string{"a", "\n", "b"}, User: "u"}},
		want: `,"stop_sequences":["a","b"],"temperature":0.30,"top_k":5,"metadata":{"user_id":"u"}`, degraded: []string{"stop_sequences"},
	},
	{
		name: "temperature beyond 1", max: "4096", conv: chat.Conversation{Params: chat.Params{Temperature: "1.7", TopP: "1"}},
		want: `,"temperature":1`, degraded: []string{"temperature"},
	},
	{
		name: "temperature and top_p exclude each other", max: "4096",
		conv: chat.Conversation{Params: chat.Params{Temperature: "0.5", TopP: "0.9"}}, want: `,"temperature":0.5`, degraded: []string{"top_p"},
	},
	{name: "top_p alone", max: "4096", conv: chat.Conversation{Params: chat.Params{TopP: "0.9"}}, want: `,"top_p":0.9`},
	{
		name: "what this format cannot say", req: chat.Request{Choices: 2}, max: "4096",
		conv: chat.Conversation{
			Params:   chat.Params{PresencePenalty: "0.5", FrequencyPenalty: "0", Seed: "7", Schema: jsonx.Raw(`{}`), User: strings.Repeat("u", 300)},
			Unmapped: []string{"n", "logprobs"},
		},
		degraded: []string{"format", "user_id", "presence_penalty", "seed", "n", "logprobs"},
	},
	{name: "tools K-23", max: "4096", conv: chat.Conversation{Tools: strictTool}, want: strictToolJSON, degraded: []string{"strict"}},
	{
		name: "tools of a kind that only their dialect knows", max: "4096",
		conv: chat.Conversation{Tools: []chat.Tool{{Raw: jsonx.Raw(`{"type":"web_search"}`)}}}, degraded: []string{"web_search"},
	},
	{
		name: "schemas that do not say what they are", max: "4096",
		conv: chat.Conversation{Tools: []chat.Tool{{Name: "a", Schema: jsonx.Raw(`{}`)}, {Name: "b", Schema: jsonx.Raw(`{ "properties":{}}`)}}},
		want: `,"tools":[{"name":"a","input_schema":{"type":"object","properties":{}}},{"name":"b","input_schema":{"type":"object", "properties":{}}}]`,
	},
	{
		name: "required is any", max: "4096", conv: chat.Conversation{Tools: strictTool, ToolChoice: chat.ToolChoice{Mode: chat.ToolAny}},
		want: strictToolJSON + `,"tool_choice":{"type":"any"}`, degraded: []string{"strict"},
	},
	{
		name: "a named strictTool, one at a time", max: "4096",
		conv: chat.Conversation{Tools: strictTool, ToolChoice: chat.ToolChoice{Mode: chat.ToolNamed, Name: "f"}, ParallelTools: new(false)},
		want: strictToolJSON + `,"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`, degraded: []string{"strict"},
	},
	{
		name: "one at a time", max: "4096", conv: chat.Conversation{Tools: strictTool, ParallelTools: new(false)},
		want: strictToolJSON + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}`, degraded: []string{"strict"},
	},
	{
		name: "none", max: "4096", conv: chat.Conversation{Tools: strictTool, ParallelTools: new(true), ToolChoice: chat.ToolChoice{Mode: chat.ToolNone}},
		want: strictToolJSON + `,"tool_choice":{"type":"none"}`, degraded: []string{"strict"},
	},
	{
		name: "effort is a budget K-19", opts: anthropic.RequestOptions{MaxOutput: 64000}, max: "64000",
		conv: chat.Conversation{Params: chat.Params{Effort: "medium"}}, want: `,"thinking":{"type":"enabled","budget_tokens":4096}`,
	},
	{
		name: "the limit is raised by the budget", req: chat.Request{MaxTokens: 500}, opts: anthropic.RequestOptions{MaxOutput: 64000}, max: "16884",
		conv: chat.Conversation{Params: chat.Params{Effort: "high"}}, want: `,"thinking":{"type":"enabled","budget_tokens":16384}`,
	},
	{
		name: "the budget shrinks to the limit", req: chat.Request{MaxTokens: 3000}, max: "3000",
		conv: chat.Conversation{Params: chat.Params{Effort: "high"}}, want: `,"thinking":{"type":"enabled","budget_tokens":1500}`, degraded: []string{"effort"},
	},
	{
		name: "too small a limit for any thinking", req: chat.Request{MaxTokens: 1024}, max: "1024",
		conv: chat.Conversation{Params: chat.Params{Effort: "low"}}, degraded: []string{"effort"},
	},
	{name: "no effort", max: "4096", conv: chat.Conversation{Params: chat.Params{Effort: "none"}}},
	{name: "an unknown effort is named K-19", max: "4096", conv: chat.Conversation{Params: chat.Params{Effort: "ultra"}}, degraded: []string{"effort"}},
	{
		name: "a budget of the caller's own", opts: anthropic.RequestOptions{MaxOutput: 64000}, max: "64000",
		conv: chat.Conversation{Params: chat.Params{ThinkingBudget: 100}}, want: `,"thinking":{"type":"enabled","budget_tokens":1024}`,
	},
	{
		name: "thinking excludes sampling and forced tools K-21", opts: anthropic.RequestOptions{MaxOutput: 64000}, max: "64000",
		conv: chat.Conversation{
			Params: chat.Params{Effort: "low", Temperature: "0.2", TopP: "0.5", TopK: "3"},
			Tools:  strictTool, ToolChoice: chat.ToolChoice{Mode: chat.ToolAny},
		},
		want:     strictToolJSON + `,"thinking":{"type":"enabled","budget_tokens":1024}`,
		degraded: []string{"temperature", "top_p", "top_k", "tool_choice", "strict"},
	},
	{
		name: "what thinking allows stays", opts: anthropic.RequestOptions{MaxOutput: 64000}, max: "64000",
		conv: chat.Conversation{Params: chat.Params{Effort: "low", Temperature: "1.0", TopP: "0.97"}},
		want: `,"top_p":0.97,"thinking":{"type":"enabled","budget_tokens":1024}`,
	},
	{
		name: "adaptive models take the effort itself", opts: anthropic.RequestOptions{Adaptive: true}, max: "4096",
		conv: chat.Conversation{Params: chat.Params{Effort: "high"}}, want: `,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`,
	},
	{
		name: "an effort that adaptive models lack", opts: anthropic.RequestOptions{Adaptive: true}, max: "4096",
		conv: chat.Conversation{Params: chat.Params{Effort: "minimal"}}, want: `,"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`, degraded: []string{"effort"},
	},
}

func TestParametersAreWrittenOrNamedAsDegraded(t *testing.T) {
	for _, tt := range parameterRows {
		t.Run(tt.name, func(t *testing.T) {
			tt.conv.Messages = hi
			got, degraded, err := encode(tt.req, tt.conv, tt.opts)
			want := `{"model":"m","max_tokens":` + tt.max + `,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]` + tt.want + `}`
			if err != nil || got != want {
				t.Errorf("got  %s, %v\nwant %s", got, err, want)
			}
			if !slices.Equal(degraded, tt.degraded) {
				t.Errorf("degraded %v, want %v", degraded, tt.degraded)
			}
		})
	}
}

func TestThinkingCannotBeginInsideAToolLoop(t *testing.T) {
	loop := func(first ...chat.Part) chat.Conversation {
		return chat.Conversation{
			Params: chat.Params{Effort: "low"},
			Messages: []chat.Message{
				messageOf(chat.RoleUser, text("q")), messageOf(chat.RoleAssistant, append(first, call("x", "f", "{}"))...), messageOf(chat.RoleTool, result("x", text("1"))),
			},
		}
	}
	signed := chat.Part{Kind: chat.PartThinking, Text: "hm", Signature: "s"}
	if got, degraded, err := encode(chat.Request{}, loop(), anthropic.RequestOptions{}); err != nil || strings.Contains(got, `"budget_tokens"`) || !slices.Equal(degraded, []string{"effort"}) {
		t.Errorf("unsigned: got %s, %v, %v", got, degraded, err)
	}
	if got, degraded, err := encode(chat.Request{}, loop(signed), anthropic.RequestOptions{}); err != nil || !strings.Contains(got, `"budget_tokens":1024`) || len(degraded) > 0 {
		t.Errorf("signed: got %s, %v, %v", got, degraded, err)
	}
}

func TestTheSameConversationGivesTheSameBytesK25(t *testing.T) {
	c := chat.Conversation{Messages: hi, Tools: []chat.Tool{{Name: "a"}, {Name: "b"}}, Params: chat.Params{Effort: "high", Stop: []string{"x"}}}
	first, _, _ := encode(chat.Request{}, c, anthropic.RequestOptions{})
	for range 100 {
		if second, _, _ := encode(chat.Request{}, c, anthropic.RequestOptions{}); second != first {
			t.Fatalf("got %s\nand %s", first, second)
		}
	}
}

func FuzzEveryConversationIsWrittenAsValidJSON(f *testing.F) {
	f.Add(request(`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"temperature":2,"thinking":{"type":"enabled","budget_tokens":1024}`))
	f.Add(`{"model":"m","max_tokens":1,"system":"s","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":" "}]}]}]}`)
	f.Add(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}},{"type":"document","source":{"type":"text","data":"x"}}]}],"stop_sequences":["",""],"metadata":{"user_id":"u"}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := anthropic.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			return
		}
		r.Dialect = chat.OpenAI // decoded in this format, and marked as another's for the writer
		got, _, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m"})
		if err != nil { // a history that cannot be expressed
			return
		}
		if err := jsonx.Valid(got); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
	})
}
