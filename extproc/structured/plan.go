package structured

import (
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// Mode is how a model is made to follow a form.
type Mode uint8

// The modes.
const (
	None     Mode = iota
	Enforced      // its provider holds it to the schema
	Tool          // it calls a tool whose input is the answer
	Prompted      // it is told in words
)

// String is the mode as headers name it.
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

// Rules says which schemas a provider enforces.
type Rules uint8

// The rules.
const (
	RulesAny       Rules = iota // any JSON Schema: what it does not know, it ignores (Gemini's, vLLM's)
	RulesOpenAI                 // strict schemas: OpenAI's, Venice's, and whoever speaks their format
	RulesAnthropic              // output_config.format
)

// RulesOf are the rules of providers that are spoken to in a dialect.
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

// Target is one candidate, and what its request says besides the form.
type Target struct {
	Enforces   bool // model and provider hold answers to a schema
	Tools      bool // the model calls tools
	Thinking   bool // it thinks in this request, so that no tool can be forced
	Rules      Rules
	PreferTool bool // a tool rather than a schema, where both are there
	OwnTools   bool // the caller brings tools of its own
	OwnChoice  chat.ToolChoiceMode

	// Hinted is for a caller's own form that its request does not ask for in its dialect's words: a hint named it.
	Hinted bool

	// Unknown is set where nobody said whether the provider enforces schemas: a caller's own is sent, and what comes is checked.
	Unknown bool
	// Same is set where the provider speaks the client's dialect, so that it can be sent what the client wrote.
	Same bool
	// Loose is set where the client's format says whether a schema is strict, and the client did not say so: it is not made strict.
	Loose bool
	// StrictAlone is set where the provider takes no schemas but strict ones.
	StrictAlone bool
	// Word is set where the client asked for one word of an enum, without quotes (Gemini's text/x.enum).
	Word bool
	// Taken reports whether the caller's own tools have a name already; nil for never.
	Taken func(tool string) bool
}

// Plan is how one candidate is asked for a form, and how its answer is read. It is immutable, and safe for concurrent use.
type Plan struct {
	Mode  Mode
	Shape *wire.Shape // what the request becomes; nil: the client's own request asks for the form already. Read-only
	Live  bool        // the answer may pass as it comes: it needs no reading as a whole, and is checked at its end

	// Trial is set where nobody knows whether the provider does what it is asked: should the answer be wrong, it is asked in another way.
	Trial bool
	// MadeStrict is set where the schema that was sent is stricter than the caller's.
	MadeStrict bool

	form  *Form
	tool  string // the synthetic one
	undo  bool   // the schema that was sent allows nulls that the form does not know
	outer *Form  // the object that was sent with the form as its only member; nil: the form itself was sent
	word  bool   // the answer is a word without quotes
	waits bool   // whether a call is the answer is only known at its end
}

// Plan chooses how a candidate is asked.
func (f *Form) Plan(t Target) *Plan {
	p := f.plan(&t)
	if p.word = t.Word; p.word && !t.Same {
		p.Live = false
	}
	return p
}

func (f *Form) plan(t *Target) *Plan {
	switch {
	case f.anyObject:
		return f.jsonMode(t)
	case t.Unknown && t.Same:
		return &Plan{Mode: Enforced, form: f, Live: true, Trial: true}
	case t.Unknown:
		t.Enforces = true
	}
	if t.Enforces && (!t.PreferTool || !t.Tools) {
		if p := f.byProvider(t); p != nil {
			return p
		}
	}
	if t.Tools && f.kind == jsonx.Object && !f.leavesTurnToTools(t) {
		return f.asTool(t)
	}
	if t.Enforces && t.PreferTool {
		if p := f.byProvider(t); p != nil {
			return p
		}
	}
	return f.prompted(t)
}

// jsonMode asks for a JSON object of any form: by the provider's own parameter where its format has one, else in the prompt. Never by a
// schema of any object, which Anthropic's API refuses, nor by a tool without parameters, which models call with none.
func (f *Form) jsonMode(t *Target) *Plan {
	if t.Enforces {
		return &Plan{Mode: Enforced, form: f, Live: true, Trial: true}
	}
	return f.prompted(t)
}

// leavesTurnToTools reports whether the caller has its own tools called in this turn, whatever the form.
func (f *Form) leavesTurnToTools(t *Target) bool {
	return t.OwnTools && (t.OwnChoice == chat.ToolAny || t.OwnChoice == chat.ToolNamed)
}

// byProvider has the provider enforce the schema, as it is or made strict; nil where it would take neither.
func (f *Form) byProvider(t *Target) *Plan {
	p := &Plan{Mode: Enforced, form: f, Live: !f.ours, Trial: t.Unknown}
	s := f.sentTo(t)
	switch {
	case s.as == nil:
		return nil
	case s.same && !f.ours && !t.Hinted:
		return p
	}
	p.Shape = &wire.Shape{Schema: s.as, Name: f.label(), Note: f.note(), Loose: s.loose}
	p.undo, p.outer, p.MadeStrict, p.Live = s.undo, s.outer, s.strict, p.Live && s.same
	return p
}

// sentTo is the schema that a candidate is sent: the form's own where the provider takes it, else one that is made strict, unless the
// client did not ask for that.
func (f *Form) sentTo(t *Target) sent {
	loose := t.Loose && !t.StrictAlone
	switch {
	case t.Rules == RulesOpenAI && loose:
		return f.loosely()
	case t.Rules == RulesOpenAI:
		return f.enforced[0]()
	case t.Rules == RulesAnthropic:
		if s := f.enforced[1](); s.same || !loose {
			return s
		}
		return sent{}
	}
	return sent{as: f.plain, same: true}
}

// sent is the schema that a provider enforces; nil where it enforces none.
type sent struct {
	as     jsonx.Raw
	same   bool  // it is the form's own
	strict bool  // it was made strict
	loose  bool  // it is not to be strict
	undo   bool  // answers may have nulls that the form does not know
	outer  *Form // the object that has the form as its only member; nil for none
}

// sentBy is the form as rules want it.
func (f *Form) sentBy(r Rules) (s sent) {
	if wire.Enforceable(f.schema, r.enforcedBy()) && small(f.schema, r) {
		return sent{as: f.plain, same: true}
	}
	s.as, s.undo, s.strict = f.strictly(r)
	if s.as == nil && r == RulesOpenAI {
		if outer := f.wrapped(); outer != nil {
			s = outer.sentBy(r)
			s.same, s.outer = false, outer
		}
	}
	return s
}

// loosely is the form as OpenAI takes it without enforcing every word of it: whatever describes an object.
func (f *Form) loosely() sent {
	if f.schema.Get("type").Equal("object") {
		return sent{as: f.plain, same: true, loose: true}
	}
	if outer := f.wrapped(); outer != nil {
		return sent{as: outer.plain, loose: true, outer: outer}
	}
	return sent{}
}

// asTool has the model call a tool whose input is the answer: that one and no other where it may be forced, and where the caller has no
// tools of its own.
func (f *Form) asTool(t *Target) *Plan {
	tool := f.toolName(t.Taken)
	p := &Plan{Mode: Tool, form: f, tool: tool, waits: true}
	p.Shape = &wire.Shape{Tool: &chat.Tool{Name: tool, Description: toolNote(f.note()), Schema: f.asInput()}}
	switch {
	case t.Thinking:
		p.Shape.Choice, p.Shape.Guide = wire.ChooseAuto, toolGuide(tool, t.OwnTools)
	case t.OwnTools && t.OwnChoice != chat.ToolNone:
		p.Shape.Choice = wire.ChooseAny
	default:
		p.Shape.Choice = wire.ChooseShape
		p.Live, p.waits = !f.ours, f.ours
	}
	return p
}

// asInput is the schema as the input of a tool, whose type has to stand at its top.
func (f *Form) asInput() jsonx.Raw {
	if f.schema.Get("type").Equal("object") {
		return f.plain
	}
	w := member{dst: []byte{'{'}}
	w.add("type", jsonx.Raw(`"object"`))
	for key, e := range (jsonx.Value{Raw: f.plain}).Members {
		if name := string(key); name != "type" {
			w.add(name, e.Raw)
		}
	}
	return append(w.dst, '}')
}

func (f *Form) prompted(t *Target) *Plan {
	return &Plan{Mode: Prompted, form: f, Shape: &wire.Shape{Guide: f.guide(t.OwnTools && t.OwnChoice != chat.ToolNone)}}
}

// Worded is the plan with words in the prompt besides: for a provider that takes its own parameter only beside them. It is nil where the
// plan has such words.
func (p *Plan) Worded(t Target) *Plan {
	if p.Shape != nil {
		return nil
	}
	again := *p
	again.Trial = false
	again.Shape = &wire.Shape{KeepForm: true, Guide: p.form.prompted(&t).Shape.Guide}
	return &again
}

// Guides reports whether the plan adds words to the prompt.
func (p *Plan) Guides() bool { return p.Shape != nil && p.Shape.Guide != "" }

// note is what the schema says that it is for.
func (f *Form) note() string {
	s, _ := f.schema.Get("description").Str()
	return s
}

// Names of schemas and tools are words of at most 64 characters.
const (
	longestName = 64
	toolPrefix  = "respond_"
)

// label is a name that every provider takes.
func (f *Form) label() string { return plain(f.name, longestName) }

// toolName is the name of the synthetic tool, which none of the caller's own has.
func (f *Form) toolName(taken func(string) bool) string {
	name := toolPrefix + plain(f.name, longestName-len(toolPrefix)-2)
	for _, end := range []string{"", "_2", "_3", "_4", "_5", "_6", "_7", "_8", "_9"} {
		if taken == nil || !taken(name+end) {
			return name + end
		}
	}
	return name
}

// plain is a name of letters, digits, lines and dashes.
func plain(name string, most int) string {
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
	return s[:min(len(s), most)]
}
