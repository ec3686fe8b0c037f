package policy

// ReasoningControl is how a model is told how hard to think, where that differs from what is usual at its provider: data of the
// catalog, since models of one provider differ in it.
type ReasoningControl string

// The controls.
const (
	ControlUsual    ReasoningControl = ""         // as the provider's models are told
	ControlNone     ReasoningControl = "none"     // it cannot be told by any parameter
	ControlAlways   ReasoningControl = "always"   // it always thinks, and takes no word about it
	ControlEffort   ReasoningControl = "effort"   // by an effort
	ControlToggle   ReasoningControl = "toggle"   // on or off
	ControlStreamed ReasoningControl = "streamed" // on or off, and on in streamed answers only
	ControlTemplate ReasoningControl = "template" // on or off, by an argument of its prompt's template
	ControlSlash    ReasoningControl = "slash"    // on or off, by /think and /no_think in the prompt
	ControlBudget   ReasoningControl = "budget"   // by a number of thinking tokens
	ControlLevel    ReasoningControl = "level"    // by a named level (Gemini's thinking_level)
	ControlAdaptive ReasoningControl = "adaptive" // by itself, within an effort
)

// ThinkingDefault is what a model that can be told how hard to think does where nobody says so.
type ThinkingDefault string

// The defaults.
const (
	ThinksOnRequest ThinkingDefault = ""       // it does not think, or is not known to
	ThinksByDefault ThinkingDefault = "on"     // it thinks until it is told not to
	ThinksAlways    ThinkingDefault = "always" // it thinks, whatever it is told; how hard can be said
)
