package extproc

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/toolcall"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Answers in a form: which form a request has, and how each candidate is asked for it.

// Structured are the operator's rules for answers in a form. The zero value is none: what a client says of a form goes to its provider as
// it came, and parts of an agent have no forms.
type Structured struct {
	Enabled    bool
	PreferTool bool // a synthetic tool before the provider's own enforcement
	Validate   bool // else an answer is read out of what comes, and passed on whatever it is
	Retries    int  // how often a model is told what is wrong with its answer, at most
}

// findForm finds the form that the answer is to have: the client's own, else its hint's, the operator's or that of the part of an agent
// that asks. A request that passes as it is has none.
func (x *exchange) findForm() error {
	if !x.rt.Structured.Enabled || x.Request.Op != chat.Generate || x.verbatim() || x.bare() || x.Intent.PrivacyTier == policy.PrivacyEndToEnd {
		return nil
	}
	if _, ok := x.rt.Dialects[x.Request.Dialect].(wire.Shaper); !ok {
		return nil
	}
	f, err := x.clientsForm()
	if f == nil && err == nil && !saysForm(x.Request) {
		f, err = x.profilesForm()
	}
	if f == nil || err != nil {
		return err
	}
	if x.hearTools() {
		x.form = f
	}
	return nil
}

// clientsForm is the form that the client's own request asks for; nil for none.
func (x *exchange) clientsForm() (*structured.Form, error) {
	if !saysForm(x.Request) {
		return nil, nil //nolint:nilnil // none, and nothing is wrong
	}
	said := wire.FormOf(x.Request)
	switch {
	case said.JSON:
		x.ownForm = said
		return structured.AnyObject(), nil
	case said.Schema == nil:
		return nil, nil //nolint:nilnil // text, or what only its own provider knows
	}
	x.ownForm = said
	return compiled(said.Name, said.Schema, schemaMembers[x.Request.Dialect])
}

// compiled is the form of a caller's schema, which stands at a place of its request.
func compiled(name string, schema []byte, at string) (*structured.Form, error) {
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

// geminiForms are the members by which Google's clients ask for a form.
var geminiForms = []string{
	"responseSchema", "response_schema", "responseJsonSchema", "response_json_schema", "_responseJsonSchema", "responseMimeType",
	"response_mime_type",
}

// saysForm reports whether a client says itself in which form it wants the answer, be it any JSON, or text.
func saysForm(r *chat.Request) bool {
	d := &r.Doc
	switch r.Dialect {
	case chat.OpenAI, chat.Completions:
		return !d.Get("response_format").IsNull()
	case chat.Responses:
		return !d.Get("text").Get("format").IsNull()
	case chat.Anthropic:
		return !d.Get("output_config").Get("format").IsNull() || !d.Get("output_format").IsNull()
	case chat.Gemini:
		return anyMember(d.Get("generationConfig"), geminiForms) || anyMember(d.Get("generation_config"), geminiForms)
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

// profilesForm is the form that the request's profile has; nil for none.
func (x *exchange) profilesForm() (*structured.Form, error) {
	if x.profiled == nil {
		return nil, nil //nolint:nilnil // nobody says anything
	}
	const at = "bardo.profile.response_schema"
	p := &x.profiled.Applied
	switch {
	case len(p.Schema) > 0:
		return compiled(p.SchemaName, p.Schema, at+".schema")
	case p.SchemaName == "":
		return nil, nil //nolint:nilnil // none
	}
	f := structured.Named(p.SchemaName)
	if f == nil {
		return nil, wire.Invalid(at, "%s: there is no schema %q here: see GET /v1/schemas", at, fault.Clip(p.SchemaName))
	}
	x.Request.Profile.Default.SchemaName = p.SchemaName // questions of different forms have different answers
	return f, nil
}

// hearTools notes what tools the client offers by itself, and how they are to be used. It is false for a request that only its own
// provider may be able to read.
func (x *exchange) hearTools() bool {
	if x.Request.Doc.Find("tools") < 0 && x.Request.Doc.Find("functions") < 0 {
		return true
	}
	c, err := x.Request.Conversation()
	if err != nil {
		return false
	}
	x.offered, x.chosen = c.Tools, c.ToolChoice.Mode
	return true
}

// planned is how a candidate is asked for the form, worked out once.
type plannedForm struct {
	provider policy.ProviderID
	model    policy.ModelID
	plan     *structured.Plan
	lowered  bool // its provider refused another way
}

// planFor is how a candidate is asked for the form; nil for one that is asked as the client asks.
func (x *exchange) planFor(to *policy.Resolution) *structured.Plan {
	if x.form == nil {
		return nil
	}
	for i := range x.plans {
		if p := &x.plans[i]; p.provider == to.Provider && p.model == to.Model {
			return p.plan
		}
	}
	var plan *structured.Plan
	if p := x.rt.Providers[to.Provider]; !p.Direct || p.Engineered {
		plan = x.form.Plan(x.target(to, &p))
	}
	x.plans = append(x.plans, plannedForm{provider: to.Provider, model: to.Model, plan: plan})
	return plan
}

// schemaWords are what providers say of a form that they do not take.
var schemaWords = []string{
	"response_format", "json_schema", "output_config", "output_format", "text.format", "responseschema", "response_schema", "responsejsonschema",
	"schema", "tool_choice", toolPrefix, "structured output",
}

// toolPrefix begins the names of the tools that models are to answer by.
const toolPrefix = "respond_"

// lowered has a candidate that refused the way in which it was asked for the form asked in another one: by a tool, or in words. It is
// false where there is no other, or the refusal is about something else.
func (x *exchange) lowered(to policy.Resolution, f *upstream.Failure) bool {
	i := slices.IndexFunc(x.plans, func(p plannedForm) bool { return p.provider == to.Provider && p.model == to.Model && p.plan != nil })
	if i < 0 || f.Err == nil || f.Status != http.StatusBadRequest && f.Status != http.StatusUnprocessableEntity {
		return false
	}
	text := strings.ToLower(f.Err.Message + " " + f.Err.Param + " " + f.Err.Code)
	if !slices.ContainsFunc(schemaWords, func(w string) bool { return strings.Contains(text, w) }) {
		return false
	}
	p, at := &x.plans[i], x.rt.Providers[to.Provider]
	if p.plan.Mode == structured.Prompted {
		return false
	}
	target := x.target(&to, &at)
	if x.form.IsAnyObject() && strings.Contains(text, wantsWord) {
		if again := p.plan.Worded(target); again != nil && !target.Same { // a client of the format itself is to hear it
			p.plan = again
			return true
		}
		return false
	}
	target.Enforces = target.Enforces && !p.lowered && p.plan.Mode == structured.Tool
	target.Tools = target.Tools && !p.lowered && p.plan.Mode == structured.Enforced
	target.Unknown = false
	p.plan, p.lowered = x.form.Plan(target), true
	return true
}

// wantsWord is what OpenAI says, in lower case, where it is asked for JSON by a prompt without the word.
const wantsWord = "must contain the word 'json'"

// doubted has a candidate of which nobody knew whether it follows forms, and whose answer does not, asked in another way from here on.
func (x *exchange) doubted(to *policy.Resolution) {
	i := slices.IndexFunc(x.plans, func(p plannedForm) bool { return p.provider == to.Provider && p.model == to.Model && p.plan != nil })
	if i < 0 || !x.plans[i].plan.Trial {
		return
	}
	p, at := &x.plans[i], x.rt.Providers[to.Provider]
	target := x.target(to, &at)
	target.Enforces, target.Unknown = false, false
	p.plan, p.lowered = x.form.Plan(target), true
}

// formSubstitute names what takes the place of the client's own words about the form of its answer; "" for nothing: words in the prompt, a tool, or a
// schema that is stricter than its own.
func (x *exchange) formSubstitute(p *structured.Plan) string {
	instead := ""
	switch {
	case p == nil || x.ownForm.Member == "":
	case p.Mode == structured.Tool:
		instead = "tool"
	case p.Guides():
		instead = "prompt"
	case p.MadeStrict:
		instead = "strict"
	}
	if instead == "" {
		return ""
	}
	return wire.Became(x.ownForm.Member, x.ownForm.Value, instead)
}

// mode is how a candidate is asked for the form.
func (x *exchange) mode(to *policy.Resolution) structured.Mode {
	if plan := x.planFor(to); plan != nil {
		return plan.Mode
	}
	return structured.None
}

// retries is how often a model may be told what is wrong with its answer. Never in a conversation that its provider keeps: what was said
// there, stays there.
func (x *exchange) retries() int {
	if x.form == nil || !x.rt.Structured.Validate || x.form.Strict() || x.inKeptConversation() {
		return 0
	}
	return x.rt.Structured.Retries
}

func (x *exchange) inKeptConversation() bool {
	return x.Request.Dialect == chat.Responses && !x.Request.Doc.Get("conversation").IsNull()
}

// keptAt reports whether a candidate's provider keeps the request and its answer, for others to go on from.
func (x *exchange) keptAt(to *policy.Resolution) bool {
	p := x.rt.Providers[to.Provider]
	if x.Request.Dialect != chat.Responses || !p.Endpoint.Responses || p.Adapter.Dialect(*to, p.Endpoint, chat.Responses) != chat.Responses {
		return false
	}
	store, said := x.Request.Doc.Get("store").Bool()
	return store || !said
}

// errNoForm tells who asked for a form that no answer had it.
func (x *exchange) errNoForm(j *judgement, retries int) *fault.Fault {
	kind := fault.SchemaInvalid
	if x.form.Strict() {
		kind = fault.StructuredOutput
	}
	f := fault.Newf(kind, "the answer does not follow the schema %s", cmp.Or(x.form.Name(), "that was asked for"))
	if x.form.IsAnyObject() {
		f = fault.Newf(kind, "the answer is no JSON object, which was asked for")
	}
	f.Details = j.details(x.form.Name(), retries)
	return f
}

// complaintTokens is about how long it takes to tell a model what is wrong with its answer.
const complaintTokens = 512

// mayReask is how often candidates may be asked again for an answer in its form: never where the client sees it come.
func (x *exchange) mayReask(candidates []policy.Resolution) int {
	if x.form == nil || x.retries() == 0 {
		return 0
	}
	for i := range candidates {
		if x.holdsBack(x.planFor(&candidates[i])) {
			return x.retries()
		}
	}
	return 0
}

// formTokens is about how many tokens longer a request gets by asking for its form.
func (x *exchange) formTokens(candidates []policy.Resolution) int64 {
	most := 0
	if x.form != nil {
		for i := range candidates {
			if plan := x.planFor(&candidates[i]); plan != nil && plan.Shape != nil {
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
func (x *exchange) target(to *policy.Resolution, p *Provider) structured.Target {
	format := p.Adapter.Dialect(*to, p.Endpoint, x.Request.Dialect)
	alone := !to.SchemaAlone || len(x.offered) == 0
	_, strictAlone := p.Adapter.(provider.StrictSchemas)
	return structured.Target{
		Enforces: alone && x.enforces(to, format),
		Unknown:  alone && x.ownForm.Schema != nil && !to.StructuredOutputs && to.May(policy.StructuredOutputs),
		Same:     format == x.Request.Dialect, Word: x.ownForm.Word,
		Loose: x.ownForm.Loose && !slices.Contains(x.Intent.Require, policy.StructuredOutputs), StrictAlone: strictAlone,
		Tools:    x.callsAnswer(to),
		Thinking: x.Request.Thinking && to.Reasoning != "none", PreferTool: x.rt.Structured.PreferTool,
		Rules:    structured.RulesOf(format),
		OwnTools: len(x.offered) > 0, OwnChoice: x.chosen, Hinted: !saysForm(x.Request),
		Taken: func(name string) bool {
			return slices.ContainsFunc(x.offered, func(t chat.Tool) bool { return t.Name == name })
		},
	}
}

// enforces reports whether a candidate's provider holds answers to the form. Who enforces schemas at which provider, the catalog knows; JSON
// of any form is older than that, and every format has it but Anthropic's.
func (x *exchange) enforces(to *policy.Resolution, format chat.Dialect) bool {
	if x.form.IsAnyObject() {
		return format != chat.Anthropic
	}
	return to.StructuredOutputs
}

// callsAnswer reports whether a candidate may answer by a call of a tool. In a response that its provider keeps, the call would wait for its
// result, and whoever goes on from there be refused.
func (x *exchange) callsAnswer(to *policy.Resolution) bool {
	return !toolcall.Format(to.ToolFormat).Known() && slices.Contains(to.Features, policy.Tools) && !x.keptAt(to)
}

// readsForm adds what reads an answer's form to its stages.
func readsForm(list []stage, plan *structured.Plan) []stage {
	if plan == nil {
		return list
	}
	if r := plan.NewReader(); r != nil {
		list = append(list, r)
	}
	return list
}
