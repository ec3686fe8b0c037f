package structured

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Mode is how a model is asked to follow a schema.
type Mode uint8

// The modes.
const (
	None     Mode = iota
	Enforced      // the provider enforces the schema
	Tool          // the model calls a tool whose arguments are the answer
	Prompted      // the schema is in the prompt
)

// String returns the mode's name in headers.
func (m Mode) String() string {
	switch m {
	case None:
		return "none"
	case Enforced:
		return "enforced"
	case Tool:
		return "tool"
	case Prompted:
		return "prompted"
	}
	return "none"
}

// Rules is the subset of JSON Schema that a provider enforces.
type Rules uint8

// The rules.
const (
	RulesAny       Rules = iota // any JSON Schema: unknown keywords are ignored (Gemini, vLLM)
	RulesOpenAI                 // OpenAI's strict schemas: OpenAI, Venice and compatible providers
	RulesAnthropic              // output_config.format
)

// RulesOf returns the rules of providers with this dialect.
func RulesOf(d chat.Dialect) Rules {
	switch d {
	case chat.OpenAI, chat.Responses, chat.Completions:
		return RulesOpenAI
	case chat.Anthropic:
		return RulesAnthropic
	case chat.Gemini, chat.Embeddings:
		return RulesAny
	}
	return RulesAny
}

func (r Rules) enforcedBy() wire.EnforcedBy {
	if r == RulesAnthropic {
		return wire.ByAnthropic
	}
	return wire.ByOpenAI
}

// Target describes one candidate and the request, as far as they matter for the choice of the mode.
type Target struct {
	Enforces     bool // model and provider enforce schemas
	Tools        bool // the model supports native tool calling
	Thinking     bool // reasoning is on, so that no tool call can be forced
	Rules        Rules
	PreferTool   bool // prefer Tool to Enforced where both are possible
	ClientTools  bool // the client's request has tools
	ClientChoice chat.ToolChoiceMode

	// Hinted is set if a hint named the client's schema, and not a parameter of its dialect.
	Hinted bool

	// SupportUnknown is set if it is not configured whether the provider enforces schemas: the client's schema is sent and the answer checked.
	SupportUnknown bool
	// SameDialect is set if the provider's dialect is the client's, so that the client's parameters can be sent unchanged.
	SameDialect bool
	// NotStrict is set if the client's dialect has a strict flag and the client did not set it: the schema is not made strict.
	NotStrict bool
	// StrictOnly is set if the provider accepts only strict schemas.
	StrictOnly bool
	// EnumText is set if the client asked for an enum value as plain text (Gemini's text/x.enum).
	EnumText bool
	// ToolTaken reports whether the client has a tool of this name; nil means never.
	ToolTaken func(tool string) bool
}

// Plan is how one candidate is asked to follow a schema, and how its answer is read. It is immutable and safe for concurrent use.
type Plan struct {
	Mode       Mode
	Shape      *wire.Shape // changes to the request; nil if the client's request already has the schema. Read-only
	Streamable bool        // the answer may be streamed and is checked at its end; otherwise it is held

	// Trial is set if it is not known whether the provider enforces schemas: if the answer is invalid, another mode is tried.
	Trial bool
	// MadeStrict is set if the schema was rewritten to be stricter than the client's.
	MadeStrict bool

	schema    *Schema
	tool      string  // name of the added tool, for Tool
	dropNulls bool    // the rewritten schema allows nulls that the original does not
	wrapper   *Schema // the wrapper object that was sent; nil if the schema itself was
	enumText  bool    // the answer is an enum value without quotes
	holdsTurn bool    // it is only known at the end of the turn whether the tool call is the answer
}

// Plan chooses the mode for a candidate.
func (sch *Schema) Plan(t Target) *Plan {
	p := sch.plan(&t)
	if p.enumText = t.EnumText; p.enumText && !t.SameDialect {
		p.Streamable = false
	}
	return p
}

func (sch *Schema) plan(t *Target) *Plan {
	switch {
	case sch.anyObject:
		return sch.jsonModePlan(t)
	case t.SupportUnknown && t.SameDialect:
		return &Plan{Mode: Enforced, schema: sch, Streamable: true, Trial: true}
	case t.SupportUnknown:
		t.Enforces = true
	}
	if t.Enforces && (!t.PreferTool || !t.Tools) {
		if p := sch.enforcedPlan(t); p != nil {
			return p
		}
	}
	if t.Tools && sch.kind == jsonx.Object && !sch.clientToolsForced(t) {
		return sch.toolPlan(t)
	}
	if t.Enforces && t.PreferTool {
		if p := sch.enforcedPlan(t); p != nil {
			return p
		}
	}
	return sch.promptedPlan(t)
}

// jsonModePlan asks for any JSON object: with the provider's parameter if it has one, else in the prompt. A schema of any object is refused
// by Anthropic's API, and a tool without parameters is called with empty arguments.
func (sch *Schema) jsonModePlan(t *Target) *Plan {
	if t.Enforces {
		return &Plan{Mode: Enforced, schema: sch, Streamable: true, Trial: true}
	}
	return sch.promptedPlan(t)
}

// clientToolsForced reports whether tool_choice forces the client's tools in this turn.
func (sch *Schema) clientToolsForced(t *Target) bool {
	return t.ClientTools && (t.ClientChoice == chat.ToolAny || t.ClientChoice == chat.ToolNamed)
}

// enforcedPlan lets the provider enforce the schema, unchanged or made strict; nil if it would accept neither.
func (sch *Schema) enforcedPlan(t *Target) *Plan {
	p := &Plan{Mode: Enforced, schema: sch, Streamable: !sch.builtin, Trial: t.SupportUnknown}
	s := sch.schemaFor(t)
	switch {
	case s.json == nil:
		return nil
	case s.unchanged && !sch.builtin && !t.Hinted:
		return p
	}
	p.Shape = &wire.Shape{Schema: s.json, Name: sch.nameFor(), Note: sch.description(), Loose: s.loose}
	p.dropNulls, p.wrapper, p.MadeStrict, p.Streamable = s.dropNulls, s.wrapper, s.strict, p.Streamable && s.unchanged
	return p
}

// schemaFor returns the schema that is sent to a candidate: unchanged if the provider accepts it, else made strict, if the client allows that.
func (sch *Schema) schemaFor(t *Target) providerSchema {
	loose := t.NotStrict && !t.StrictOnly
	switch {
	case t.Rules == RulesOpenAI && loose:
		return sch.looseSchema()
	case t.Rules == RulesOpenAI:
		return sch.enforced[0]()
	case t.Rules == RulesAnthropic:
		if s := sch.enforced[1](); s.unchanged || !loose {
			return s
		}
		return providerSchema{}
	}
	return providerSchema{json: sch.compact, unchanged: true}
}

// providerSchema is the schema that is sent to a provider.
type providerSchema struct {
	json      jsonx.Raw
	unchanged bool    // the original schema
	strict    bool    // it was rewritten to be strict
	loose     bool    // sent with strict: false
	dropNulls bool    // answers may have nulls that the original does not allow
	wrapper   *Schema // the wrapper object; nil if there is none
}

// forRules returns the schema as a provider with these rules accepts it.
func (sch *Schema) forRules(r Rules) (s providerSchema) {
	if wire.Enforceable(sch.schema, r.enforcedBy()) && withinLimits(sch.schema, r) {
		return providerSchema{json: sch.compact, unchanged: true}
	}
	s.json, s.dropNulls, s.strict = sch.makeStrict(r)
	if s.json == nil && r == RulesOpenAI {
		if outer := sch.wrapped(); outer != nil {
			s = outer.forRules(r)
			s.unchanged, s.wrapper = false, outer
		}
	}
	return s
}

// looseSchema returns the schema for OpenAI with strict: false: it must be of an object.
func (sch *Schema) looseSchema() providerSchema {
	if sch.schema.Get("type").Equal("object") {
		return providerSchema{json: sch.compact, unchanged: true, loose: true}
	}
	if outer := sch.wrapped(); outer != nil {
		return providerSchema{json: outer.compact, loose: true, wrapper: outer}
	}
	return providerSchema{}
}

// toolPlan asks for a call of a tool whose arguments are the answer. The call is forced, unless reasoning is on or the client has tools.
func (sch *Schema) toolPlan(t *Target) *Plan {
	tool := sch.toolName(t.ToolTaken)
	p := &Plan{Mode: Tool, schema: sch, tool: tool, holdsTurn: true}
	p.Shape = &wire.Shape{Tool: &chat.Tool{Name: tool, Description: toolNote(sch.description()), Schema: sch.toolSchema()}}
	switch {
	case t.Thinking:
		p.Shape.Choice, p.Shape.Guide = wire.ChooseAuto, toolGuide(tool, t.ClientTools)
	case t.ClientTools && t.ClientChoice != chat.ToolNone:
		p.Shape.Choice = wire.ChooseAny
	default:
		p.Shape.Choice = wire.ChooseShape
		p.Streamable, p.holdsTurn = !sch.builtin, sch.builtin
	}
	return p
}

// toolSchema returns the schema as a tool's parameters, which need "type": "object" at the top.
func (sch *Schema) toolSchema() jsonx.Raw {
	if sch.schema.Get("type").Equal("object") {
		return sch.compact
	}
	w := member{dst: []byte{'{'}}
	w.add("type", jsonx.Raw(`"object"`))
	for key, e := range (jsonx.Value{Raw: sch.compact}).Members {
		if name := string(key); name != "type" {
			w.add(name, e.Raw)
		}
	}
	return append(w.dst, '}')
}

func (sch *Schema) promptedPlan(t *Target) *Plan {
	return &Plan{Mode: Prompted, schema: sch, Shape: &wire.Shape{Guide: sch.guide(t.ClientTools && t.ClientChoice != chat.ToolNone)}}
}

// WithGuide returns the plan with an additional prompt, for providers that require one beside their parameter. It is nil if the plan has a
// prompt already.
func (p *Plan) WithGuide(t Target) *Plan {
	if p.Shape != nil {
		return nil
	}
	again := *p
	again.Trial = false
	again.Shape = &wire.Shape{KeepFormat: true, Guide: p.schema.promptedPlan(&t).Shape.Guide}
	return &again
}

// HasGuide reports whether the plan adds to the prompt.
func (p *Plan) HasGuide() bool { return p.Shape != nil && p.Shape.Guide != "" }

// description returns the schema's description.
func (sch *Schema) description() string {
	s, _ := sch.schema.Get("description").Str()
	return s
}

// Providers limit names of schemas and tools to 64 characters.
const (
	maxName    = 64
	toolPrefix = "respond_"
)

// nameFor returns the schema's name as every provider accepts it.
func (sch *Schema) nameFor() string { return safeName(sch.name, maxName) }

// toolName returns a name for the added tool that no tool of the client has.
func (sch *Schema) toolName(taken func(string) bool) string {
	name := toolPrefix + safeName(sch.name, maxName-len(toolPrefix)-2)
	for _, end := range []string{"", "_2", "_3", "_4", "_5", "_6", "_7", "_8", "_9"} {
		if taken == nil || !taken(name+end) {
			return name + end
		}
	}
	return name
}

// safeName replaces characters other than letters, digits, underscores and dashes.
func safeName(name string, maxLength int) string {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
	if s == "" {
		return "answer"
	}
	return s[:min(len(s), maxLength)]
}
