package crossing_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/jsonx"
)

// shaping is a dialect whose requests are shaped, and a generator of its requests.
type shaping struct {
	dialect wire.Dialect
	make    func(m *requestGenerator) string
}

var geminiDialect = gemini.Dialect{}.ForPath("/v1beta/models/gemini-x:generateContent", "")

var shapings = []shaping{
	{openai.Dialect{}, (*requestGenerator).openai},
	{openai.Dialect{}, (*requestGenerator).legacyFunctions},
	{completions.Dialect{}, (*requestGenerator).completion},
	{anthropic.Dialect{}, (*requestGenerator).anthropicAny},
	{responses.Dialect{}, (*requestGenerator).responses},
	{geminiDialect, (*requestGenerator).gemini},
}

// legacyFunctions returns a request with legacy functions.
func (m *requestGenerator) legacyFunctions() string {
	return `{"model":"gpt","messages":[{"role":"user","content":"` + m.text() + `"}],"functions":[{"name":"f"` +
		m.pick("", `,"parameters":{"type":"object"}`) + `}]` + m.pick("", `,"function_call":"auto"`, `,"function_call":{"name":"f"}`) + `}`
}

func (m *requestGenerator) completion() string {
	return `{"model":"gpt","prompt":"` + m.text() + `"` + m.pick("", `,"temperature":0.30`) + `}`
}

// anthropicAny returns a request that may contain a prefill, or set a format by its old name.
func (m *requestGenerator) anthropicAny() string {
	body := m.anthropic()
	if m.r.IntN(4) == 0 {
		body = strings.Replace(body, `,"tools":[`, m.pick(`, "output_format": {"type":"json_schema","schema":{"type":"object"}}`, ``)+`,"tools":[`, 1)
	}
	if m.r.IntN(6) == 0 {
		return `{"model":"claude","max_tokens":50,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":` +
			m.pick(`"So"`, `[{"type":"text","text":"So"}]`) + `}]}`
	}
	return body
}

func (m *requestGenerator) responses() string {
	b := `{"model":"gpt"` + m.pick("", `,"instructions":"`+m.text()+`"`)
	b += `,"input":` + m.pick(`"`+m.text()+`"`, `[{"role":"user","content":"`+m.text()+`"}]`,
		`[{"type":"message","role":"developer","content":"x"}, {"role":"user","content":[{"type":"input_text","text":"`+m.text()+`"}]},{"role":"assistant","content":"a"},{"role":"user","content":"b"} ]`)
	b += m.pick("", `,"text":{"verbosity":"low"}`, `,"text":{"format":{"type":"text"},"verbosity":"low"}`,
		`,"text": { "verbosity" : "low" , "format" : {"type":"json_schema","name":"n","schema":{"type":"object"}} }`,
		`,"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}}}`)
	b += m.pick("", `,"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":false}]`+m.pick("", `,"tool_choice":"required"`, `,"tool_choice":{"type":"function","name":"f"}`))
	return b + m.pick("", `,"temperature":0.30`, `,"reasoning":{"effort":"low"}`) + `}`
}

func (m *requestGenerator) gemini() string {
	part := func() string { return `{"text":"` + m.text() + `"}` }
	user := func() string { return `{"role":"user","parts":[` + m.some(2, part) + `]}` }
	spell := func(one, other string) string { return `"` + m.pick(one, other) + `":` }
	b := `{"contents":` + m.pick(`[`+user()+`]`, user(), `[`+user()+`, {"role":"model","parts":[`+part()+`]},`+user()+`]`,
		`[`+user()+`,{"role":"model","parts":[`+part()+`]}]`, `{"parts":`+part()+`}`)
	b += m.pick("", `,`+spell("systemInstruction", "system_instruction")+m.pick(`{"parts":[`+part()+`]}`, `"`+m.text()+`"`, `{"parts":`+part()+`}`, `{"role":"user","parts":[`+part()+`,`+part()+`]}`))
	b += m.pick("", `,"tools":[{`+spell("functionDeclarations", "function_declarations")+`[{"name":"f","parameters":{"type":"OBJECT"}}]}]`, `,"tools":{"functionDeclarations":[{"name":"f"}]}`)
	if strings.Contains(b, `"name":"f"`) {
		b += m.pick("", `,`+spell("toolConfig", "tool_config")+`{`+spell("functionCallingConfig", "function_calling_config")+m.pick(`{"mode":"ANY"}`, `{"mode":"ANY","allowedFunctionNames":["f"]}`, `{"mode":"NONE"}`, `{}`)+`}`)
	}
	form := m.pick("", `"temperature": 0.30`, `"temperature" : 0.30 , `+spell("responseMimeType", "response_mime_type")+`"application/json", `+spell("responseSchema", "response_schema")+`{"type":"OBJECT"}, "topK": 5`,
		spell("responseMimeType", "response_mime_type")+`"application/json",`+spell("responseJsonSchema", "response_json_schema")+`{"type":"object"}`)
	if form != "" {
		b += `,` + spell("generationConfig", "generation_config") + `{` + form + `}`
	}
	return b + `}`
}

// shape returns a random shape.
func (m *requestGenerator) shape() *wire.Shape {
	s := &wire.Shape{Guide: m.pick("", "Respond \"so\".")}
	if m.maybe() {
		s.Schema, s.Name, s.Note = jsonx.Raw(m.pick(m.enforced(), m.schema())), "Answer", m.pick("", "what to say")
		s.Loose = m.maybe()
	}
	if m.maybe() {
		s.Tool = &chat.Tool{Name: "respond_x", Description: m.pick("", "Answer by it."), Schema: jsonx.Raw(m.enforced()), Strict: m.maybe()}
		s.Choice = wire.ToolChoice(m.r.IntN(4))
	}
	add := func(role chat.Role, text string) {
		s.Messages = append(s.Messages, chat.Message{Role: role, Parts: []chat.Part{{Kind: chat.PartText, Text: text}}})
	}
	switch m.r.IntN(4) {
	case 0:
		add(chat.RoleAssistant, `{"a":"wrong"}`)
		add(chat.RoleUser, "a is wrong")
	case 1:
		add(chat.RoleAssistant, "")
		add(chat.RoleUser, "say something")
	}
	return s
}

func (s shaping) read(t *testing.T, body string) *chat.Request {
	t.Helper()
	r, err := s.dialect.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if r.Turn != nil { // the converted request is shaped
		return r.Turn
	}
	return r
}

func shaped(t *testing.T, d wire.Dialect, r *chat.Request, s *wire.Shape) *chat.Request {
	t.Helper()
	out, err := d.(wire.Shaper).Shape(r, s) //nolint:forcetypeassert // every client's dialect is one
	if err != nil {
		t.Fatalf("%v: %s", err, r.Doc.Bytes)
	}
	if out.Conv != nil || out.Read == nil || !out.Edit.Empty() {
		t.Fatalf("%s cannot be read", out.Doc.Bytes)
	}
	return out
}

func conversation(t *testing.T, r *chat.Request) *chat.Conversation {
	t.Helper()
	c, err := r.Conversation()
	if err != nil {
		t.Fatalf("%v: %s", err, r.Doc.Bytes)
	}
	return c
}

func TestShapesOfRequests(t *testing.T) {
	for i, s := range shapings {
		t.Run(fmt.Sprint(i, " ", s.dialect.Name()), func(t *testing.T) {
			for seed := range uint64(400) {
				s.check(t, seed)
			}
		})
	}
}

func FuzzShapesOfRequests(f *testing.F) {
	f.Add(uint64(1000))
	f.Fuzz(func(t *testing.T, seed uint64) {
		for _, s := range shapings {
			s.check(t, seed)
		}
	})
}

func (s shaping) check(t *testing.T, seed uint64) {
	t.Helper()
	m := newGenerator(seed)
	body, shape := s.make(m), m.shape()
	r := s.read(t, body)
	before := slices.Clone(r.Doc.Bytes)
	result := shaped(t, s.dialect, r, shape)
	s.checkBytes(t, r, result, shape)
	s.checkRequest(t, r, result, shape)
	if !bytes.Equal(before, r.Doc.Bytes) {
		t.Fatalf("the request itself changed: %s", r.Doc.Bytes)
	}
	s.checkAgain(t, r)
}

// touched are the members that a shape may change.
var touched = map[chat.Dialect][]string{ //nolint:exhaustive // requests of the legacy format are converted to OpenAI's
	chat.OpenAI:    {"response_format", "tools", "functions", "tool_choice", "function_call", "parallel_tool_calls", "messages"},
	chat.Anthropic: {"output_config", "output_format", "tools", "tool_choice", "system", "messages"},
	chat.Responses: {"text", "tools", "tool_choice", "parallel_tool_calls", "instructions", "input"},
	chat.Gemini: {
		"generationConfig", "generation_config", "tools", "toolConfig", "tool_config", "systemInstruction", "system_instruction", "contents",
	},
}

// checkBytes checks that what a shape does not set keeps its bytes and its position.
func (s shaping) checkBytes(t *testing.T, r, result *chat.Request, shape *wire.Shape) {
	t.Helper()
	var was, is []string
	for _, of := range []struct {
		r   *chat.Request
		out *[]string
	}{{r, &was}, {result, &is}} {
		for _, member := range of.r.Doc.Members {
			if !slices.Contains(touched[r.Dialect], member.Key) {
				*of.out = append(*of.out, string(of.r.Doc.Bytes[member.KeyStart:member.End]))
			}
		}
	}
	if !slices.Equal(was, is) {
		t.Fatalf("%s\nbecame\n%s\nby %+v", r.Doc.Bytes, result.Doc.Bytes, shape)
	}
	if r.MaxTokens != result.MaxTokens || r.Stream != result.Stream || r.Model != result.Model {
		t.Fatalf("got %+v of %+v", result, r)
	}
}

// checkRequest checks that a request has its own content and the shape's.
func (s shaping) checkRequest(t *testing.T, r, result *chat.Request, shape *wire.Shape) {
	t.Helper()
	fresh := s.dialect
	if s.dialect.Name() == chat.Completions {
		fresh = openai.Dialect{} // the request was converted to Chat Completions
	}
	reread, err := fresh.Decode(chat.Generate, nil, "", result.Doc.Bytes)
	if err != nil {
		t.Fatalf("%v: %s", err, result.Doc.Bytes)
	}
	before, got := conversation(t, r), conversation(t, reread)
	want := *before
	want.Params.Schema, want.Params.SchemaName, want.Params.SchemaNote = shape.Schema, shape.Name, shape.Note
	if r.Dialect == chat.Anthropic || r.Dialect == chat.Gemini || len(shape.Schema) == 0 {
		want.Params.SchemaName, want.Params.SchemaNote = "", ""
	}
	want.Params.JSONMode = false
	if (r.Dialect == chat.OpenAI || r.Dialect == chat.Responses) && !shape.Same(r) {
		schema := jsonx.Value{Raw: shape.Schema}
		want.Params.SchemaLoose = len(shape.Schema) > 0 && (shape.Loose || !wire.Enforceable(schema, wire.ByOpenAI))
	}
	if shape.Tool != nil {
		tool := *shape.Tool
		tool.Strict = tool.Strict && r.Dialect != chat.Gemini
		want.Tools = append(slices.Clip(want.Tools), tool)
	}
	wantChoice(&want, r, shape)
	if shape.Guide != "" {
		at := len(want.System)
		if r.Dialect == chat.Responses { // system messages of the input follow the instructions
			at = min(at, map[bool]int{true: 1, false: 0}[r.Doc.Find("instructions") >= 0])
		}
		want.System = slices.Insert(slices.Clone(want.System), at, chat.Part{Kind: chat.PartText, Text: shape.Guide})
	}
	want.Messages = append(slices.Clip(want.Messages), shape.Messages...)
	began := begun(before)
	formatted := len(shape.Schema) > 0 || shape.Tool != nil || shape.Guide != ""
	if n := len(want.Messages); began && formatted && want.Messages[n-1].Role == chat.RoleAssistant && (r.Dialect == chat.Anthropic || r.Dialect == chat.Gemini) {
		want.Messages = append(want.Messages, chat.Message{Role: chat.RoleUser, Parts: wire.ContinueTurn().Parts})
	}
	if a, b := contentOf(got), contentOf(&want); a != b {
		t.Fatalf("%s\nbecame\n%s\nwhich says\n%s\nwant\n%s", r.Doc.Bytes, result.Doc.Bytes, a, b)
	}
}

// wantChoice applies the shape's tool choice to the expected conversation.
func wantChoice(want *chat.Conversation, r *chat.Request, shape *wire.Shape) {
	legacy := r.Doc.Find("functions") >= 0
	alone := want.ParallelTools
	switch no := false; shape.Choice {
	case wire.ChooseAuto:
		want.ToolChoice = chat.ToolChoice{}
	case wire.ChooseAny:
		want.ToolChoice = chat.ToolChoice{Mode: chat.ToolAny}
		if legacy {
			want.ToolChoice.Mode = chat.ToolAuto
		}
	case wire.ChooseShape:
		want.ToolChoice = chat.ToolChoice{Mode: chat.ToolNamed, Name: shape.Tool.Name}
		if r.Dialect != chat.Gemini && !legacy {
			alone = &no
		}
	case wire.KeepChoice:
	}
	want.ParallelTools = alone
}

// begun reports whether the client prefilled the answer.
func begun(c *chat.Conversation) bool {
	return c.Messages[len(c.Messages)-1].Role == chat.RoleAssistant
}

// contentOf returns the content of a conversation without the boundaries of its texts.
func contentOf(c *chat.Conversation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "choice %v, parallel %v\n", c.ToolChoice, c.ParallelTools != nil && !*c.ParallelTools)
	p := c.Params
	schema := p.Schema
	p.Schema = nil
	fmt.Fprintf(&b, "%+v, schema %s\n", p, schema)
	for _, t := range c.Tools {
		fmt.Fprintf(&b, "tool %s %q %s %v %s\n", t.Name, t.Description, t.Schema, t.Strict, t.CacheControl)
	}
	text := func(parts []chat.Part) {
		for _, p := range parts {
			if p.Kind == chat.PartText {
				b.WriteString(strings.Join(strings.Fields(p.Text), "") + string(p.CacheControl))
			} else {
				b.WriteString(partGist(p))
			}
		}
	}
	b.WriteString("system ")
	text(c.System)
	var last chat.Role
	for _, m := range c.Messages {
		if m.Role == chat.RoleTool {
			m.Role = chat.RoleUser
		}
		if len(strings.TrimSpace(textOf(m.Parts))) == 0 && !slices.ContainsFunc(m.Parts, func(p chat.Part) bool { return p.Kind != chat.PartText }) {
			continue
		}
		if m.Role != last {
			b.WriteString("\n" + string(m.Role) + " ")
			last = m.Role
		}
		text(m.Parts)
	}
	return b.String()
}

func textOf(parts []chat.Part) (text string) {
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// checkAgain checks that a second shape replaces the first, and that an empty shape removes the format and nothing else.
func (s shaping) checkAgain(t *testing.T, r *chat.Request) {
	t.Helper()
	d := s.dialect
	none := shaped(t, d, r, &wire.Shape{})
	one, two := &wire.Shape{Schema: jsonx.Raw(`{"type":"object","title":"a"}`), Name: "a"}, &wire.Shape{Schema: jsonx.Raw(`{"type":"object","title":"b"}`), Name: "b"}
	first := shaped(t, d, r, one)
	if begun(conversation(t, r)) || bytes.Contains(r.Doc.Bytes, []byte(`{"type":"text"}`)) { // a turn that was added stays, and plain text is no format to restore
		return
	}
	if a, b := shaped(t, d, first, two), shaped(t, d, r, two); !bytes.Equal(a.Doc.Bytes, b.Doc.Bytes) && !sameMembers(a, b) {
		t.Fatalf("%s\nshaped twice is\n%s\nand once\n%s", r.Doc.Bytes, a.Doc.Bytes, b.Doc.Bytes)
	}
	if a := shaped(t, d, first, &wire.Shape{}); !sameMembers(a, none) {
		t.Fatalf("%s\nless its form is\n%s\nand after another\n%s", r.Doc.Bytes, none.Doc.Bytes, a.Doc.Bytes)
	}
	if schema, _ := wire.SchemaOf(none); schema != nil {
		t.Fatalf("%s still asks for %s", none.Doc.Bytes, schema)
	}
	schema, name := wire.SchemaOf(r)
	if schema == nil && !bytes.Contains(r.Doc.Bytes, []byte("output_format")) {
		if !bytes.Equal(none.Doc.Bytes, r.Edit.AppendTo(nil, &r.Doc)) {
			t.Fatalf("%s\nbecame\n%s", r.Doc.Bytes, none.Doc.Bytes)
		}
		return
	}
	if schema == nil {
		return
	}
	if same := shaped(t, d, r, &wire.Shape{Schema: schema, Name: name}); !bytes.Equal(same.Doc.Bytes, r.Edit.AppendTo(nil, &r.Doc)) {
		t.Fatalf("%s\nasked for its own schema became\n%s", r.Doc.Bytes, same.Doc.Bytes)
	}
}

// sameMembers reports whether two requests have equal members, in any order.
func sameMembers(a, b *chat.Request) bool {
	var one, two map[string]json.RawMessage
	if json.Unmarshal(a.Doc.Bytes, &one) != nil || json.Unmarshal(b.Doc.Bytes, &two) != nil || len(one) != len(two) {
		return false
	}
	for key, v := range one {
		if !bytes.Equal(bytes.Join(bytes.Fields(v), nil), bytes.Join(bytes.Fields(two[key]), nil)) {
			return false
		}
	}
	return true
}

// TestTheNameOfASchemaCrosses: dialects without members for the name keep it for those that have them.
func TestTheNameOfASchemaCrosses(t *testing.T) {
	shape := &wire.Shape{Schema: jsonx.Raw(`{"type":"object","description":"what to say","properties":{},"additionalProperties":false}`), Name: "Answer", Note: "what to say"}
	for _, s := range []struct {
		dialect wire.Dialect
		body    string
	}{
		{anthropic.Dialect{}, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`},
		{geminiDialect, `{"contents":[{"parts":[{"text":"hi"}]}]}`},
	} {
		r := shaped(t, s.dialect, shaping{dialect: s.dialect}.read(t, s.body), shape)
		body, degraded, err := openai.EncodeRequest(nil, r, openai.RequestOptions{Model: "m"})
		if want := `"name":"Answer","description":"what to say"`; err != nil || len(degraded) > 0 || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s: %s, %v, %v", s.dialect.Name(), body, degraded, err)
		}
	}
	r := shaped(t, openai.Dialect{}, shaping{dialect: openai.Dialect{}}.read(t, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`), shape)
	for note, names := range map[string]string{"what to say": "[]", "something else": "[description]"} {
		r.Conv = nil
		conversation(t, r).Params.SchemaNote = note
		if _, degraded, err := anthropic.EncodeRequest(nil, r, anthropic.RequestOptions{Model: "m", StructuredOutputs: true}); err != nil || fmt.Sprint(degraded) != names {
			t.Errorf("%q: %v, %v", note, degraded, err)
		}
	}
}
