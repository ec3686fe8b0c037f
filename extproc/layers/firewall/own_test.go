package firewall_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/layers/firewall"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/formats"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
)

// own is a call of a provider's own tool in its format, and its result.
type own struct {
	from     chat.Dialect
	offer    string // the tool in a request
	item     string // with the word SECRET in its arguments
	result   string // "": the client executes it
	name     string // the variable tool of conditions
	offered  string // the name in the record
	argument string // a condition that holds for its arguments
}

var ownCalls = []own{
	{chat.Responses, `{"type":"local_shell"}`, `{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["cat","SECRET"],"env":{}}}`, "", "local_shell", "local_shell", "args.command[1] == 'SECRET'"},
	{chat.Responses, `{"type":"shell"}`, `{"type":"shell_call","id":"sh_1","call_id":"call_1","status":"completed","action":{"commands":["cat SECRET"]}}`, `{"type":"shell_call_output","id":"sho_1","call_id":"call_1","output":[{"stdout":"RESULT"}]}`, "shell", "shell", "args.commands[0].contains('SECRET')"},
	{chat.Responses, `{"type":"computer_use_preview","display_width":1,"display_height":1,"environment":"browser"}`, `{"type":"computer_call","id":"cu_1","call_id":"call_1","status":"completed","action":{"type":"type","text":"SECRET"},"pending_safety_checks":[]}`, "", "computer", "computer_use_preview", "args.text == 'SECRET'"},
	{chat.Responses, `{"type":"computer"}`, `{"type":"computer_call","id":"cu_1","call_id":"call_1","status":"completed","actions":[{"type":"type","text":"SECRET"}]}`, "", "computer", "computer", "args.actions[0].text == 'SECRET'"},
	{chat.Responses, `{"type":"apply_patch"}`, `{"type":"apply_patch_call","id":"ap_1","call_id":"call_1","status":"completed","operation":{"type":"delete_file","path":"SECRET"}}`, "", "apply_patch", "apply_patch", "args.path == 'SECRET'"},
	{chat.Responses, `{"type":"mcp","server_label":"git","server_url":"https://a.example"}`, `{"type":"mcp_call","id":"mcp_1","server_label":"git","name":"drop","arguments":"{\"repo\":\"SECRET\"}","output":"RESULT"}`, "", "mcp/git/drop", "mcp", "args.repo == 'SECRET'"},
	{chat.Responses, `{"type":"mcp","server_label":"git","server_url":"https://a.example"}`, `{"type":"mcp_approval_request","id":"mcpr_1","server_label":"git","name":"drop","arguments":"{\"repo\":\"SECRET\"}"}`, "", "mcp/git/drop", "mcp", "args.repo == 'SECRET'"},
	{chat.Responses, `{"type":"web_search_preview_2025_03_11"}`, `{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"SECRET"}}`, "", "web_search", "web_search_preview_2025_03_11", "args.query == 'SECRET'"},
	{chat.Responses, `{"type":"code_interpreter","container":{"type":"auto"}}`, `{"type":"code_interpreter_call","id":"ci_1","status":"completed","container_id":"c","code":"SECRET","outputs":[]}`, "", "code_interpreter", "code_interpreter", "args.code == 'SECRET'"},
	{chat.Responses, `{"type":"image_generation"}`, `{"type":"image_generation_call","id":"ig_1","status":"completed","revised_prompt":"SECRET","result":"` + strings.Repeat("QUJD", 270_000) + `"}`, "", "image_generation", "image_generation", "args.revised_prompt == 'SECRET'"},
	{chat.Anthropic, `{"type":"web_search_20250305","name":"web_search"}`, `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"SECRET"}}`, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"RESULT"}]}`, "web_search", "web_search", "args.query == 'SECRET'"},
	{chat.Anthropic, `{"type":"code_execution_20250825","name":"code_execution"}`, `{"type":"server_tool_use","id":"srvtoolu_1","name":"bash_code_execution","input":{"command":"SECRET"}}`, `{"type":"bash_code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"stdout":"RESULT"}}`, "bash_code_execution", "code_execution", "args.command == 'SECRET'"},
	{chat.Anthropic, `{"type":"mcp_toolset","mcp_server_name":"git"}`, `{"type":"mcp_tool_use","id":"mcptoolu_1","name":"drop","server_name":"git","input":{"repo":"SECRET"}}`, `{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[{"type":"text","text":"RESULT"}]}`, "mcp/git/drop", "mcp_toolset", "args.repo == 'SECRET'"},
	{chat.Gemini, `{"codeExecution":{}}`, `{"executableCode":{"language":"PYTHON","code":"SECRET"}}`, `{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"RESULT"}}`, "code_execution", "codeExecution", "args.code == 'SECRET'"},
	{chat.Gemini, `{"googleSearch":{}}`, `{"toolCall":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["SECRET"]}}}`, `{"toolResponse":{"id":"t1","toolType":"GOOGLE_SEARCH_WEB","response":{"a":"RESULT"}}}`, "google_search_web", "googleSearch", "args.queries[0] == 'SECRET'"},
}

func (o own) String() string { return string(o.from) + " " + o.name }

// answer is the answer with the call between two texts, and with a call of the client's tool get_price at its end.
func (o own) answer(streamed bool) string {
	items := []string{o.item}
	if o.result != "" {
		items = append(items, o.result)
	}
	list := strings.Join(items, ",")
	switch {
	case o.from == chat.Responses:
		return responsesAnswer(streamed, items)
	case o.from == chat.Anthropic && streamed:
		return anthropicStream(items)
	case o.from == chat.Anthropic:
		return `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"I look."},` + list + `,{"type":"text","text":"Found."},` +
			`{"type":"tool_use","id":"toolu_9","name":"get_price","input":{"of":"ETH"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":4}}`
	case streamed:
		part := func(parts, finish string) string {
			return `data: {"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + finish + `,"index":0}],"modelVersion":"m","responseId":"r1"}` + "\n\n"
		}
		return part(`{"text":"I look."}`, "") + part(list, "") + part(`{"text":"Found."},{"functionCall":{"name":"get_price","args":{"of":"ETH"}}}`, `,"finishReason":"STOP"`)
	}
	return `{"candidates":[{"content":{"parts":[{"text":"I look."},` + list + `,{"text":"Found."},{"functionCall":{"name":"get_price","args":{"of":"ETH"}}}],"role":"model"},"finishReason":"STOP","index":0}],"modelVersion":"m","responseId":"r1"}`
}

const ownCall, ownText = `{"type":"function_call","id":"fc_9","call_id":"call_9","name":"get_price","arguments":"{\"of\":\"ETH\"}","status":"completed"}`,
	`{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"%s","annotations":[]}]}`

func responsesAnswer(streamed bool, items []string) string {
	all := append(append([]string{fmt.Sprintf(ownText, "I look.")}, items...), strings.ReplaceAll(fmt.Sprintf(ownText, "Found."), "msg_1", "msg_2"), ownCall)
	whole := `{"id":"resp_1","object":"response","model":"m","status":"completed","output":[` + strings.Join(all, ",") + `],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
	if !streamed {
		return whole
	}
	var b strings.Builder
	seq := 0
	event := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, seq, fmt.Sprintf(format, args...))
		seq++
	}
	event("response.created", `"response":{"id":"resp_1","object":"response","model":"m","status":"in_progress","output":[]}`)
	for i, item := range all {
		event("response.output_item.added", `"output_index":%d,"item":%s`, i, strings.ReplaceAll(strings.ReplaceAll(item, "completed", "in_progress"), `{\"of\":\"ETH\"}`, ""))
		if strings.Contains(item, "mcp_call") {
			event("response.mcp_call_arguments.delta", `"output_index":%d,"item_id":"mcp_1","delta":%q`, i, `{"repo":"SECRET"}`)
		}
		event("response.output_item.done", `"output_index":%d,"item":%s`, i, item)
	}
	event("response.completed", `"response":%s`, whole)
	return b.String()
}

func anthropicStream(items []string) string {
	var b strings.Builder
	frame := func(kind, format string, args ...any) {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, fmt.Sprintf(format, args...))
	}
	frame("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}`)
	for i, item := range append(append([]string{`{"type":"text","text":"I look."}`}, items...), `{"type":"text","text":"Found."}`, `{"type":"tool_use","id":"toolu_9","name":"get_price","input":{"of":"ETH"}}`) {
		before, input, found := strings.Cut(strings.TrimSuffix(item, "}"), `"input":`)
		if found {
			item = before + `"input":{}}`
		}
		frame("content_block_start", `,"index":%d,"content_block":%s`, i, item)
		if found {
			frame("content_block_delta", `,"index":%d,"delta":{"type":"input_json_delta","partial_json":%q}`, i, input[:3])
			frame("content_block_delta", `,"index":%d,"delta":{"type":"input_json_delta","partial_json":%q}`, i, input[3:])
		}
		frame("content_block_stop", `,"index":%d`, i)
	}
	frame("message_delta", `,"delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":4}`)
	frame("message_stop", "")
	return b.String()
}

// ownExchange is a request that offers the tool of a call and get_price, in the format of the call's provider or in another.
func (o own) exchange(t testing.TB, to chat.Dialect, streamed bool, rules ...firewall.Rule) *pipeline.Exchange {
	t.Helper()
	body := requests[to]
	if !streamed {
		body = strings.Replace(body, `"stream":true`, `"stream":false`, 1)
	}
	if to == o.from {
		body = strings.Replace(body, `"tools":[`, `"tools":[`+o.offer+",", 1)
	}
	dialect, method := dialects[to], map[bool]string{true: "streamGenerateContent", false: "generateContent"}[streamed]
	if a, ok := dialect.(wire.Addressed); ok {
		dialect = a.ForPath("/v1beta/models/m:"+method, map[bool]string{true: "alt=sse"}[streamed])
	}
	r, err := dialect.Decode(chat.Generate, header.List{}, "", []byte(strings.Replace(body, "%s", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	x := &pipeline.Exchange{ID: "req_1", Request: r}
	if err := pipeline.New(firewall.Layer{Rules: rules}).Request(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

// judged passes an answer through the layer, and encodes it for the client.
func judged(t testing.TB, x *pipeline.Exchange, from chat.Dialect, streamed bool, body string, cuts ...int) (string, error) {
	t.Helper()
	if streamed {
		return pass(t, x, from, body, cuts...)
	}
	events := formats.NewDecoder(from, x.Request, 200, header.List{{Name: "content-type", Value: "application/json"}}).Decode([]byte(body), true)
	enc := dialects[x.Request.Dialect].NewEncoder(wire.Options{Same: from == x.Request.Dialect, RequestID: "r1", Created: 1, MayChange: x.MayChange, Request: x.Request})
	if x.MayChange {
		chat.MarkCalls(events)
	}
	var out []byte
	for i := range events {
		if events[i].Kind == chat.Error {
			t.Fatalf("the answer cannot be read: %+v", events[i].Err)
		}
		passed, err := x.Response(t.Context(), &events[i])
		if err != nil {
			return string(out), err
		}
		for j := range passed {
			out = enc.Append(out, &passed[j])
		}
	}
	return string(out), nil
}

func names(s string) rule.Names { return rule.Names{s} }

// TestF03CallsOfProvidersOwnToolsAreJudged: streamed or not, by each name of the tool, and by the arguments.
func TestF03CallsOfProvidersOwnToolsAreJudged(t *testing.T) {
	t.Parallel()
	for _, o := range ownCalls {
		for _, streamed := range []bool{true, false} {
			body := o.answer(streamed)
			for about, row := range map[string]struct {
				rule firewall.Rule
				why  string // "": it is allowed
			}{
				"by its name":            {firewall.Rule{Tools: names(o.name), Condition: condition(t, "false")}, "condition"},
				"by the offered name":    {firewall.Rule{Tools: names(o.offered), Condition: condition(t, "false")}, "condition"},
				"of another name":        {firewall.Rule{Tools: names("transfer"), Condition: condition(t, "false")}, ""},
				"by its arguments":       {firewall.Rule{Tools: names(o.name), Condition: condition(t, "!("+o.argument+")")}, "condition"},
				"arguments that fit":     {firewall.Rule{Tools: names(o.name), Condition: condition(t, o.argument+" && tool == '"+o.name+"'")}, ""},
				"all are allowed":        {firewall.Rule{Allow: names("*")}, ""},
				"the offer is allowed":   {firewall.Rule{Allow: rule.Names{o.offered, "get_price"}}, ""},
				"offered, with a schema": {firewall.Rule{OwnSchema: true}, ""},
			} {
				row.rule.ID = "r"
				x := o.exchange(t, o.from, streamed, row.rule)
				x.Tags = nil // those of the tools
				got, err := judged(t, x, o.from, streamed, body, len(body)/3, len(body)/2)
				if err != nil {
					t.Fatal(err)
				}
				o.check(t, fmt.Sprintf("%s, streamed %v, %s", o, streamed, about), x, got, row.why, body)
			}
		}
	}
}

func (o own) check(t *testing.T, about string, x *pipeline.Exchange, got, why, body string) {
	t.Helper()
	want := policy.Tag{By: "firewall", Stage: policy.StageCall, Tool: o.offered, Decision: policy.DecisionAllowed}
	if why != "" {
		want.Rule, want.Decision, want.Reason = "r", policy.DecisionRemoved, why
	}
	if !slices.Contains(x.Tags, want) || x.Holding {
		t.Errorf("%s: %+v, want %+v", about, x.Tags, want)
	}
	if why == "" && got != body {
		t.Errorf("%s: the answer is changed: %.3000s\nwant %.3000s", about, got, body)
	}
	if why != "" && (strings.Contains(got, "SECRET") || strings.Contains(got, "RESULT") || strings.Count(got, `removed a call of the tool \"`+o.name) < 1) {
		t.Errorf("%s: the client gets %.3000s", about, got)
	}
	if !strings.Contains(got, "I look.") || !strings.Contains(got, "Found.") || !strings.Contains(got, "get_price") {
		t.Errorf("%s: the client does not get the rest: %.3000s", about, got)
	}
}

// TestF03OwnCallsOfEachProviderForEachClient: calls that the client's format cannot express are judged, too.
func TestF03OwnCallsOfEachProviderForEachClient(t *testing.T) {
	t.Parallel()
	for _, o := range ownCalls {
		for _, to := range all {
			x := o.exchange(t, to, true, firewall.Rule{ID: "r", Tools: names(o.name), Condition: condition(t, "false")})
			got, err := judged(t, x, o.from, true, o.answer(true))
			if err != nil || strings.Contains(got, "SECRET") || strings.Contains(got, "RESULT") || !strings.Contains(got, `removed a call of the tool`) {
				t.Errorf("%s for %s: %v %.2000s", o, to, err, got)
			}
			s := read(t, to, got)
			if len(s.calls) != 1 || s.reason != chat.StopTool || s.calls[0].name != "get_price" {
				t.Errorf("%s for %s: %+v", o, to, s)
			}
		}
	}
}

// TestF03NothingOfAnOwnCallIsSentBeforeItIsJudged, wherever the stream is split; and a refused call ends the answer.
func TestF03NothingOfAnOwnCallIsSentBeforeItIsJudged(t *testing.T) {
	t.Parallel()
	for _, o := range ownCalls {
		body := o.answer(true)
		if len(body) > 100_000 {
			continue
		}
		for at := 0; at < len(body); at += 53 {
			x := o.exchange(t, o.from, true, firewall.Rule{ID: "r", Tools: names(o.name), Condition: condition(t, "false"), OnViolation: firewall.Refuse})
			got, err := judged(t, x, o.from, true, body, at)
			if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.ToolRefused || !strings.Contains(f.Public, o.name) {
				t.Fatalf("%s, cut at %d: %v", o, at, err)
			}
			if strings.Contains(got, "SECRET") || strings.Contains(got, "RESULT") || !strings.Contains(got, "I look.") {
				t.Fatalf("%s, cut at %d: %s", o, at, got)
			}
		}
	}
}

// TestF03AServersToolIsNotAllowedByTheNameThatTheServerGivesIt: an MCP server may give its tool the name of a client's tool.
func TestF03AServersToolIsNotAllowedByTheNameThatTheServerGivesIt(t *testing.T) {
	t.Parallel()
	for _, o := range ownCalls {
		if !strings.HasPrefix(o.name, "mcp/") {
			continue
		}
		for about, row := range map[string]struct {
			rule firewall.Rule
			why  string
		}{
			"its own name is allowed": {firewall.Rule{Allow: rule.Names{"drop", "get_price"}}, "not_allowed"},
			"its own name is denied":  {firewall.Rule{Deny: names("drop")}, "denied"},
			"its server is denied":    {firewall.Rule{Deny: names("mcp/git/*")}, "denied"},
			"another is denied":       {firewall.Rule{Deny: names("mcp/hub/*")}, ""},
			"all servers are allowed": {firewall.Rule{Allow: rule.Names{"mcp", "mcp_toolset", "get_price"}}, ""},
		} {
			row.rule.ID = "r"
			x := o.exchange(t, o.from, true, row.rule)
			x.Tags = nil
			if _, err := judged(t, x, o.from, true, o.answer(true)); err != nil {
				t.Fatal(err)
			}
			if x.Tags[0].Reason != row.why {
				t.Errorf("%s, %s: %+v", o, about, x.Tags)
			}
		}
	}
}

// TestF03OwnCallsThatCannotBeReadAreViolations: JSON that parsers read differently must not be allowed.
func TestF03OwnCallsThatCannotBeReadAreViolations(t *testing.T) {
	t.Parallel()
	for item, why := range map[string]string{
		`{"type":"local_shell_call","id":"l","call_id":"c","action":{"command":["ls"]},"action":{"command":["SECRET"]}}`:        "invalid_arguments",
		`{"type":"local_shell_call","id":"l","call_id":"c","action":{"command":["ls"]},"Action":{"command":["SECRET"]}}`:        "invalid_arguments",
		`{"type":"local_shell_call","id":"l","call_id":"c","action":{"command":["ls"],"command":["SECRET"]}}`:                   "invalid_arguments",
		`{"type":"local_shell_call","id":"l","call_id":"c","action":"{\"command\":[\"SECRET\"]"}`:                               "invalid_arguments",
		`{"type":"local_shell_call","id":"l","call_id":"c","action":{"command":["` + strings.Repeat("x", rule.MaxArgs) + `"]}}`: "too_large",
		`{"type":"new_thing_call","id":"l","action":{"command":["rm"]}}`:                                                        "condition",
	} {
		x := ownCalls[0].exchange(t, chat.Responses, false, firewall.Rule{ID: "r", Condition: condition(t, "tool == 'get_price' || args.command == ['ls']")})
		x.Tags = nil
		got, err := judged(t, x, chat.Responses, false, responsesAnswer(false, []string{item}))
		if err != nil || x.Tags[0].Reason != why || strings.Contains(got, "SECRET") {
			t.Errorf("%.200s: %v %+v", item, err, x.Tags)
		}
	}
}

// TestF03ACustomToolAndACallOfAnotherTypeAreJudged: in the Chat format, whose calls are all in one list.
func TestF03ACustomToolAndACallOfAnotherTypeAreJudged(t *testing.T) {
	t.Parallel()
	for call, name := range map[string]string{
		`{"index":0,"id":"call_1","type":"custom","custom":{"name":"sql","input":"SECRET"}}`:       "sql",
		`{"index":0,"id":"call_1","type":"web_search","web_search":{"query":"SECRET"}}`:            "web_search",
		`{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"SECRET"}}`: "f",
	} {
		body := `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"I look.","tool_calls":[` + call + `]},"finish_reason":null}]}` + "\n\n" +
			`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
		x := exchange(t, chat.OpenAI, "", firewall.Rule{ID: "r", Deny: names(name)})
		x.Tags = nil
		got, err := pass(t, x, chat.OpenAI, body)
		if err != nil || strings.Contains(got, "SECRET") || len(x.Tags) != 1 || x.Tags[0].Reason != "denied" || !strings.Contains(got, "I look.") {
			t.Errorf("%s: %v %+v %s", name, err, x.Tags, got)
		}
	}
}
