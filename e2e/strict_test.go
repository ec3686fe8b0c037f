package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// strictLab is a gateway with a provider of each format; each has a model of its own name.
type strictLab struct {
	*gateway.Gateway
	fakes map[string]*fake.Server
}

func newStrictLab(t *testing.T) strictLab {
	t.Helper()
	l := strictLab{fakes: map[string]*fake.Server{}}
	o := gateway.Options{Config: quick}
	for _, p := range []struct {
		id     string
		format fake.Dialect
		more   string
	}{{"chat", fake.OpenAI, ""}, {"claude", fake.Anthropic, ""}, {"gemini", fake.Gemini, ""}, {"responses", fake.OpenAI, "responses: true"}} {
		f := fake.Start(t, fake.Config{Dialect: p.format, Name: p.id, Allow: []string{"x_new"}})
		f.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 100_000}})
		l.fakes[p.id] = f
		o.Providers = append(o.Providers, gateway.Provider{
			ID: p.id, Fake: f, Format: string(p.format), Models: models("m-"+p.id, ""), More: p.more,
		})
	}
	l.Gateway = gateway.Run(t, o)
	return l
}

func (l strictLab) asked() (n int) {
	for _, f := range l.fakes {
		n += len(f.Calls())
	}
	return n
}

// strictClient is a client of one endpoint: what its requests hold besides the members of a test.
type strictClient struct {
	dialect    fake.Dialect
	path, body string // "%s" is where a test's members go
	header     []string
}

var strictClients = map[string]strictClient{
	"chat":        {fake.OpenAI, "/v1/chat/completions", `{"model":"m-chat",%s,"messages":[{"role":"user","content":"hi"}]}`, nil},
	"responses":   {fake.OpenAI, "/v1/responses", `{"model":"m-responses",%s,"input":"hi"}`, nil},
	"completions": {fake.OpenAI, "/v1/completions", `{"model":"m-chat",%s,"prompt":"hi"}`, nil},
	"messages":    {fake.Anthropic, "/v1/messages", `{"model":"m-claude","max_tokens":100,%s,"messages":[{"role":"user","content":"hi"}]}`, []string{"anthropic-version: 2023-06-01"}},
	"gemini":      {fake.Gemini, geminiPath("m-gemini", true), `{%s,"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, nil},
}

func (c strictClient) call(members string) gateway.Call {
	return gateway.Call{Path: c.path, Header: c.header, Body: fmt.Sprintf(c.body, members)}
}

// strictRow is a request's members, which of them is refused, and at which text of the body that is.
type strictRow struct{ client, members, refused, at string }

func (l strictLab) refuses(t *testing.T, rows []strictRow) {
	t.Helper()
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, r := range rows {
		t.Run(r.client+" "+r.members, func(t *testing.T) {
			c := strictClients[r.client]
			call := c.call(r.members)
			call.Key = key
			got := l.Do(t, call)
			mustFail(t, ask{dialect: c.dialect}, got, http.StatusBadRequest, "invalid_request")
			column := strings.LastIndex(call.Body, r.at) + 1
			if want := fmt.Sprintf("at line 1, column %d", column); !strings.Contains(got.Body, r.refused) || !strings.Contains(got.Body, want) {
				t.Errorf("%s does not name %s %s", got.Body, r.refused, want)
			}
		})
	}
	if n, left := l.asked(), balanceOf(t, l.Gateway, key); n != 0 || left != 1_000_000 {
		t.Errorf("%d requests reached a provider, %d of 1000000 are left", n, left)
	}
}

// TestD85DuplicateMembersAreRefused: of two members of one name, a provider may take the one that the gateway did not look at: it would
// count no usage, think longer or answer at greater length than what was reserved and charged. So it is refused wherever the name means
// something, in every client's format and in whatever spelling, with the member's name and place.
func TestD85DuplicateMembersAreRefused(t *testing.T) {
	t.Parallel()
	newStrictLab(t).refuses(t, []strictRow{
		{"chat", `"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`, "stream_options.include_usage is given twice", `"include_usage":false`},
		{"chat", `"stream":true,"stream_options":{"include_usage":true,"include_us\u0061ge":false}`, "stream_options.include_usage is given twice", `"include_us\u0061ge"`},
		{"chat", `"stream":true,"stream":false`, "stream is given twice", `"stream":false`},
		{"chat", `"reasoning":{"effort":"low","max_tokens":5,"effort":"high"}`, "reasoning.effort is given twice", `"effort":"high"`},
		{"chat", `"thinking":{"type":"disabled","type":"enabled"}`, "thinking.type is given twice", `"type":"enabled"`},
		{"chat", `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"strict":false,"schema":{}}}`, "response_format.json_schema.strict is given twice", `"strict":false`},
		{"chat", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"properties":{"a":{"type":"string","type":"number"}}}}}`, "response_format.json_schema.schema.properties.a.type is given twice", `"type":"number"`},
		{"chat", `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f","name":"g"}}]`, "tools[1].function.name is given twice", `"name":"g"`},
		{"chat", `"provider":{"data_collection":"deny","data_collection":"allow"}`, "provider.data_collection is given twice", `"data_collection":"allow"`},
		{"chat", `"usage":{"include":true,"include":false}`, "usage.include is given twice", `"include":false`},
		{"chat", `"service_tier":"flex","service_tier":"priority"`, "service_tier is given twice", `"service_tier":"priority"`},
		{"chat", `"chat_template_kwargs":{"enable_thinking":false,"enable_thinking":true}`, "chat_template_kwargs.enable_thinking is given twice", `"enable_thinking":true`},
		{"chat", `"bardo":{"tick":1,"tick":2}`, "bardo.tick is given twice", `"tick":2`},
		{"chat", `"x_new":[{"a":{"b":1}},{"a":{"b":1,"b":2}}]`, "x_new[1].a.b is given twice", `"b":2`},
		{"chat", `"messages":[{"role":"user","content":"cheap"}]`, "messages is given twice", `"messages":[{"role":"user","content":"hi"`},
		{"completions", `"stream":true,"stream_options":{"include_usage":true,"include_usage":false}`, "stream_options.include_usage is given twice", `"include_usage":false`},
		{"completions", `"best_of":1,"best_of":20`, "best_of is given twice", `"best_of":20`},
		{"responses", `"text":{"format":{"type":"text","type":"json_object"}}`, "text.format.type is given twice", `"type":"json_object"`},
		{"responses", `"reasoning":{"effort":"low","effort":"high"}`, "reasoning.effort is given twice", `"effort":"high"`},
		{"responses", `"tools":[{"type":"function","name":"f","parameters":{},"parameters":{}}]`, "tools[0].parameters is given twice", `"parameters":{}}]`},
		{"responses", `"conversation":{"id":"a","id":"b"}`, "conversation.id is given twice", `"id":"b"`},
		{"responses", `"input":[{"role":"user","content":[{"type":"input_text","text":"hi","text":"ho"}]}]`, "input[0].content[0].text is given twice", `"text":"ho"`},
		{"messages", `"thinking":{"type":"enabled","budget_tokens":1024,"budget_tokens":90000}`, "thinking.budget_tokens is given twice", `"budget_tokens":90000`},
		{"messages", `"max_tokens":90000`, "max_tokens is given twice", `"max_tokens":90000`},
		{"messages", `"output_config":{"effort":"low","effort":"max"}`, "output_config.effort is given twice", `"effort":"max"`},
		{"messages", `"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral","ttl":"5m","ttl":"1h"}}]`, "system[0].cache_control.ttl is given twice", `"ttl":"1h"`},
		{"messages", `"metadata":{"user_id":"a","user_id":"b"}`, "metadata.user_id is given twice", `"user_id":"b"`},
		{"gemini", `"generationConfig":{"maxOutputTokens":10,"maxOutputTokens":90000}`, "generationConfig.maxOutputTokens is given twice", `"maxOutputTokens":90000`},
		{"gemini", `"generationConfig":{"maxOutputTokens":10,"max_output_tokens":90000}`, "generationConfig.max_output_tokens is given twice, also as maxOutputTokens", `"max_output_tokens"`},
		{"gemini", `"generation_config":{"maxOutputTokens":10},"generationConfig":{"maxOutputTokens":90000}`, "generationConfig is given twice, also as generation_config", `"generationConfig"`},
		{"gemini", `"generationConfig":{"thinkingConfig":{"thinkingBudget":0,"thinking_budget":24000}}`, "thinkingConfig.thinking_budget is given twice", `"thinking_budget"`},
		{"gemini", `"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","any_of":[],"anyOf":[]}}]}]`, "functionDeclarations[0].parameters.anyOf is given twice", `"anyOf"`},
	})
}

// TestD85MembersThatDifferOnlyByCaseAreRefused: some servers match names without regard to case, and the gateway would not have looked
// at what they take.
func TestD85MembersThatDifferOnlyByCaseAreRefused(t *testing.T) {
	t.Parallel()
	newStrictLab(t).refuses(t, []strictRow{
		{"chat", `"Model":"dear"`, "Model is not a member: names are case-sensitive, write model", `"Model"`},
		{"chat", `"MODE\u004c":"dear"`, "MODEL is not a member", `"MODE\u004c"`},
		{"chat", `"stream":true,"Stream_Options":{"include_usage":false}`, "write stream_options", `"Stream_Options"`},
		{"chat", `"stream":true,"stream_options":{"Include_Usage":false}`, "stream_options.Include_Usage is not a member: names are case-sensitive, write include_usage", `"Include_Usage"`},
		{"chat", `"\u017ftream":true`, "write stream", `"\u017ftream"`},
		{"chat", `"toK\u0131ens":1,"max_to` + "\u212a" + `ens":90000`, "write max_tokens", `"max_to`},
		{"chat", `"stream\u0000x":true`, "write stream", `"stream\u0000x"`},
		{"chat", `"provider":{"Data_Collection":"allow"}`, "provider.Data_Collection is not a member", `"Data_Collection"`},
		{"chat", `"bardo":{"Subsystem":"risk","subsystem":"session"}`, "bardo.subsystem is given twice, also as Subsystem", `"subsystem"`},
		{"completions", `"Best_Of":20`, "write best_of", `"Best_Of"`},
		{"responses", `"Max_Output_Tokens":90000`, "write max_output_tokens", `"Max_Output_Tokens"`},
		{"responses", `"reasoning":{"Effort":"high"}`, "reasoning.Effort is not a member", `"Effort"`},
		{"messages", `"MAX_TOKENS":90000`, "write max_tokens", `"MAX_TOKENS"`},
		{"messages", `"thinking":{"type":"enabled","budget_tokens":1024,"Budget_Tokens":90000}`, "thinking.Budget_Tokens is not a member", `"Budget_Tokens"`},
		{"gemini", `"generationConfig":{"maxoutputtokens":90000}`, "generationConfig.maxoutputtokens is not a member: names are case-sensitive, write maxOutputTokens", `"maxoutputtokens"`},
		{"gemini", `"GenerationConfig":{"maxOutputTokens":90000}`, "write generationConfig", `"GenerationConfig"`},
		{"gemini", `"generationConfig":{"maxOutput_Tokens":90000}`, "write maxOutputTokens", `"maxOutput_Tokens"`},
	})
}

// TestD85NumbersThatSomeReadersDoNotTakeAreRefused: a limit in a notation that one reader takes for a number and another does not, or that
// does not fit, is no limit to rely on.
func TestD85NumbersThatSomeReadersDoNotTakeAreRefused(t *testing.T) {
	t.Parallel()
	l := newStrictLab(t)
	for _, r := range []struct{ client, members, field string }{
		{"chat", `"max_tokens":9e4`, "max_tokens"},
		{"chat", `"max_completion_tokens":4096.0`, "max_completion_tokens"},
		{"chat", `"n":1e1`, "n"},
		{"chat", `"reasoning":{"max_tokens":9e4}`, "reasoning.max_tokens"},
		{"chat", `"reasoning":{"max_tokens":99999999999999999999}`, "reasoning.max_tokens"},
		{"chat", `"thinking":{"type":"enabled","budget_tokens":"90000"}`, "thinking.budget_tokens"},
		{"responses", `"max_output_tokens":1e400`, "max_output_tokens"},
		{"messages", `"thinking":{"type":"enabled","budget_tokens":9e4}`, "thinking.budget_tokens"},
		{"gemini", `"generationConfig":{"maxOutputTokens":"9e4"}`, "generationConfig.maxOutputTokens"},
		{"gemini", `"generationConfig":{"thinkingConfig":{"thinkingBudget":9e4}}`, "generationConfig.thinkingConfig.thinkingBudget"},
	} {
		t.Run(r.client+" "+r.members, func(t *testing.T) {
			c := strictClients[r.client]
			got := l.Do(t, c.call(r.members))
			mustFail(t, ask{dialect: c.dialect}, got, http.StatusBadRequest, "invalid_request")
			if name := r.field[strings.LastIndexByte(r.field, '.')+1:]; !strings.Contains(got.Body, name) {
				t.Errorf("%s does not name %s", got.Body, r.field)
			}
		})
	}
	if n := l.asked(); n != 0 {
		t.Errorf("%d requests reached a provider", n)
	}
}

// TestNamesThatClientsChooseAreTheirOwn: what a schema's properties, a tool's arguments, metadata and tokens are called is up to the
// client, and passes byte by byte.
func TestNamesThatClientsChooseAreTheirOwn(t *testing.T) {
	t.Parallel()
	l := newStrictLab(t)
	schema := `{"type":"object","properties":{"Model":{"type":"string"},"model":{"type":"string"},"TYPE":{"type":"string","default":{"a":1,"a":2}},"type":{"enum":[{"a":1,"A":2}]}},` +
		`"$defs":{"Items":{},"items":{}},"x-Note":{"Type":1,"type":2}}`
	for _, r := range []struct{ client, at, members string }{
		{"chat", "chat", `"metadata":{"Model":"a","model":"b","A":"1","A":"2"},"logit_bias":{"1":1,"01":2},"tools":[{"type":"function","function":{"name":"f","parameters":` + schema + `}}]`},
		{"chat", "chat", `"x_new":{"Role":1,"role":2,"Model":[{"model":1,"Model":2}]}`},
		{"messages", "claude", `"tools":[{"name":"f","input_schema":` + schema + `}]`},
		{"responses", "responses", `"metadata":{"Model":"a","model":"b"},"tools":[{"type":"function","name":"f","parameters":` + schema + `}]`},
		{"gemini", "gemini", `"labels":{"Model":"a","model":"b"},"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":` + schema + `}]}]`},
	} {
		t.Run(r.client, func(t *testing.T) {
			call := strictClients[r.client].call(r.members)
			got := l.Do(t, call)
			if got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			if sent := string(lastOf(t, l.fakes[r.at]).Body); !strings.Contains(sent, r.members) {
				t.Errorf("the provider got %s", sent)
			}
		})
	}
	history := `[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"Role":1,"role":2,"a":1,"a":2}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"done"}]}]`
	got := l.Do(t, gateway.Call{
		Path: "/v1/messages", Header: []string{"anthropic-version: 2023-06-01"},
		Body: `{"model":"m-claude","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":` + history + `}`,
	})
	if sent := string(lastOf(t, l.fakes["claude"]).Body); got.Status != http.StatusOK || !strings.Contains(sent, history) {
		t.Errorf("%d %s: the provider got %s", got.Status, got.Body, sent)
	}
}

// TestStreamOptionsAreWrittenWhole: usage is asked for in an object of the gateway's own, which keeps what else the client says there.
func TestStreamOptionsAreWrittenWhole(t *testing.T) {
	t.Parallel()
	l := newStrictLab(t)
	for said, want := range map[string]string{
		`{"include_usage":false}`:                                      `"stream_options":{"include_usage":true}`,
		`{ "include_usage" : null , "include_obfuscation" : false }`:   `"stream_options":{ "include_obfuscation" : false,"include_usage":true }`,
		`{"include_obfuscation":false,"include_usage":false,"x":[1 ]}`: `"stream_options":{"include_obfuscation":false,"x":[1 ],"include_usage":true}`,
		`{"include_us\u0061ge":false}`:                                 `"stream_options":{"include_usage":true}`,
		`{}`:                                                           `"stream_options":{"include_usage":true}`,
		`null`:                                                         `"stream_options":{"include_usage":true}`,
		`{ "include_usage" : true }`:                                   `"stream_options":{ "include_usage" : true }`, // it says so itself
	} {
		t.Run(said, func(t *testing.T) {
			got := l.Do(t, strictClients["chat"].call(`"stream":true,"stream_options":`+said))
			if sent := string(lastOf(t, l.fakes["chat"]).Body); got.Status != http.StatusOK || !strings.Contains(sent, want) {
				t.Errorf("%d: the provider got %s, want %s", got.Status, sent, want)
			}
			if r := recordOf(t, l.Gateway, got); r.OutputTokens != 100_000 {
				t.Errorf("the record is %+v", r)
			}
		})
	}
}
