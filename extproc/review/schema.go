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

// Structured output: the schema of a request, and how it is enforced at each candidate.

// FindSchema finds the schema of the answer: of the client's own request, else of its hint, the configuration or the subsystem's profile. A request
// that is forwarded unchanged has none.
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

// HasSchema reports whether the answer must follow a schema; JSON mode does not count.
func (r *Review) HasSchema() bool { return r.Schema != nil && !r.clientFormat.JSON }

// clientSchema returns the schema in the client's own request; nil for none.
func (r *Review) clientSchema() (*structured.Schema, error) {
	if !statesSchema(r.Request) {
		return nil, nil //nolint:nilnil // none, and nothing is wrong
	}
	format := wire.FormatOf(r.Request)
	switch {
	case format.JSON:
		r.clientFormat = format
		return structured.AnyObject(), nil
	case format.Schema == nil:
		return nil, nil //nolint:nilnil // text, or a format that only its own provider knows
	}
	r.clientFormat = format
	return compile(format.Name, format.Schema, schemaMembers[r.Request.Dialect])
}

// compile compiles a client's schema; at is its member of the request, for errors.
func compile(name string, schema []byte, at string) (*structured.Schema, error) {
	f, err := structured.Compile(name, schema)
	if err != nil {
		return nil, wire.Invalid(at, "%s: %v", at, err)
	}
	return f, nil
}

// schemaMembers are the members of requests that hold the schema of the answer.
var schemaMembers = map[chat.Dialect]string{
	chat.OpenAI: "response_format.json_schema.schema", chat.Completions: "response_format.json_schema.schema",
	chat.Responses: "text.format.schema", chat.Anthropic: "output_config.format.schema", chat.Gemini: "generationConfig.responseSchema", chat.Embeddings: "",
}

// geminiFormatMembers are the members by which Google's clients request a response format.
var geminiFormatMembers = []string{
	"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "_responseJsonSchema", "responseMimeType",
	"response_mime_type",
}

// statesSchema reports whether the client's own request has a response format: a schema, any JSON, or text.
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

// profileSchema returns the schema of the request's profile; nil for none.
func (r *Review) profileSchema() (*structured.Schema, error) {
	if r.ProfileDecision == nil {
		return nil, nil //nolint:nilnil // no profile
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
	r.Request.Profile.Default.SchemaName = p.SchemaName // part of the cache key
	return f, nil
}

// parseTools records the client's own tools and tool choice. It returns false for a request that the gateway cannot parse: only its own provider may
// serve it then.
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

// schemaPlan is how the schema is enforced at a candidate, computed once.
type schemaPlan struct {
	request  *chat.Request
	provider policy.ProviderID
	model    policy.ModelID
	plan     *structured.Plan
	lowered  bool // its provider refused another mode
}

// PlanFor returns how the schema is enforced at a candidate; nil if the client's request is sent unchanged.
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
	if p := r.Config.Provider(to.Provider); !p.Direct || p.Engineered {
		plan = r.Schema.Plan(r.target(v, to, p))
	}
	r.plans = append(r.plans, schemaPlan{request: v.Request, provider: to.Provider, model: to.Model, plan: plan})
	return plan
}

// schemaErrorTerms occur in errors of providers that refuse a schema.
var schemaErrorTerms = []string{
	"response_format", "json_schema", "output_config", "output_format", "text.format", "responseschema", "response_schema", "responsejsonschema",
	"schema", "tool_choice", toolPrefix, "structured output",
}

// toolPrefix prefixes the names of tools by whose calls models answer.
const toolPrefix = "respond_"

// LowerEnforcement selects another mode for a candidate that refused the schema: a tool, or the prompt. It returns false if there is none, or the
// refusal has another reason.
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
	p, at := &r.plans[i], r.Config.Provider(to.Provider)
	if p.plan.Mode == structured.Prompted {
		return false
	}
	target := r.target(r.View, &to, at)
	if r.Schema.IsAnyObject() && strings.Contains(text, missingJSONWord) {
		if again := p.plan.WithGuide(target); again != nil && !target.SameDialect { // a client of the same format gets the error
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

// missingJSONWord is in OpenAI's error, in lower case, for JSON mode with a prompt that does not contain the word.
const missingJSONWord = "must contain the word 'json'"

// EndTrial changes the mode of a candidate whose support of schemas was unknown, after an answer that does not follow the schema.
func (r *Review) EndTrial(to *policy.Resolution) {
	i := slices.IndexFunc(r.plans, func(p schemaPlan) bool {
		return p.request == r.Request && p.provider == to.Provider && p.model == to.Model && p.plan != nil
	})
	if i < 0 || !r.plans[i].plan.Trial {
		return
	}
	p, at := &r.plans[i], r.Config.Provider(to.Provider)
	target := r.target(r.View, to, at)
	target.Enforces, target.SupportUnknown = false, false
	p.plan, p.lowered = r.Schema.Plan(target), true
}

// Substituted returns the entry in X-Bardo-Degraded for a response format of the client's that was replaced by a tool, by instructions in the prompt, or
// by a stricter schema; "" for none.
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

// modeAt returns the mode in which the schema is enforced at a candidate.
func (r *Review) modeAt(to *policy.Resolution) structured.Mode {
	if plan := r.PlanFor(r.View, to); plan != nil {
		return plan.Mode
	}
	return structured.None
}

// SchemaRetries returns the maximum number of validation retries. It is 0 in a conversation that its provider stores: an invalid answer would stay in it.
func (r *Review) SchemaRetries() int {
	if r.Schema == nil || !r.Config.Structured.Validate || r.Schema.Strict() || r.InStoredConversation() {
		return 0
	}
	return r.Config.Structured.Retries
}

// strictError is the name, in the details of a fault, of an answer that does not follow a strict schema.
const strictError = "VeniceStructuredOutputError"

// SchemaFault returns the error for a client whose request got no valid answer.
func (r *Review) SchemaFault(j *Validation, retries int) *fault.Fault {
	kind := fault.SchemaInvalid
	if r.Schema.Strict() {
		kind = fault.StructuredOutput
	}
	f := fault.Newf(kind, "the answer does not follow the schema %s", cmp.Or(r.SchemaName(), "that was asked for"))
	if r.Schema.IsAnyObject() {
		f = fault.Newf(kind, "the answer is no JSON object, which was asked for")
	}
	f.Details = j.Details(r.Schema.Name(), retries)
	if rest, ok := strings.CutPrefix(f.Details, "{"); ok && r.Schema.Strict() {
		f.Details = `{"error":"` + strictError + `",` + rest
	}
	return f
}

// CorrectionTokens is an estimate of the tokens of a validation retry's prompt.
const CorrectionTokens = 512

// MaxSchemaRetries returns the maximum number of validation retries over the candidates: 0 if the client gets the answer as it arrives.
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

// SchemaTokens returns an estimate of the tokens that enforcing the schema adds to the request.
func (r *Review) SchemaTokens(candidates []policy.Resolution) int64 {
	maxBytes := 0
	if r.Schema != nil {
		for i := range candidates {
			if plan := r.PlanFor(r.View, &candidates[i]); plan != nil && plan.Shape != nil {
				maxBytes = max(maxBytes, shapeBytes(plan.Shape))
			}
		}
	}
	const bytesPerToken = 2
	return int64(maxBytes+bytesPerToken-1) / bytesPerToken
}

func shapeBytes(s *wire.Shape) int {
	n := len(s.Schema) + len(s.Note) + len(s.Guide)
	if s.Tool != nil {
		n += len(s.Tool.Schema) + len(s.Tool.Description) + len(s.Tool.Name)
	}
	return n
}

// target returns what a candidate supports for enforcing a schema.
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

// enforces reports whether a candidate's provider enforces the schema. For schemas the catalog decides; plain JSON mode is supported by every format
// but Anthropic's.
func (r *Review) enforces(to *policy.Resolution, format chat.Dialect) bool {
	if r.Schema.IsAnyObject() {
		return format != chat.Anthropic
	}
	return to.StructuredOutputs
}

// mayAnswerByTool reports whether a candidate may answer by a tool call. It may not in a response that its provider stores: the call would lack its
// result, and the provider refuses requests that continue from there.
func (r *Review) mayAnswerByTool(to *policy.Resolution) bool {
	return !toolcall.Format(to.ToolFormat).Known() && slices.Contains(to.Features, policy.Tools) && !r.StoredAt(to)
}
