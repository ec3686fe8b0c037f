package openai_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
)

const hi = `"messages":[{"role":"user","content":"hi"}]`

func decode(t *testing.T, body string) *chat.Request {
	t.Helper()
	r, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

func TestDecodeReadsWhatTheGatewayActsOn(t *testing.T) {
	rows := []struct {
		name, body string
		want       func(r *chat.Request) bool
	}{
		{"the least", `{"model":"m",` + hi + `}`, func(r *chat.Request) bool {
			return r.Model == "m" && !r.Stream && r.MaxTokens == 0 && r.Choices == 1 && !r.Thinking && r.Edit.Empty()
		}},
		{"a forced provider stays in the name", `{"model":"p/m",` + hi + `}`, func(r *chat.Request) bool { return r.Model == "p/m" && r.Provider == "" }},
		{"stream", `{"model":"m","stream":true,` + hi + `}`, func(r *chat.Request) bool { return r.Stream && !r.StreamUsage }},
		{"usage", `{"model":"m","stream":true,"stream_options":{"include_usage":true},` + hi + `}`, func(r *chat.Request) bool { return r.StreamUsage }},
		{"nulls", `{"model":"m","stream":null,"stream_options":null,"max_tokens":null,"n":null,"reasoning":null,` + hi + `}`, func(r *chat.Request) bool { return !r.Stream && r.Choices == 1 }},
		{"max_tokens", `{"model":"m","max_tokens":7,` + hi + `}`, func(r *chat.Request) bool { return r.MaxTokens == 7 }},
		{"both limits", `{"model":"m","max_completion_tokens":8,"max_tokens":7,` + hi + `}`, func(r *chat.Request) bool { return r.MaxTokens == 8 }},
		{"the larger of two limits counts: a provider may heed either", `{"model":"m","max_tokens":7,"max_completion_tokens":1,` + hi + `}`, func(r *chat.Request) bool { return r.MaxTokens == 7 }},
		{"n", `{"model":"m","n":3,` + hi + `}`, func(r *chat.Request) bool { return r.Choices == 3 }},
		{"effort", `{"model":"m","reasoning_effort":"low",` + hi + `}`, func(r *chat.Request) bool { return r.Thinking && !r.HighEffort }},
		{"high effort", `{"model":"m","reasoning":{"effort":"high"},` + hi + `}`, func(r *chat.Request) bool { return r.Thinking && r.HighEffort }},
		{"no effort", `{"model":"m","reasoning_effort":"none",` + hi + `}`, func(r *chat.Request) bool { return !r.Thinking }},
		{"hints are removed", `{"model":"m","bardo":{"tick":1},` + hi + `}`, func(r *chat.Request) bool {
			return string(r.Edit.AppendTo(nil, &r.Doc)) == `{"model":"m",`+hi+`}`
		}},
		{"hints on parts and tools are removed", `{"model":"m","messages":[{"role":"user","bardo":"static","content":[{"bardo":"static", "type":"text","text":"a"},{"type":"text","bardo":"volatile","text":"b"}]}],"tools":[{"bardo":1}]}`, func(r *chat.Request) bool {
			return string(r.Edit.AppendTo(nil, &r.Doc)) == `{"model":"m","messages":[{"role":"user","content":[{ "type":"text","text":"a"},{"type":"text","text":"b"}]}],"tools":[{}]}`
		}},
		{"input is estimated", `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 700) + `"}]}`, func(r *chat.Request) bool {
			return r.InputTokens >= 1000 && r.InputTokens < 1050
		}},
		{"an image is estimated by its kind", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 99000) + `"}}]}]}`, func(r *chat.Request) bool {
			return r.InputTokens >= 1500 && r.InputTokens < 1800
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if req := decode(t, r.body); !r.want(req) {
				t.Errorf("got %+v", req)
			}
		})
	}
}

func TestDecodeRefusesByName(t *testing.T) {
	rows := []struct{ body, param, message string }{
		{``, "", "the body is empty"},
		{`{"model":"m",`, "", "line 1, column 14"},
		{`{"model":"m","model":"n",` + hi + `}`, "model", "model is given twice at line 1, column 14"},
		{`{` + hi + `}`, "model", "model is required"},
		{`{"model":"",` + hi + `}`, "model", "empty"},
		{`{"model":null,` + hi + `}`, "model", "must be a string, not null"},
		{`{"model":7,` + hi + `}`, "model", "must be a string, not a number"},
		{`{"model":"` + strings.Repeat("m", 300) + `",` + hi + `}`, "model", "at most 256"},
		{`{"model":"m\r\nx-forged: 1",` + hi + `}`, "model", "control characters"},
		{`{"model":"m"}`, "messages", "required"},
		{`{"model":"m","messages":null}`, "messages", "must be an array"},
		{`{"model":"m","messages":"hi"}`, "messages", "must be an array, not a string"},
		{`{"model":"m","messages":[]}`, "messages", "must not be empty"},
		{`{"model":"m","stream":"true",` + hi + `}`, "stream", "must be a boolean, not a string"},
		{`{"model":"m","stream_options":[],` + hi + `}`, "stream_options", "must be an object"},
		{`{"model":"m","stream_options":{"include_usage":1},` + hi + `}`, "stream_options.include_usage", "must be a boolean"},
		{`{"model":"m","max_tokens":0,` + hi + `}`, "max_tokens", "positive integer"},
		{`{"model":"m","max_tokens":1.5,` + hi + `}`, "max_tokens", "positive integer"},
		{`{"model":"m","max_tokens":1e3,` + hi + `}`, "max_tokens", "positive integer"},
		{`{"model":"m","reasoning":{"max_tokens":9e4},` + hi + `}`, "reasoning.max_tokens", "whole number"},
		{`{"model":"m","reasoning":{"max_tokens":99999999999999999999},` + hi + `}`, "reasoning.max_tokens", "whole number"},
		{`{"model":"m","thinking":{"type":"enabled","budget_tokens":"90000"},` + hi + `}`, "thinking.budget_tokens", "whole number"},
		{`{"model":"m","max_completion_tokens":"9",` + hi + `}`, "max_completion_tokens", "positive integer"},
		{`{"model":"m","n":0,` + hi + `}`, "n", "between 1 and"},
		{`{"model":"m","reasoning_effort":1,` + hi + `}`, "reasoning_effort", "must be a string"},
		{`{"model":"m","reasoning":"high",` + hi + `}`, "reasoning", "must be an object"},
	}
	for _, r := range rows {
		_, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(r.body))
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.InvalidRequest || f.Param != r.param || !strings.Contains(f.Public, r.message) {
			t.Errorf("%.80s\ngave %+v", r.body, err)
		}
	}
}

// part formats a part in short form.
func part(p chat.Part) string {
	s := fmt.Sprintf("%d:%s%s%s%s%s", p.Kind, p.Text, p.Media, p.Data, p.URL+p.File, p.Name)
	if p.Tool.ID != "" {
		s += p.Tool.ID + "," + p.Tool.Name + "," + p.Tool.Args
	}
	for _, q := range p.Parts {
		s += "(" + part(q) + ")"
	}
	return s + string(p.Raw) + string(p.CacheControl)
}

func parts(ps []chat.Part) string {
	var s []string
	for _, p := range ps {
		s = append(s, part(p))
	}
	return strings.Join(s, " ")
}

func TestConversationOfMessages(t *testing.T) {
	rows := []struct{ name, messages, system, want string }{
		{"system and developer first, system later", `[{"role":"system","content":"a"},{"role":"developer","content":[{"type":"text","text":"b"}]},{"role":"user","content":"c"},{"role":"system","content":"d"}]`, "0:a 0:b", "user[0:c] system[0:d]"},
		{"images by URL and as data (K-12)", `[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}]`, "", "user[1:https://x/y.png 1:image/pngQUJD]"},
		{"a file (K-13)", `[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QQ=="}},{"type":"file","file":{"file_id":"f1"}}]}]`, "", `user[2:application/pdfQQ==a.pdf 11:f1]`},
		{"sound", `[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QQ==","format":"wav"}}]}]`, "", `user[9:audio/wavQQ==input_audio]`},
		{"calls and results", `[{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","type":"function","function":{"name":"g","arguments":""}}]},{"role":"tool","tool_call_id":"a","content":"r"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"s"}]}]`, "", `assistant[3:a,f,{"x":1} 3:b,g,{}] tool[4:a,,(0:r)] tool[4:b,,(0:s)]`},
		{"legacy function calls", `[{"role":"assistant","content":"x","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"r"},{"role":"assistant","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"s"}]`, "", `assistant[0:x 3:call_function_1,f,{}] tool[4:call_function_1,,(0:r)] assistant[3:call_function_2,f,{}] tool[4:call_function_2,,(0:s)]`},
		{"reasoning, refusal", `[{"role":"assistant","content":"x","reasoning_content":"t","refusal":"no"}]`, "", "assistant[5:t 0:x 7:no]"},
		{"reasoning in parts", `[{"role":"assistant","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"},{"type":"text","text":"u"}]},{"type":"text","text":"x"}]}]`, "", "assistant[5:tu 0:x]"},
		{"reasoning in a part of one text, and in an empty one", `[{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"thinking","thinking":[]},{"type":"text","text":"x"}]}]`, "", "assistant[5:t 0:x]"},
		{"reasoning in a part and beside it", `[{"role":"assistant","reasoning_content":"t","content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]},{"type":"text","text":"x"}]}]`, "", "assistant[5:t 0:x]"},
		{"a part that thinks in nobody's turn", `[{"role":"user","content":[{"type":"thinking","thinking":"t"}]}]`, "", `user[8:thinking{"type":"thinking","thinking":"t"}]`},
		{"empty text is left out (K-96)", `[{"role":"user","content":""},{"role":"user","content":[{"type":"text","text":""},{"type":"text","text":"a"}]},{"role":"tool","tool_call_id":"a","content":""}]`, "", "user[] user[0:a] tool[4:a,,]"},
		{"cache_control (K-23)", `[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},{"role":"tool","tool_call_id":"a","content":"r","cache_control":{"type":"ephemeral"}}]`, "", `user[0:a{"type":"ephemeral"}] tool[4:a,,(0:r){"type":"ephemeral"}]`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c, err := decode(t, `{"model":"m","messages":`+r.messages+`}`).Conversation()
			if err != nil {
				t.Fatal(err)
			}
			var ms []string
			for _, m := range c.Messages {
				ms = append(ms, string(m.Role)+"["+parts(m.Parts)+"]")
			}
			if got := strings.Join(ms, " "); got != r.want || parts(c.System) != r.system {
				t.Errorf("\ngot  %s\nwant %s\nsystem %s", got, r.want, parts(c.System))
			}
		})
	}
}

func TestConversationOfMembers(t *testing.T) {
	rows := []struct {
		name, members string
		want          func(c *chat.Conversation) bool
	}{
		{"tools", `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true},"cache_control":{"type":"ephemeral"}},{"type":"custom","custom":{}}]`, func(c *chat.Conversation) bool {
			f := c.Tools[0]
			return f.Name == "f" && f.Description == "d" && string(f.Schema) == `{"type":"object"}` && f.Strict && len(f.CacheControl) > 0 && c.Tools[1].Raw != nil
		}},
		{"legacy functions", `"functions":[{"name":"f"}],"function_call":{"name":"f"}`, func(c *chat.Conversation) bool {
			return c.Tools[0].Name == "f" && c.ToolChoice == chat.ToolChoice{Mode: chat.ToolNamed, Name: "f"}
		}},
		{"choice auto", `"tool_choice":"auto"`, func(c *chat.Conversation) bool { return c.ToolChoice.Mode == chat.ToolAuto }},
		{"choice none", `"tool_choice":"none"`, func(c *chat.Conversation) bool { return c.ToolChoice.Mode == chat.ToolNone }},
		{"choice required", `"tool_choice":"required"`, func(c *chat.Conversation) bool { return c.ToolChoice.Mode == chat.ToolAny }},
		{"choice named", `"tool_choice":{"type":"function","function":{"name":"f"}}`, func(c *chat.Conversation) bool {
			return c.ToolChoice.Mode == chat.ToolNamed && c.ToolChoice.Name == "f"
		}},
		{"choice among some", `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`, func(c *chat.Conversation) bool {
			return c.ToolChoice.Mode == chat.ToolAny && slices.Equal(c.AllowedTools, []string{"f"})
		}},
		{"parallel", `"parallel_tool_calls":false`, func(c *chat.Conversation) bool { return c.ParallelTools != nil && !*c.ParallelTools }},
		{"numbers keep their text", `"temperature":0.30,"top_p":1e-1,"top_k":5,"presence_penalty":-2,"frequency_penalty":2.0,"seed":9007199254740993`, func(c *chat.Conversation) bool {
			p := c.Params
			return p.Temperature == "0.30" && p.TopP == "1e-1" && p.TopK == "5" && p.PresencePenalty == "-2" && p.FrequencyPenalty == "2.0" && p.Seed == "9007199254740993"
		}},
		{"stop as a string", `"stop":"a"`, func(c *chat.Conversation) bool { return len(c.Params.Stop) == 1 && c.Params.Stop[0] == "a" }},
		{"stop as a list", `"stop":["a","b"],"user":"u"`, func(c *chat.Conversation) bool { return len(c.Params.Stop) == 2 && c.Params.User == "u" }},
		{"effort", `"reasoning_effort":"xhigh"`, func(c *chat.Conversation) bool { return c.Params.Effort == "xhigh" }},
		{"a budget", `"reasoning":{"max_tokens":2000}`, func(c *chat.Conversation) bool { return c.Params.ThinkingBudget == 2000 }},
		{"reasoning off", `"reasoning":{"enabled":false}`, func(c *chat.Conversation) bool { return c.Params.Effort == "none" }},
		{"a schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}`, func(c *chat.Conversation) bool {
			return string(c.Params.Schema) == `{"type":"object"}` && c.Params.SchemaName == "n"
		}},
		{"text as format", `"response_format":{"type":"text"}`, func(c *chat.Conversation) bool { return len(c.Unmapped) == 0 }},
		{"what cannot be carried is named", `"logprobs":true,"n":2,"response_format":{"type":"grammar"},"store":null`, func(c *chat.Conversation) bool {
			return strings.Join(c.Unmapped, " ") == "logprobs n response_format"
		}},
		{"JSON mode", `"response_format":{"type":"json_object"}`, func(c *chat.Conversation) bool { return c.Params.JSONMode && c.Unmapped == nil }},
		{"a schema is loose unless it is said to be strict", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}`, func(c *chat.Conversation) bool { return c.Params.SchemaLoose }},
		{"a strict schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{}}}`, func(c *chat.Conversation) bool {
			return !c.Params.SchemaLoose
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c, err := decode(t, `{"model":"m",`+hi+`,`+r.members+`}`).Conversation()
			if err != nil {
				t.Fatal(err)
			}
			if !r.want(c) {
				t.Errorf("got %+v", c)
			}
		})
	}
}

func TestConversationRefusesByName(t *testing.T) {
	rows := []struct{ body, param string }{
		{`"messages":["hi"]`, "messages[0]"},
		{`"messages":[{"content":"hi"}]`, "messages[0].role"},
		{`"messages":[{"role":"robot","content":"hi"}]`, "messages[0].role"},
		{`"messages":[{"role":"user","content":7}]`, "messages[0].content"},
		{`"messages":[{"role":"user","content":[{"text":"a"}]}]`, "messages[0].content[0].type"},
		{`"messages":[{"role":"user","content":[{"type":"text"}]}]`, "messages[0].content[0].text"},
		{`"messages":[{"role":"user","content":[{"type":"image_url"}]}]`, "messages[0].content[0].image_url.url"},
		{`"messages":[{"role":"tool","content":"r"}]`, "messages[0].tool_call_id"},
		{`"messages":[{"role":"assistant","tool_calls":{}}]`, "messages[0].tool_calls"},
		{`"messages":[{"role":"assistant","tool_calls":[{}]}]`, "messages[0].tool_calls[0].id"},
		{`"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{}}]}]`, "messages[0].tool_calls[0].function.name"},
		{`"messages":[{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":7}}]}]`, "messages[0].tool_calls[0].function.arguments"},
		{`"messages":[{"role":"assistant","tool_calls":[{"id":"a","custom":{}}]}]`, "messages[0].tool_calls[0].custom.name"},
		{`"messages":[{"role":"assistant","refusal":7}]`, "messages[0].refusal"},
		{`"messages":[{"role":"assistant","reasoning":7}]`, "messages[0].reasoning"},
		{`"messages":[{"role":"assistant","reasoning_details":{}}]`, "messages[0].reasoning_details"},
		{`"messages":[{"role":"tool","tool_call_id":"a","is_error":"yes"}]`, "messages[0].is_error"},
		{`"messages":[{"role":"function","name":"f","content":"r"}]`, "messages[0]"},
		{hi + `,"tools":[{"type":"function","function":{"name":"f","description":7}}]`, "tools[0].function.description"},
		{hi + `,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`, "tools[0].function.parameters"},
		{hi + `,"functions":[{"name":"f","strict":1}]`, "functions[0].strict"},
		{hi + `,"thinking":{}`, "thinking.type"},
		{hi + `,"tools":{}`, "tools"},
		{hi + `,"tools":[{"type":"function"}]`, "tools[0].function.name"},
		{hi + `,"functions":[{}]`, "functions[0].name"},
		{hi + `,"tool_choice":"maybe"`, "tool_choice"},
		{hi + `,"tool_choice":{"type":"function"}`, "tool_choice"},
		{hi + `,"parallel_tool_calls":1`, "parallel_tool_calls"},
		{hi + `,"temperature":"hot"`, "temperature"},
		{hi + `,"stop":[1]`, "stop[0]"},
		{hi + `,"stop":1`, "stop"},
		{hi + `,"user":1`, "user"},
		{hi + `,"response_format":{"type":"json_schema"}`, "response_format.json_schema.schema"},
	}
	for _, r := range rows {
		_, err := decode(t, `{"model":"m",`+r.body+`}`).Conversation()
		var f *fault.Fault
		if !errors.As(err, &f) || f.Kind != fault.InvalidRequest || f.Param != r.param {
			t.Errorf("%s\ngave %v", r.body, err)
		}
	}
}
