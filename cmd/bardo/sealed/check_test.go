package sealed

import (
	"errors"
	"strings"
	"testing"

	"bardo.money/gateway/policy/privacy"
)

const schema = `"response_format":{"type":"json_schema","json_schema":{"name":"bid","schema":{"type":"object"}}}`

// with is a valid request with further top-level members.
func with(more string) string {
	if more != "" {
		more += ","
	}
	return `{` + more + `"model":"sealed",` + schema + `,"messages":[{"role":"user","content":"hi"}]}`
}

// saying is a valid request with other messages.
func saying(messages string) string {
	return `{"model":"sealed",` + schema + `,"messages":` + messages + `}`
}

func TestP06WhatStaysInsideOfAnEnclaveIsSent(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		with(""),
		with(`"max_tokens":7,"max_completion_tokens":50,"stream":true,"stream_options":{"include_usage":true},"temperature":0.1,"stop":["x"],"user":"g1"`),
		with(`"tools":[],"functions":null,"tool_choice":null,"web_search_options":null,"audio":null,"enable_search":null,"stream":null`),
		with(`"venice_parameters":null`),
		with(`"venice_parameters":{"enable_web_search":"off","enable_web_scraping":false,"enable_web_citations":null,"strip_thinking_response":true}`),
		with(`"venice_parameters":{"enable_web_search":false}`),
		with(`"venice_parameters":{"include_venice_system_prompt":false,"no_system_prompt":true,"character_slug":"sober-analyst"}`),
		saying(`[{"role":"system","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"c","name":"n"}]`),
	} {
		a, err := parseRequest([]byte(body))
		if err != nil || a.model != "sealed" {
			t.Errorf("%s: %+v, %v", body, a, err)
		}
		if more := strings.Contains(body, `"max_completion_tokens"`); more && (a.maxTokens != 50 || !a.stream) || !more && (a.maxTokens != 0 || a.stream) {
			t.Errorf("%s: read as %+v", body, a)
		}
	}
}

// TestP06WhatCouldLeaveAnEnclaveIsNotSent: each request lacks what its tier requires, or has a forbidden or unknown member.
func TestP06WhatCouldLeaveAnEnclaveIsNotSent(t *testing.T) {
	t.Parallel()
	for constraint, bodies := range map[privacy.Constraint][]string{
		privacy.StructuredOutputRequired: {
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}]}`,
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"response_format":null}`,
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_object"}}`,
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema"}}`,
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":true}}}`,
			`{"model":"sealed","messages":[{"role":"user","content":"hi"}],"response_format":{"type":"text","json_schema":{"name":"x","schema":{}}}}`,
		},
		privacy.ToolCallingAllowed: {
			with(`"tools":[{"type":"function"}]`), with(`"tools":{"type":"function"}`), with(`"tools":"x"`), with(`"functions":[{"name":"x"}]`), with(`"tool_choice":"auto"`), with(`"mcp_servers":[{}]`),
			with(`"to\u006fls":[{}]`), with(`"plugins":[{"id":"web"}]`),
			saying(`[{"role":"tool","tool_call_id":"a","content":"x"}]`), saying(`[{"role":"function","name":"a","content":"x"}]`),
			saying(`[{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}]`), saying(`[{"role":"assistant","content":null,"function_call":{"name":"a"}}]`),
		},
		privacy.WebSearchAllowed: {
			with(`"web_search_options":{}`), with(`"search_parameters":{"mode":"auto"}`), with(`"enable_search":true`),
			with(`"venice_parameters":{"enable_web_search":"auto"}`), with(`"venice_parameters":{"enable_web_search":true}`), with(`"venice_parameters":{"enable_web_search":1}`),
			with(`"venice_parameters":{"enable_web_search":{}}`), with(`"venice_parameters":{"enable_web_search":"OFF"}`), with(`"venice_parameters":{"enable_web_scraping":true}`),
			with(`"venice_parameters":{"enable_x_search":true}`), with(`"venice_parameters":{"enable_web_citations":"on"}`), with(`"venice_parameters":{"enable_\u0077eb_scraping":true}`),
		},
		privacy.FileUploadAllowed: {
			saying(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]}]`), saying(`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"file","file":{}}]}]`),
			saying(`[{"role":"user","content":["a"]}]`), saying(`[{"role":"user","content":[{"text":"a"}]}]`), saying(`[{"role":"assistant","content":"a","audio":{"id":"x"}}]`), with(`"modalities":["audio"]`), with(`"audio":{}`),
			saying(`[{"role":"user","content":"a","images":["aGk="]}]`),
		},
		privacy.Met: {
			``, `[1]`, `null`, `7`, `{}`, with("") + `{}`, with(`"model":"other"`), with(`"m\u006fdel":"other"`), saying(`[]`), saying(`null`), saying(`{}`), saying(`[[]]`), saying(`["a"]`),
			with(`"Tools":[{}]`), with(`"Model":"other"`), with(`"extra":1`), with(`"store":true`), with(`"stream":"yes"`), with(`"max_tokens":"7"`), with(`"max_tokens":-7`), with(`"max_completion_tokens":1.5`),
			with(`"venice_parameters":[1]`), with(`"venice_parameters":{"Enable_web_search":"auto"}`), with(`"venice_parameters":{"enable_web_search":"off","enable_web_search":"on"}`), with(`"venice_parameters":{"next_year":true}`),
			saying(`[{"role":"user","content":{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}}]`), saying(`[{"role":"user","content":{"type":"text","text":"a"}}]`), saying(`[{"role":"user","content":7}]`),
			saying(`[{"role":"user"}]`), saying(`[{"content":"a"}]`), saying(`[{"role":"user","content":"a","content":[{"type":"file"}]}]`), saying(`[{"role":"user","content":"a","Content":[{"type":"file"}]}]`),
			saying(`[{"role":"user","content":[{"type":"text","text":"a","type":"file"}]}]`), saying(`[{"role":"user","content":[{"type":"text","text":"a","image_url":{}}]}]`), saying(`[{"role":"user","content":[{"type":"text","text":{}}]}]`),
			`{"model":"","messages":[]}`, `{"model":7,"messages":[]}`,
		},
	} {
		for _, body := range bodies {
			_, err := parseRequest([]byte(body))
			if bad, ok := errors.AsType[errRequest](err); !ok || bad.constraint != constraint || bad.text == "" || !strings.Contains(bad.Error(), string(constraint)) {
				t.Errorf("%s: %v, want an error of %q", body, err, constraint)
			}
		}
	}
}
