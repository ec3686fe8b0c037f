package policy

// ReasoningControl is how a model's reasoning effort is set, where that differs from its provider's usual way: data of the catalog, because models of
// one provider differ.
type ReasoningControl string

// The controls.
const (
	ControlUsual    ReasoningControl = ""         // the provider's usual way
	ControlNone     ReasoningControl = "none"     // no parameter controls it
	ControlAlways   ReasoningControl = "always"   // always reasons; no parameter controls it
	ControlEffort   ReasoningControl = "effort"   // by an effort
	ControlToggle   ReasoningControl = "toggle"   // on or off
	ControlStreamed ReasoningControl = "streamed" // on or off, and on in streamed answers only
	ControlTemplate ReasoningControl = "template" // on or off, by an argument of its prompt template
	ControlSlash    ReasoningControl = "slash"    // on or off, by /think and /no_think in the prompt
	ControlBudget   ReasoningControl = "budget"   // by a number of reasoning tokens
	ControlLevel    ReasoningControl = "level"    // by a named level (Gemini's thinking_level)
	ControlAdaptive ReasoningControl = "adaptive" // by the model, within an effort
)

// ThinkingDefault is what a model with adjustable reasoning does if no effort is set.
type ThinkingDefault string

// The defaults.
const (
	ThinksOnRequest ThinkingDefault = ""       // does not reason, or is not known to
	ThinksByDefault ThinkingDefault = "on"     // reasons unless it is turned off
	ThinksAlways    ThinkingDefault = "always" // always reasons; its effort can be set
)
