package fake_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bardo.money/gateway/e2e/fake"
)

// decision has what flaws break: a range, an enumeration, required properties; strict is the same as providers enforce it.
const (
	decision = `{"type":"object","properties":{"action":{"type":"string","enum":["hold","exit"]},"confidence":{"type":"number","minimum":0,"maximum":1},` +
		`"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},"why":{"type":"array","items":{"type":"string"}},"note":{"type":["string","null"]}},"required":["action","confidence"]}`
	strict = `{"type":"object","properties":{"action":{"type":"string","enum":["hold","exit"]},"confidence":{"type":"number"},"note":{"type":["string","null"]}},` +
		`"required":["action","confidence","note"],"additionalProperties":false}`
)

// ways are the ways to ask for a form, by the provider's format.
var ways = []struct {
	about string
	cfg   fake.Config
	path  string // less :streamGenerateContent
	body  string // with %s for what asks for a stream
	tool  bool
	words bool
}{
	{
		about: "OpenAI's response_format", path: "/chat/completions", cfg: fake.Config{Dialect: fake.OpenAI},
		body: `{"model":"m"%s,"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":{"name":"d","schema":` + decision + `}}}`,
	},
	{
		about: "a tool of OpenAI's", path: "/chat/completions", cfg: fake.Config{Dialect: fake.OpenAI}, tool: true,
		body: `{"model":"m"%s,"messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"own"}},{"type":"function","function":{"name":"respond_d","parameters":` + decision + `}}],"tool_choice":"required"}`,
	},
	{
		about: "words to OpenAI's", path: "/chat/completions", cfg: fake.Config{Dialect: fake.OpenAI}, words: true,
		body: `{"model":"m"%s,"messages":[{"role":"system","content":` + words + `},{"role":"user","content":"hi"}]}`,
	},
	{
		about: "Responses' text.format", path: "/responses", cfg: fake.Config{Dialect: fake.OpenAI},
		body: `{"model":"m"%s,"input":"hi","text":{"format":{"type":"json_schema","name":"d","schema":` + decision + `}}}`,
	},
	{
		about: "a tool of Responses'", path: "/responses", cfg: fake.Config{Dialect: fake.OpenAI}, tool: true,
		body: `{"model":"m"%s,"input":"hi","tools":[{"type":"function","name":"respond_d","parameters":` + decision + `}]}`,
	},
	{
		about: "words to Responses", path: "/responses", cfg: fake.Config{Dialect: fake.OpenAI}, words: true,
		body: `{"model":"m"%s,"instructions":` + words + `,"input":"hi"}`,
	},
	{
		about: "Anthropic's output_config", path: "/messages", cfg: fake.Config{Dialect: fake.Anthropic},
		body: `{"model":"m","max_tokens":9%s,"messages":[{"role":"user","content":"hi"}],"output_config":{"format":{"type":"json_schema","schema":` + strict + `}}}`,
	},
	{
		about: "a forced tool of Anthropic's", path: "/messages", cfg: fake.Config{Dialect: fake.Anthropic}, tool: true,
		body: `{"model":"m","max_tokens":9%s,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"respond_d","input_schema":` + decision + `}],"tool_choice":{"type":"tool","name":"respond_d"}}`,
	},
	{
		about: "words to Anthropic's", path: "/messages", cfg: fake.Config{Dialect: fake.Anthropic}, words: true,
		body: `{"model":"m","max_tokens":9%s,"system":[{"type":"text","text":` + words + `}],"messages":[{"role":"user","content":"hi"}]}`,
	},
	{
		about: "Gemini's responseJsonSchema", path: "/models/m", cfg: fake.Config{Dialect: fake.Gemini},
		body: `{"contents":[{"parts":[{"text":"hi"}]}],"generation_config":{"response_mime_type":"application/json","response_json_schema":` + decision + `}}`,
	},
	{
		about: "a tool of Gemini's", path: "/models/m", cfg: fake.Config{Dialect: fake.Gemini}, tool: true,
		body: `{"contents":[{"parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"respond_d","parametersJsonSchema":` + decision + `}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}}`,
	},
	{
		about: "words to Gemini's", path: "/models/m", cfg: fake.Config{Dialect: fake.Gemini}, words: true,
		body: `{"systemInstruction":{"parts":[{"text":` + words + `}]},"contents":[{"parts":[{"text":"hi"}]}]}`,
	},
}

// words ask for the decision, as a JSON string.
var words = func() string {
	b, _ := json.Marshal("Be brief.\n\nRespond ONLY with valid JSON matching this structure:\n```json\n" + decision + "\n```\nDo not include any text outside the JSON block.")
	return string(b)
}()

// said is what an answer of any format says: its text, the arguments of its calls, and why it stopped.
type said struct {
	text, stop string
	args       []string
}

func answerTo(t *testing.T, s *fake.Server, d fake.Dialect, path, body string, stream bool) said {
	t.Helper()
	if d == fake.Gemini {
		path += map[bool]string{true: ":streamGenerateContent", false: ":generateContent"}[stream]
		status, answer := askGemini(t, s, path, s.Key, body)
		return read(t, status, answer, stream)
	}
	asks := ""
	if stream {
		asks = `,"stream":true`
	}
	status, answer := ask(t, s, path, strings.Replace(body, "%s", asks, 1))
	return read(t, status, answer, stream)
}

func read(t *testing.T, status int, answer string, stream bool) (out said) {
	t.Helper()
	if status != 200 {
		t.Fatalf("%d %s", status, answer)
	}
	if !stream {
		out.add(t, []byte(answer))
		return out
	}
	for line := range strings.Lines(answer) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.HasPrefix(data, "{") {
			out.add(t, []byte(data))
		}
	}
	return out
}

// add reads a body or an event of any format: each has members of its own.
func (s *said) add(t *testing.T, raw []byte) {
	t.Helper()
	s.addChat(t, raw)
	s.addMessage(t, raw)
	s.addResponse(t, raw)
	s.addGemini(t, raw)
}

// decode reads the members of one format. Members of another type belong to another format: they stay empty.
func decode(t *testing.T, raw []byte, to any) {
	t.Helper()
	var other *json.UnmarshalTypeError
	if err := json.Unmarshal(raw, to); err != nil && !errors.As(err, &other) {
		t.Fatalf("%v in %s", err, raw)
	}
}

// beginCall is for the arguments of one more call; appendArgs appends to those of the last.
func (s *said) beginCall(args string)  { s.args = append(s.args, args) }
func (s *said) appendArgs(args string) { s.args[len(s.args)-1] += args }

func (s *said) addChat(t *testing.T, raw []byte) {
	t.Helper()
	type message struct {
		Content   any
		ToolCalls []struct {
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	var v struct {
		Choices []struct {
			Message, Delta message
			Finish         string `json:"finish_reason"`
		}
	}
	decode(t, raw, &v)
	for _, c := range v.Choices {
		for _, m := range []message{c.Message, c.Delta} {
			if text, ok := m.Content.(string); ok {
				s.text += text
			}
			for _, call := range m.ToolCalls {
				if call.Function.Name != "" {
					s.beginCall("")
				}
				s.appendArgs(call.Function.Arguments)
			}
		}
		s.stop += c.Finish
	}
}

func (s *said) addMessage(t *testing.T, raw []byte) {
	t.Helper()
	var v struct {
		Content []struct {
			Type, Text string
			Input      json.RawMessage
		}
		Block struct{ Type string } `json:"content_block"`
		Delta struct {
			Text    string
			Partial string `json:"partial_json"`
			Stop    string `json:"stop_reason"`
		}
		Stop string `json:"stop_reason"`
	}
	decode(t, raw, &v)
	for _, b := range v.Content {
		s.text += b.Text
		if b.Type == "tool_use" {
			s.beginCall(compact(t, b.Input))
		}
	}
	if v.Block.Type == "tool_use" {
		s.beginCall("")
	}
	s.text += v.Delta.Text
	if v.Delta.Partial != "" {
		s.appendArgs(v.Delta.Partial)
	}
	s.stop += v.Stop + v.Delta.Stop
}

func (s *said) addResponse(t *testing.T, raw []byte) {
	t.Helper()
	type incomplete struct {
		Details struct{ Reason string } `json:"incomplete_details"`
	}
	var v struct {
		incomplete

		Type   string
		Delta  string
		Item   struct{ Type string }
		Output []struct {
			Type, Arguments string
			Content         []struct{ Text string }
		}
		Response incomplete
	}
	decode(t, raw, &v)
	switch v.Type {
	case "response.output_item.added":
		if v.Item.Type == "function_call" {
			s.beginCall("")
		}
	case "response.output_text.delta":
		s.text += v.Delta
	case "response.function_call_arguments.delta":
		s.appendArgs(v.Delta)
	}
	s.stop += v.Details.Reason + v.Response.Details.Reason
	for _, it := range v.Output {
		for _, p := range it.Content {
			s.text += p.Text
		}
		if it.Type == "function_call" {
			s.beginCall(it.Arguments)
		}
	}
}

func (s *said) addGemini(t *testing.T, raw []byte) {
	t.Helper()
	var v struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text string
					Call *struct{ Args json.RawMessage } `json:"functionCall"`
				}
			}
			Finish string `json:"finishReason"`
		}
	}
	decode(t, raw, &v)
	for _, c := range v.Candidates {
		for _, p := range c.Content.Parts {
			s.text += p.Text
			if p.Call != nil {
				s.beginCall(compact(t, p.Call.Args))
			}
		}
		s.stop += c.Finish
	}
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return b.String()
}

// valid is whether a text is JSON that a schema allows.
func valid(t *testing.T, schema, text string) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestAnswersByTheSchemaThatWasAskedFor(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(w.about, " ", stream), func(t *testing.T) {
				t.Parallel()
				s := fake.Start(t, w.cfg)
				got := answerTo(t, s, w.cfg.Dialect, w.path, w.body, stream)
				text := got.text
				if w.tool {
					if text != "" || len(got.args) != 1 {
						t.Fatalf("got %+v", got)
					}
					text = got.args[0]
				}
				if w.words {
					text = strings.TrimSuffix(strings.TrimPrefix(text, "```json\n"), "\n```")
				}
				if err := valid(t, decision, text); err != nil {
					t.Errorf("%v in %+v", err, got)
				}
				again := answerTo(t, s, w.cfg.Dialect, w.path, w.body, stream)
				if fmt.Sprint(again) != fmt.Sprint(got) {
					t.Errorf("then %+v, now %+v", got, again)
				}
			})
		}
	}
}

func TestWhatATestSaysComesBeforeTheForm(t *testing.T) {
	t.Parallel()
	w := ways[0]
	s := fake.Start(t, w.cfg)
	s.Queue(fake.Behaviour{Text: "no"}, fake.Behaviour{ToolCalls: []fake.ToolCall{{Name: "own", Args: "{}"}}}, fake.Behaviour{JSON: `{"action":"exit"}`})
	if got := answerTo(t, s, w.cfg.Dialect, w.path, w.body, true); got.text != "no" {
		t.Errorf("got %+v", got)
	}
	if got := answerTo(t, s, w.cfg.Dialect, w.path, w.body, true); got.text != "" || len(got.args) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := answerTo(t, s, w.cfg.Dialect, w.path, w.body, true); got.text != `{"action":"exit"}` {
		t.Errorf("got %+v", got)
	}
}

// TestFlaws: each is there, in every format, in text and in calls, streamed or not.
func TestFlaws(t *testing.T) {
	t.Parallel()
	cut := map[string]string{"/chat/completions": "length", "/responses": "max_output_tokens", "/messages": "max_tokens", "/models/m": "MAX_TOKENS"}
	for _, w := range ways {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(w.about, " ", stream), func(t *testing.T) {
				t.Parallel()
				s := fake.Start(t, w.cfg)
				answer := func(f fake.Flaw) said {
					s.Queue(fake.Behaviour{Flaw: f})
					return answerTo(t, s, w.cfg.Dialect, w.path, w.body, stream)
				}
				first := func(got said) string {
					if w.tool && len(got.args) > 0 {
						return got.args[0]
					}
					return strings.TrimSuffix(strings.TrimPrefix(got.text, "```json\n"), "\n```")
				}
				for _, row := range []struct {
					flaw  fake.Flaw
					holds string
				}{{fake.WrongRange, "1000000"}, {fake.WrongEnum, "none of these"}, {fake.ExtraField, "nobody_asked"}} {
					if got := first(answer(row.flaw)); !strings.Contains(got, row.holds) || !json.Valid([]byte(got)) {
						t.Errorf("flaw %d: %q", row.flaw, got)
					}
				}
				if got := first(answer(fake.MissingField)); strings.Contains(got, "action") || !json.Valid([]byte(got)) {
					t.Errorf("a missing field: %q", got)
				}
				if got := answer(fake.ExtraProse); !strings.HasPrefix(got.text, "Here is") || w.tool == (valid(t, decision, first(got)) != nil) {
					t.Errorf("prose around: %+v", got)
				}
				if got := answer(fake.Fenced); !strings.HasPrefix(got.text, "```json\n{") || !strings.HasSuffix(got.text, "}\n```") || got.args != nil {
					t.Errorf("fenced: %+v", got)
				}
				if got := answer(fake.TwoObjects); w.tool && (len(got.args) != 2 || got.args[0] == got.args[1]) || !w.tool && strings.Count(got.text, `"action"`) != 2 {
					t.Errorf("two objects: %+v", got)
				}
				if got := answer(fake.ProseOnly); strings.Contains(got.text, "{") || got.text == "" || got.args != nil {
					t.Errorf("prose alone: %+v", got)
				}
				if got := answer(fake.Truncated); !strings.Contains(got.stop, cut[w.path]) || !w.tool && json.Valid([]byte(first(got))) {
					t.Errorf("truncated: %+v", got)
				}
				objects := w.tool && (w.cfg.Dialect == fake.Gemini || w.cfg.Dialect == fake.Anthropic && !stream) // have no place for it
				if got := first(answer(fake.TrailingComma)); !objects && !strings.HasSuffix(got, ",}") {
					t.Errorf("a trailing comma: %q", got)
				}
				if got := first(answer(fake.Flawless)); strings.Contains(got, "nobody_asked") || !json.Valid([]byte(got)) {
					t.Errorf("flawless: %q", got)
				}
			})
		}
	}
}

// object is a schema in which all of some properties are required.
func object(properties string) string {
	var of map[string]json.RawMessage
	_ = json.Unmarshal([]byte("{"+properties+"}"), &of) // it is ours
	var names []string
	for name := range of {
		names = append(names, `"`+name+`"`)
	}
	return `{"type":"object","properties":{` + properties + `},"required":[` + strings.Join(names, ",") + `]}`
}

func TestRefusesSchemasAsTheRealProvidersDo(t *testing.T) {
	t.Parallel()
	const hi = `"messages":[{"role":"user","content":"hi"}]`
	chat := func(schema string) string {
		return `{"model":"m",` + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"d","strict":true,"schema":` + schema + `}}}`
	}
	message := func(model, schema, more string) string {
		return `{"model":"` + model + `","max_tokens":9,` + hi + more + `,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`
	}
	const m = "claude-sonnet-4-5"
	for _, c := range []struct {
		about, path, body string
		d                 fake.Dialect
		says              string // "": it is taken
	}{
		{"what is strict", "/chat/completions", chat(strict), fake.OpenAI, ""},
		{"an open object", "/chat/completions", chat(`{"type":"object","properties":{}}`), fake.OpenAI, "'additionalProperties' is required to be supplied and to be false"},
		{"an optional property", "/chat/completions", chat(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`), fake.OpenAI, "Missing 'a'"},
		{"deep inside", "/chat/completions", chat(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`), fake.OpenAI, "context=('properties', 'a', 'items')"},
		{"a keyword", "/chat/completions", chat(`{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`), fake.OpenAI, "'minLength' is not permitted"},
		{"a format", "/chat/completions", chat(`{"type":"object","properties":{"a":{"type":"string","format":"uri"}},"required":["a"],"additionalProperties":false}`), fake.OpenAI, "'uri' is not a valid format"},
		{"no object", "/chat/completions", chat(`{"type":"array","items":{"type":"string"}}`), fake.OpenAI, "type: \\\"object\\\""},
		{"no name", "/chat/completions", `{"model":"m",` + hi + `,"response_format":{"type":"json_schema","json_schema":{"schema":{}}}}`, fake.OpenAI, "json_schema.name"},
		{"what is not strict", "/chat/completions", `{"model":"m",` + hi + `,"response_format":{"type":"json_schema","json_schema":{"name":"d","schema":` + decision + `}}}`, fake.OpenAI, ""},
		{"JSON that nobody mentions", "/chat/completions", `{"model":"m",` + hi + `,"response_format":{"type":"json_object"}}`, fake.OpenAI, "must contain the word 'json'"},
		{"a strict tool", "/chat/completions", `{"model":"m",` + hi + `,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object"}}}]}`, fake.OpenAI, "Invalid schema for function 'f'"},
		{"Responses: an open object", "/responses", `{"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"d","strict":true,"schema":{"type":"object"}}}}`, fake.OpenAI, "to be false"},
		{"Responses: a strict tool", "/responses", `{"model":"m","input":"hi","tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object"}}]}`, fake.OpenAI, "Invalid schema for function 'f'"},

		{"what is enforced", "/messages", message(m, strict, ""), fake.Anthropic, ""},
		{"an optional property", "/messages", message(m, `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`, ""), fake.Anthropic, ""},
		{"an open object", "/messages", message(m, `{"type":"object"}`, ""), fake.Anthropic, "'additionalProperties' must be explicitly set to false"},
		{"a range", "/messages", message(m, `{"type":"object","properties":{"a":{"type":"number","minimum":0}},"additionalProperties":false}`, ""), fake.Anthropic, "property 'minimum' is not supported"},
		{"two items", "/messages", message(m, `{"type":"array","items":{"type":"string"},"minItems":2}`, ""), fake.Anthropic, "'minItems' values other than 0 or 1"},
		{"a schema in itself", "/messages", message(m, `{"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"additionalProperties":false}},"$ref":"#/$defs/n"}`, ""), fake.Anthropic, "Recursive schemas are not supported"},
		{"one that is used twice", "/messages", message(m, `{"$defs":{"n":{"type":"string"}},"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"additionalProperties":false}`, ""), fake.Anthropic, ""},
		{"a model without it", "/messages", message("claude-sonnet-4-20250514", strict, ""), fake.Anthropic, "does not support structured outputs"},
		{"an answer that is begun", "/messages", strings.Replace(message(m, strict, ""), `"hi"}]`, `"hi"},{"role":"assistant","content":"So"}]`, 1), fake.Anthropic, "Prefilling"},
		{"a strict tool", "/messages", `{"model":"` + m + `","max_tokens":9,` + hi + `,"tools":[{"name":"f","strict":true,"input_schema":{"type":"object"}}]}`, fake.Anthropic, "tools.0.custom"},
		{"seventeen unions", "/messages", message(m, object(unions(17))[:len(object(unions(17)))-1]+`,"additionalProperties":false}`, ""), fake.Anthropic, "union types"},
		{"a forced tool and thinking", "/messages", `{"model":"` + m + `","max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":1024},` + hi + `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"}}`, fake.Anthropic, "Thinking may not be enabled when tool_choice forces tool use"},

		{"a schema and functions", "/models/gemini-2.5-pro:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"responseMimeType":"application/json"}}`, fake.Gemini, "is unsupported"},
		{"both in the third generation", "/models/gemini-3-pro:generateContent", `{"contents":[{"parts":[{"text":"hi"}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}],"generationConfig":{"responseMimeType":"application/json"}}`, fake.Gemini, ""},
	} {
		t.Run(string(c.d)+" "+c.about, func(t *testing.T) {
			t.Parallel()
			s := fake.Start(t, fake.Config{Dialect: c.d})
			status, body := ask(t, s, c.path, c.body)
			if c.d == fake.Gemini {
				status, body = askGemini(t, s, c.path, s.Key, c.body)
			}
			if want := map[bool]int{true: 200, false: 400}[c.says == ""]; status != want || !strings.Contains(body, c.says) {
				t.Errorf("%d %s, want %d with %q", status, body, want, c.says)
			}
		})
	}
}

func unions(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"p%d":{"type":["string","null"]}`, i))
	}
	return strings.Join(all, ",")
}
