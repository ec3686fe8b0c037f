package profile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	anthropicprovider "bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/bankr"
	"bardo.money/gateway/extproc/provider/blockrun"
	"bardo.money/gateway/extproc/provider/deepseek"
	"bardo.money/gateway/extproc/provider/google"
	openaiprovider "bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/qwen"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/extproc/wire/responses"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/schema"
)

// seat is a model at a provider, and how its answers are kept to a form there.
type seat struct {
	about           string
	provider        policy.ProviderID
	model, upstream string
	adapter         provider.Adapter
	fake            fake.Config
	mode, forced    structured.Mode // as the schema is preferred, and where the tool is
}

// seats are pairs of a provider and a model, by name, with how each is asked for structured output, then and now (O-01).
var seats = []seat{
	{"Venice, Llama", "venice", "llama-3.3-70b", "", venice.Adapter{}, fake.Config{Vendor: fake.Venice}, structured.Enforced, structured.Tool},
	{"Venice, Qwen", "venice", "qwen3-235b-a22b-instruct", "", venice.Adapter{}, fake.Config{Vendor: fake.Venice}, structured.Enforced, structured.Tool},
	{"Venice, uncensored", "venice", "venice-uncensored", "", venice.Adapter{}, fake.Config{Vendor: fake.Venice}, structured.Enforced, structured.Tool},
	{"Venice, Claude", "venice", "claude-opus-4-6", "", venice.Adapter{}, fake.Config{Vendor: fake.Venice}, structured.Tool, structured.Tool},
	{"Venice, DeepSeek R1", "venice", "deepseek-reasoner", "deepseek-r1-671b", venice.Adapter{}, fake.Config{Vendor: fake.Venice}, structured.Prompted, structured.Prompted},
	{"Anthropic, before it had schemas", "anthropic", "claude-sonnet-4-0", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}, structured.Tool, structured.Tool},
	{"Anthropic (D-23)", "anthropic", "claude-sonnet-4-5", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}, structured.Enforced, structured.Tool},
	{"Anthropic, adaptive", "anthropic", "claude-opus-4-6", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}, structured.Enforced, structured.Tool},
	{"Anthropic, adaptive alone", "anthropic", "claude-opus-4-8", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}, structured.Enforced, structured.Tool},
	{"BlockRun, Claude", "blockrun", "claude-opus-4-6", "", blockrun.Adapter{}, fake.Config{Vendor: fake.BlockRun}, structured.Tool, structured.Tool},
	{"BlockRun, OpenAI", "blockrun", "gpt-5.1", "openai/gpt-5.1", blockrun.Adapter{}, fake.Config{Vendor: fake.BlockRun}, structured.Enforced, structured.Tool},
	{"OpenAI", "openai", "gpt-4.1", "", openaiprovider.Adapter{}, fake.Config{Dialect: fake.OpenAI}, structured.Enforced, structured.Tool},
	{"OpenAI, a model that reasons", "openai", "gpt-5", "", openaiprovider.Adapter{}, fake.Config{Dialect: fake.OpenAI}, structured.Enforced, structured.Tool},
	{"Bankr, Claude via Vertex", "bankr", "claude-sonnet-4-5", "", bankr.Adapter{}, fake.Config{Vendor: fake.Bankr}, structured.Tool, structured.Tool},
	{"Bankr, GPT via OpenRouter", "bankr", "gpt-5.1", "", bankr.Adapter{}, fake.Config{Vendor: fake.Bankr}, structured.Enforced, structured.Tool},
	{"OpenRouter, a model with it", "openrouter", "gpt-5.1", "openai/gpt-5.1", openrouter.Adapter{}, fake.Config{Vendor: fake.OpenRouter}, structured.Enforced, structured.Tool},
	{"OpenRouter, a model with tools alone", "openrouter", "claude-sonnet-4-0", "anthropic/claude-sonnet-4", openrouter.Adapter{}, fake.Config{Vendor: fake.OpenRouter}, structured.Tool, structured.Tool},
	{"DeepSeek", "deepseek", "deepseek-chat", "", deepseek.Adapter{}, fake.Config{Vendor: fake.DeepSeek}, structured.Tool, structured.Tool},
	{"Qwen", "qwen", "qwen-max", "", qwen.Adapter{}, fake.Config{Vendor: fake.Qwen}, structured.Tool, structured.Tool},
	{"Google", "google", "gemini-2.5-flash", "", google.Adapter{}, fake.Config{Dialect: fake.Gemini}, structured.Enforced, structured.Tool},
	{"Google, the third generation", "google", "gemini-3-pro-preview", "", google.Adapter{}, fake.Config{Dialect: fake.Gemini}, structured.Enforced, structured.Tool},
}

// lists are what providers say themselves, where the catalog knows nothing: models that Venice runs.
var lists = map[policy.ProviderID]catalog.List{"venice": {Format: catalog.FormVenice, Models: []config.Model{
	{ID: "venice-uncensored", Capabilities: []policy.Feature{policy.Tools, policy.StructuredOutputs}},
	{ID: "llama-3.3-70b", Capabilities: []policy.Feature{policy.Tools, policy.StructuredOutputs}},
	{ID: "qwen3-235b-a22b-instruct", Capabilities: []policy.Feature{policy.Tools, policy.StructuredOutputs}},
}}}

// listed is the embedded catalog with lists.
var listed = sync.OnceValue(func() *catalog.Catalog { return embedded().With(lists) })

func (s *seat) resolution() policy.Resolution {
	m := listed().At(s.provider, config.Model{ID: s.model, UpstreamID: s.upstream})
	return policy.Resolution{
		Provider: s.provider, Model: m.ID, Upstream: m.Upstream, MaxOutput: m.MaxOutput, Context: m.Context, Family: m.Family,
		Reasoning: m.Reasoning, Efforts: m.Thinking.Efforts, Control: m.Thinking.Control, FixedSampling: m.FixedSampling,
		AdaptiveThinking:  slices.Contains(m.Capabilities, policy.AdaptiveThinking),
		StructuredOutputs: slices.Contains(m.Capabilities, policy.StructuredOutputs), SchemaAlone: m.SchemaAlone,
		Features: m.Capabilities,
	}
}

// target is what the model can do to keep an answer to a form, for a request.
func (s *seat) target(to *policy.Resolution, req *chat.Request, c *chat.Conversation, preferTool bool) structured.Target {
	own, _ := wire.SchemaOf(req)
	return structured.Target{
		Enforces: to.StructuredOutputs && (!to.SchemaAlone || len(c.Tools) == 0), Tools: slices.Contains(to.Features, policy.Tools),
		Thinking: req.Thinking && to.Reasoning != "none", PreferTool: preferTool, ClientTools: len(c.Tools) > 0, ClientChoice: c.ToolChoice.Mode,
		Rules: structured.RulesOf(s.adapter.Dialect(*to, provider.Endpoint{}, req.Dialect)), Hinted: own == nil,
	}
}

// TestD23HowAnswersAreKeptToAForm: who enforces schemas, who is made to call a tool, and who is asked in the prompt (O-01).
func TestD23HowAnswersAreKeptToAForm(t *testing.T) {
	form := structured.Published("HeartbeatDecision")
	for _, s := range seats {
		to := s.resolution()
		req := decode(t, openai.Dialect{}, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		for prefers, want := range map[bool]structured.Mode{false: s.mode, true: s.forced} {
			if got := form.Plan(s.target(&to, req, &chat.Conversation{}, prefers)).Mode; got != want {
				t.Errorf("%s, tools preferred %v: %s, want %s", s.about, prefers, got, want)
			}
		}
	}
}

// TestK21K22AnswersInAFormAreLegal: whatever a client says, whatever its profile adds and whichever form is asked for, a request that its
// provider takes by itself is taken as it is asked for the form, again after a failed answer; the answer then follows the form, unless
// the client's own tools are called.
func TestK21K22AnswersInAFormAreLegal(t *testing.T) {
	servers := make([]*fake.Server, len(seats))
	for i := range seats {
		servers[i] = fake.Start(t, seats[i].fake)
	}
	r := rand.New(rand.NewPCG(21, 22))
	asked := map[string]int{}
	for range 2000 {
		i := r.IntN(len(seats))
		asked[askInAForm(t, r, &seats[i], servers[i])]++
	}
	for _, mode := range []string{"enforced", "tool", "prompted"} {
		if asked[mode] < 100 {
			t.Errorf("only %v requests were looked at", asked)
		}
	}
}

// askInAForm asks once and reports in which mode; "" for a request that is its client's own mistake.
func askInAForm(t *testing.T, r *rand.Rand, at *seat, s *fake.Server) string {
	t.Helper()
	d, body := anyClient(r)
	if d.Name() != chat.Gemini && r.IntN(3) == 0 {
		body = slices.Concat([]byte(`{"stream":true,`), body[1:])
	}
	req, err := d.Decode(chat.Generate, nil, "", body)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	to := at.resolution()
	if r.IntN(2) == 0 {
		req.Profile = anyProfile(r)
		req.Profile.Default.Schema = nil // which is what the form is for
		req.Thinking = req.Thinking || req.Profile.Default.Effort != "" || req.Profile.Locked.Effort != ""
	}
	before, err := at.adapter.Encode(nil, req, to, endpoint(at, s))
	if err != nil {
		return ""
	}
	if status, _ := sent(t, s, before); status != http.StatusOK {
		return ""
	}
	plan := planOf(t, r, at, &to, req)
	shape := anyShape(r, plan, req)
	again, err := d.(wire.Shaper).Shape(req, &shape) //nolint:forcetypeassert // every client's dialect is one
	if err != nil {
		t.Fatal(err)
	}
	call, err := at.adapter.Encode(nil, again, to, endpoint(at, s))
	if err != nil {
		t.Fatalf("%v in %s", err, again.Doc.Bytes)
	}
	status, answer := sent(t, s, call)
	if status != http.StatusOK {
		t.Fatalf("%s refuses %s\n%s\nof %s\nwith %+v\n%s", at.about, plan.Mode, call.Body, body, req.Profile, answer)
	}
	checkAnswer(t, at, again, to, plan, answer, string(call.Body))
	return plan.Mode.String()
}

// planOf is how the answer to a request is made to follow the request's own schema, or any.
func planOf(t *testing.T, r *rand.Rand, at *seat, to *policy.Resolution, req *chat.Request) *structured.Plan {
	t.Helper()
	c, err := req.Conversation()
	if err != nil {
		t.Fatal(err)
	}
	form := anyForm(t, r)
	if own, name := wire.SchemaOf(req); own != nil {
		if form, err = structured.Compile(name, own); err != nil {
			t.Fatal(err)
		}
	}
	return form.Plan(at.target(to, req, c, r.IntN(3) == 0))
}

// anyShape is the shape of a plan, at times with the messages that follow an invalid answer.
func anyShape(r *rand.Rand, plan *structured.Plan, req *chat.Request) (shape wire.Shape) {
	if plan.Shape != nil {
		shape = *plan.Shape
	} else {
		shape.Schema, shape.Name = wire.SchemaOf(req)
	}
	if r.IntN(3) == 0 {
		shape.Messages = []chat.Message{
			{Role: chat.RoleAssistant, Parts: []chat.Part{{Kind: chat.PartText, Text: pick(r, "", `{"a":1}`, "no JSON ")}}},
			{Role: chat.RoleUser, Parts: []chat.Part{{Kind: chat.PartText, Text: "It is wrong."}}},
		}
	}
	return shape
}

func endpoint(at *seat, s *fake.Server) provider.Endpoint {
	base := "/v1"
	if at.fake.Dialect == fake.Gemini {
		base = "/v1beta"
	}
	return provider.Endpoint{Provider: at.provider, BasePath: base, Key: secret.New(s.Key)}
}

func sent(t *testing.T, s *fake.Server, c *provider.Call) (status int, body string) {
	t.Helper()
	return answerAt(t, strings.TrimSuffix(strings.TrimSuffix(s.URL, "/v1"), "/v1beta"), c)
}

// checkAnswer reads the answer as its plan says, and checks that it follows the form.
func checkAnswer(t *testing.T, at *seat, req *chat.Request, to policy.Resolution, plan *structured.Plan, answer, asked string) {
	t.Helper()
	kind := "application/json"
	if req.Stream {
		kind = "text/event-stream"
	}
	dec := at.adapter.NewDecoder(req, to, provider.Endpoint{}, http.StatusOK, header.List{{Name: "content-type", Value: kind}})
	reader := plan.NewReader()
	var text []byte
	var stop chat.StopReason
	for _, ev := range dec.Decode([]byte(answer), true) {
		events := []chat.Event{ev}
		if reader != nil {
			events = reader.Read(&ev)
		}
		for i := range events {
			switch events[i].Kind { //nolint:exhaustive // of these an answer in a form consists
			case chat.Text:
				text = append(text, events[i].Text...)
			case chat.Stop:
				stop = events[i].Reason
			case chat.Error:
				t.Fatalf("%+v in %s", events[i].Err, answer)
			}
		}
	}
	if v := plan.Check(text, stop); !v.Valid() {
		t.Fatalf("%s, %s: %v\n%s\nread from\n%s\nasked by\n%s", at.about, plan.Mode, v.Issues, text, answer, asked)
	}
}

// anyForm is one of ours, or a caller's.
func anyForm(t *testing.T, r *rand.Rand) *structured.Schema {
	t.Helper()
	if all := schema.All(); r.IntN(2) == 0 {
		return structured.Published(all[r.IntN(len(all))].Name)
	}
	form, err := structured.Compile(pick(r, "", "answer", "An answer: yes"), anySchema(r, 0))
	if err != nil {
		t.Fatal(err)
	}
	return form
}

// anySchema is an object with members of all kinds, strict or not.
func anySchema(r *rand.Rand, depth int) jsonx.Raw {
	var properties, required []string
	for i := range 1 + r.IntN(4) {
		name := fmt.Sprintf(`"p%d"`, i)
		value := pick(
			r, `{"type":"string"}`, `{"type":"string","minLength":2,"maxLength":40}`, `{"type":"string","enum":["a","b"]}`, `{"type":["string","null"]}`,
			`{"type":"number","minimum":0,"maximum":1}`, `{"type":"integer"}`, `{"type":"boolean","description":"whether \"so\""}`,
			`{"type":"array","items":{"type":"integer","minimum":3},"minItems":2}`, `{"type":"string","format":"uri"}`, `{"type":"string","pattern":"^0x[0-9a-f]{4}$"}`,
			`{"anyOf":[{"type":"integer"},{"type":"null"}]}`,
		)
		if depth < 2 && r.IntN(4) == 0 {
			value = string(anySchema(r, depth+1))
		}
		properties = append(properties, name+":"+value)
		if r.IntN(3) > 0 {
			required = append(required, name)
		}
	}
	s := `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `]`
	return jsonx.Raw(s + pick(r, "", `,"additionalProperties":false`) + "}")
}

// anyClient is a request of any dialect.
func anyClient(r *rand.Rand) (wire.Dialect, []byte) {
	switch r.IntN(5) {
	case 0:
		return openai.Dialect{}, foreignBody(r)
	case 1:
		return responses.Dialect{}, responsesBody(r)
	case 2:
		return gemini.Dialect{}.ForPath("/v1beta/models/m:generateContent", ""), geminiBody(r)
	}
	return anthropic.Dialect{}, ownBody(r)
}

func responsesBody(r *rand.Rand) []byte {
	b := map[string]any{"model": "m", "input": pick[any](r, "hi", []any{map[string]any{"role": "user", "content": "hi"}})}
	maybeSay(r, b, "instructions", "Be brief.")
	maybeSay(r, b, "max_output_tokens", 2000)
	maybeSay(r, b, "reasoning", map[string]any{"effort": pick(r, "low", "high")})
	maybeSay(r, b, "text", map[string]any{"verbosity": "medium"})
	if r.IntN(2) == 0 {
		b["tools"] = []any{map[string]any{"type": "function", "name": "f", "parameters": map[string]any{"type": "object"}}}
		maybeSay(r, b, "tool_choice", pick(r, "auto", "none"))
	}
	raw, _ := json.Marshal(b) // of maps of plain values
	return raw
}

func geminiBody(r *rand.Rand) []byte {
	user := map[string]any{"role": "user", "parts": []any{map[string]any{"text": "hi"}}}
	b := map[string]any{"contents": pick[any](r, []any{user}, user)}
	maybeSay(r, b, "systemInstruction", map[string]any{"parts": []any{map[string]any{"text": "Be brief."}}})
	maybeSay(r, b, "generation_config", map[string]any{"topP": 0.96, "max_output_tokens": 3000})
	if r.IntN(2) == 0 {
		b["tools"] = []any{map[string]any{"functionDeclarations": []any{map[string]any{"name": "f"}}}}
		maybeSay(r, b, "toolConfig", map[string]any{"functionCallingConfig": map[string]any{"mode": pick(r, "AUTO", "NONE")}})
	}
	raw, _ := json.Marshal(b) // of maps of plain values
	return raw
}

func maybeSay(r *rand.Rand, b map[string]any, key string, v any) {
	if r.IntN(2) == 0 {
		b[key] = v
	}
}
