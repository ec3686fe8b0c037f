package review

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Answers in a form: which form a request has, and how each candidate is asked for it.

// FindSchema finds the form that the answer is to have: the client's own, else its hint's, the operator's or that of the part of an agent
// that asks. A request that passes as it is has none.
func (r *Review) FindSchema() error {
	if !r.Config.Structured.Enabled || r.Request.Op != chat.Generate || r.Verbatim() || r.SkipsLayers() || r.Intent.PrivacyTier == policy.PrivacyEndToEnd {
		return nil
	}
	if _, ok := r.Config.Dialects[r.Request.Dialect].(wire.Shaper); !ok {
		return nil
	}
	f, err := r.clientSchema()
	if f == nil && err == nil && !statesSchema(r.Request) {
		f, err = r.profileSchema()
	}
	if f == nil || err != nil {
		return err
	}
	if r.parseTools() {
		r.Schema = f
	}
	return nil
}

// clientSchema is the form that the client's own request asks for; nil for none.
func (r *Review) clientSchema() (*structured.Schema, error) {
	if !statesSchema(r.Request) {
		return nil, nil //nolint:nilnil // none, and nothing is wrong
	}
	said := wire.FormatOf(r.Request)
	switch {
	case said.JSON:
		r.clientFormat = said
		return structured.AnyObject(), nil
	case said.Schema == nil:
		return nil, nil //nolint:nilnil // text, or what only its own provider knows
	}
	r.clientFormat = said
	return compile(said.Name, said.Schema, schemaMembers[r.Request.Dialect])
}

// compile is the form of a caller's schema, which stands at a place of its request.
func compile(name string, schema []byte, at string) (*structured.Schema, error) {
	f, err := structured.Compile(name, schema)
	if err != nil {
		return nil, wire.Invalid(at, "%s: %v", at, err)
	}
	return f, nil
}

// schemaMembers are where clients have the schema of an answer.
var schemaMembers = map[chat.Dialect]string{
	chat.OpenAI: "response_format.json_schema.schema", chat.Completions: "response_format.json_schema.schema",
	chat.Responses: "text.format.schema", chat.Anthropic: "output_config.format.schema", chat.Gemini: "generationConfig.responseSchema", chat.Embeddings: "",
}

// geminiFormatMembers are the members by which Google's clients ask for a form.
var geminiFormatMembers = []string{
	"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "_responseJsonSchema", "responseMimeType",
	"response_mime_type",
}

// statesSchema reports whether a client says itself in which form it wants the answer, be it any JSON, or text.
func statesSchema(r *chat.Request) bool {
	d := &r.Doc
	switch r.Dialect {
	case chat.OpenAI, chat.Completions:
		return !d.Get("response_format").IsNull()
	case chat.Responses:
		return !d.Get("text").Get("format").IsNull()
	case chat.Anthropic:
		return !d.Get("output_config").Get("format").IsNull() || !d.Get("output_format").IsNull()
	case chat.Gemini:
		return anyMember(d.Get("generationConfig"), geminiFormatMembers) || anyMember(d.Get("generation_config"), geminiFormatMembers)
	case chat.Embeddings:
	}
	return false
}

func anyMember(object jsonx.Value, names []string) bool {
	if object.Kind() != jsonx.Object {
		return false
	}
	for _, name := range names {
		if !object.Get(name).IsNull() {
			return true
		}
	}
	return false
}

// profileSchema is the form that the request's profile has; nil for none.
func (r *Review) profileSchema() (*structured.Schema, error) {
	if r.ProfileDecision == nil {
		return nil, nil //nolint:nilnil // nobody says anything
	}
	const at = "bardo.profile.response_schema"
	p := &r.ProfileDecision.Applied
	switch {
	case len(p.Schema) > 0:
		return compile(p.SchemaName, p.Schema, at+".schema")
	case p.SchemaName == "":
		return nil, nil //nolint:nilnil // none
	}
	f := structured.Published(p.SchemaName)
	if f == nil {
		return nil, wire.Invalid(at, "%s: there is no schema %q here: see GET /v1/schemas", at, fault.Clip(p.SchemaName))
	}
	r.Request.Profile.Default.SchemaName = p.SchemaName // questions of different forms have different answers
	return f, nil
}

// parseTools notes what tools the client offers by itself, and how they are to be used. It is false for a request that only its own
// provider may be able to read.
func (r *Review) parseTools() bool {
	if r.Request.Doc.Find("tools") < 0 && r.Request.Doc.Find("functions") < 0 {
		return true
	}
	c, err := r.Request.Conversation()
	if err != nil {
		return false
	}
	r.clientTools, r.clientChoice = c.Tools, c.ToolChoice.Mode
	return true
}

// planned is how a candidate is asked for the form, worked out once.
type schemaPlan struct {
	request  *chat.Request
	provider policy.ProviderID
	model    policy.ModelID
	plan     *structured.Plan
	lowered  bool // its provider refused another way
}

// PlanFor is how a candidate is asked for the form; nil for one that is asked as the client asks.
func (r *Review) PlanFor(v *request.View, to *policy.Resolution) *structured.Plan {
	if r.Schema == nil {
		return nil
	}
	for i := range r.plans {
		if p := &r.plans[i]; p.request == v.Request && p.provider == to.Provider && p.model == to.Model {
			return p.plan
		}
	}
	var plan *structured.Plan
	if p := r.Config.Providers[to.Provider]; !p.Direct || p.Engineered {
		plan = r.Schema.Plan(r.target(v, to, &p))
	}
	r.plans = append(r.plans, schemaPlan{request: v.Request, provider: to.Provider, model: to.Model, plan: plan})
	return plan
}

// schemaErrorTerms are what providers say of a form that they do not take.
var schemaErrorTerms = []string{
	"response_format", "json_schema", "output_config", "output_format", "text.format", "responseschema", "response_schema", "responsejsonschema",
	"schema", "tool_choice", toolPrefix, "structured output",
}

// toolPrefix begins the names of the tools that models are to answer by.
const toolPrefix = "respond_"

// LowerEnforcement has a candidate that refused the way in which it was asked for the form asked in another one: by a tool, or in words. It is
// false where there is no other, or the refusal is about something else.
func (r *Review) LowerEnforcement(to policy.Resolution, f *upstream.Failure) bool {
	i := slices.IndexFunc(r.plans, func(p schemaPlan) bool {
		return p.request == r.Request && p.provider == to.Provider && p.model == to.Model && p.plan != nil
	})
	if i < 0 || f.Err == nil || f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(f.Err.Message + " " + f.Err.Param + " " + f.Err.Code)
	if !slices.ContainsFunc(schemaErrorTerms, func(w string) bool { return strings.Contains(text, w) }) {
		return false
	}
	p, at := &r.plans[i], r.Config.Providers[to.Provider]
	if p.plan.Mode == structured.Prompted {
		return false
	}
	target := r.target(r.View, &to, &at)
	if r.Schema.IsAnyObject() && strings.Contains(text, missingJSONWord) {
		if again := p.plan.WithGuide(target); again != nil && !target.SameDialect { // a client of the format itself is to hear it
			p.plan = again
			return true
		}
		return false
	}
	target.Enforces = target.Enforces && !p.lowered && p.plan.Mode == structured.Tool
	target.Tools = target.Tools && !p.lowered && p.plan.Mode == structured.Enforced
	target.SupportUnknown = false
	p.plan, p.lowered = r.Schema.Plan(target), true
	return true
}

// missingJSONWord is what OpenAI says, in lower case, where it is asked for JSON by a prompt without the word.
const missingJSONWord = "must contain the word 'json'"

// EndTrial has a candidate of which nobody knew whether it follows forms, and whose answer does not, asked in another way from here on.
func (r *Review) EndTrial(to *policy.Resolution) {
	i := slices.IndexFunc(r.plans, func(p schemaPlan) bool {
		return p.request == r.Request && p.provider == to.Provider && p.model == to.Model && p.plan != nil
	})
	if i < 0 || !r.plans[i].plan.Trial {
		return
	}
	p, at := &r.plans[i], r.Config.Providers[to.Provider]
	target := r.target(r.View, to, &at)
	target.Enforces, target.SupportUnknown = false, false
	p.plan, p.lowered = r.Schema.Plan(target), true
}

// Substituted names what takes the place of the client's own words about the form of its answer; "" for nothing: words in the prompt, a tool, or a
// schema that is stricter than its own.
func (r *Review) Substituted(p *structured.Plan) string {
	instead := ""
	switch {
	case p == nil || r.clientFormat.Member == "":
	case p.Mode == structured.Tool:
		instead = "tool"
	case p.HasGuide():
		instead = "prompt"
	case p.MadeStrict:
		instead = "strict"
	}
	if instead == "" {
		return ""
	}
	return wire.Replaced(r.clientFormat.Member, r.clientFormat.Value, instead)
}

// modeAt is how a candidate is asked for the form.
func (r *Review) modeAt(to *policy.Resolution) structured.Mode {
	if plan := r.PlanFor(r.View, to); plan != nil {
		return plan.Mode
	}
	return structured.None
}

// SchemaRetries is how often a model may be told what is wrong with its answer. Never in a conversation that its provider keeps: what was said
// there, stays there.
func (r *Review) SchemaRetries() int {
	if r.Schema == nil || !r.Config.Structured.Validate || r.Schema.Strict() || r.InStoredConversation() {
		return 0
	}
	return r.Config.Structured.Retries
}

// SchemaFault tells who asked for a form that no answer had it.
func (r *Review) SchemaFault(j *Validation, retries int) *fault.Fault {
	kind := fault.SchemaInvalid
	if r.Schema.Strict() {
		kind = fault.StructuredOutput
	}
	f := fault.Newf(kind, "the answer does not follow the schema %s", cmp.Or(r.Schema.Name(), "that was asked for"))
	if r.Schema.IsAnyObject() {
		f = fault.Newf(kind, "the answer is no JSON object, which was asked for")
	}
	f.Details = j.Details(r.Schema.Name(), retries)
	return f
}

// CorrectionTokens is about how long it takes to tell a model what is wrong with its answer.
const CorrectionTokens = 512

// MaxSchemaRetries is how often candidates may be asked again for an answer in its form: never where the client sees it come.
func (r *Review) MaxSchemaRetries(candidates []policy.Resolution) int {
	if r.Schema == nil || r.SchemaRetries() == 0 {
		return 0
	}
	for i := range candidates {
		if r.HoldsBack(r.PlanFor(r.View, &candidates[i])) {
			return r.SchemaRetries()
		}
	}
	return 0
}

// SchemaTokens is about how many tokens longer a request gets by asking for its form.
func (r *Review) SchemaTokens(candidates []policy.Resolution) int64 {
	most := 0
	if r.Schema != nil {
		for i := range candidates {
			if plan := r.PlanFor(r.View, &candidates[i]); plan != nil && plan.Shape != nil {
				most = max(most, shapeBytes(plan.Shape))
			}
		}
	}
	const bytesPerToken = 2
	return int64(most+bytesPerToken-1) / bytesPerToken
}

func shapeBytes(s *wire.Shape) int {
	n := len(s.Schema) + len(s.Note) + len(s.Guide)
	if s.Tool != nil {
		n += len(s.Tool.Schema) + len(s.Tool.Description) + len(s.Tool.Name)
	}
	return n
}

// target is what a candidate can do to keep an answer to its form.
func (r *Review) target(v *request.View, to *policy.Resolution, p *runtime.Provider) structured.Target {
	format := p.Adapter.Dialect(*to, p.Endpoint, r.Request.Dialect)
	alone := !to.SchemaAlone || len(r.clientTools) == 0
	_, strictAlone := p.Adapter.(provider.StrictSchemas)
	return structured.Target{
		Enforces:       alone && r.enforces(to, format),
		SupportUnknown: alone && r.clientFormat.Schema != nil && !to.StructuredOutputs && to.May(policy.StructuredOutputs),
		SameDialect:    format == r.Request.Dialect, EnumText: r.clientFormat.Word,
		NotStrict: r.clientFormat.Loose && !slices.Contains(r.Intent.Require, policy.StructuredOutputs), StrictOnly: strictAlone,
		Tools:    r.mayAnswerByTool(to),
		Thinking: v.Request.Thinking && to.Reasoning != "none", PreferTool: r.Config.Structured.PreferTool,
		Rules:       structured.RulesOf(format),
		ClientTools: len(r.clientTools) > 0, ClientChoice: r.clientChoice, Hinted: !statesSchema(r.Request),
		ToolTaken: func(name string) bool {
			return slices.ContainsFunc(r.clientTools, func(t chat.Tool) bool { return t.Name == name })
		},
	}
}

// enforces reports whether a candidate's provider holds answers to the form. Who enforces schemas at which provider, the catalog knows; JSON
// of any form is older than that, and every format has it but Anthropic's.
func (r *Review) enforces(to *policy.Resolution, format chat.Dialect) bool {
	if r.Schema.IsAnyObject() {
		return format != chat.Anthropic
	}
	return to.StructuredOutputs
}

// mayAnswerByTool reports whether a candidate may answer by a call of a tool. In a response that its provider keeps, the call would wait for its
// result, and whoever goes on from there be refused.
func (r *Review) mayAnswerByTool(to *policy.Resolution) bool {
	return !toolcall.Format(to.ToolFormat).Known() && slices.Contains(to.Features, policy.Tools) && !r.StoredAt(to)
}
