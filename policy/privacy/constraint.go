package privacy

import "bardo.money/gateway/policy"

// Constraints are what a request of a tier may hold, and what it must.
type Constraints struct {
	Tools     bool // tool definitions are allowed
	WebSearch bool // a search of the web by the provider is allowed
	Uploads   bool // content other than text is allowed
	Schema    bool // the answer must follow a schema
}

// free are the constraints of a request without a tier: none.
var free = Constraints{Tools: true, WebSearch: true, Uploads: true}

// constraints are those of each tier. At the highest, the provider cannot read what it would have to dispatch.
var constraints = map[policy.PrivacyTier]Constraints{
	policy.PrivacyUnset:    free,
	policy.PrivacyNoLog:    {Tools: true, Uploads: true},
	policy.PrivacyTEE:      {Tools: true, Schema: true},
	policy.PrivacyEndToEnd: {Schema: true},
}

// Of are the constraints of a tier for a request. REM dreams may search the web at the tier private; a testament is free text, in an enclave
// too: it is a narrative, and nothing is executed from it.
func Of(t policy.PrivacyTier, h *policy.Hints) Constraints {
	c := constraints[t]
	switch t { //nolint:exhaustive // the others have no exceptions
	case policy.PrivacyNoLog:
		c.WebSearch = h.TaskClass == classREM || h.Subsystem == classREM || h.Subsystem == "dream_rem_creative"
	case policy.PrivacyTEE:
		c.Schema = h.TaskClass != classTestament && h.Subsystem != "death" && h.Subsystem != "death_reflect" && h.Subsystem != "death_testament"
	}
	return c
}

// Content is what a request holds, as far as constraints concern it.
type Content struct {
	Tools, WebSearch, Uploads bool
	Schema                    bool // the answer must follow one
}

// Constraint is the name of a constraint, as errors and explanations have it.
type Constraint string

// The constraints; "" is none.
const (
	Met                      Constraint = ""
	ToolCallingAllowed       Constraint = "tool_calling_allowed"
	WebSearchAllowed         Constraint = "web_search_allowed"
	FileUploadAllowed        Constraint = "file_upload_allowed"
	StructuredOutputRequired Constraint = "structured_output_required"
)

// Violated is the first constraint that the content does not meet.
func (c Constraints) Violated(have Content) Constraint {
	switch {
	case have.Tools && !c.Tools:
		return ToolCallingAllowed
	case have.WebSearch && !c.WebSearch:
		return WebSearchAllowed
	case have.Uploads && !c.Uploads:
		return FileUploadAllowed
	case c.Schema && !have.Schema:
		return StructuredOutputRequired
	}
	return Met
}

// about says what each constraint asks of the request, and which member it concerns.
var about = map[Constraint]struct{ words, member string }{
	Met:                      {},
	ToolCallingAllowed:       {"tools are not allowed", "tools"},
	WebSearchAllowed:         {"a search of the web is not allowed", "web_search"},
	FileUploadAllowed:        {"images, audio, video and files are not allowed", "messages"},
	StructuredOutputRequired: {"the answer needs a JSON schema", "response_format"},
}

// Says is what the constraint asks of a request.
func (c Constraint) Says() string { return about[c].words }

// Member is the member of a request that the constraint concerns.
func (c Constraint) Member() string { return about[c].member }
