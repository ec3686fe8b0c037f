package privacy

import "bardo.money/gateway/policy"

// Constraints define what a request of a tier may and must contain.
type Constraints struct {
	Tools     bool // tool definitions are allowed
	WebSearch bool // web search by the provider is allowed
	Uploads   bool // content other than text is allowed
	Schema    bool // the answer must follow a schema
}

// free are the constraints of a request without a tier: none.
var free = Constraints{Tools: true, WebSearch: true, Uploads: true}

// constraints are those of each tier. At the highest tier the provider cannot read what it would have to execute.
var constraints = map[policy.PrivacyTier]Constraints{
	policy.PrivacyUnset:    free,
	policy.PrivacyNoLog:    {Tools: true, Uploads: true},
	policy.PrivacyTEE:      {Tools: true, Schema: true},
	policy.PrivacyEndToEnd: {Schema: true},
}

// Of returns the constraints of a tier for a request. REM dreams may search the web at the tier private. A testament may be free text even in an
// enclave: nothing is executed from it.
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

// Content is the content of a request that constraints apply to.
type Content struct {
	Tools, WebSearch, Uploads bool
	Schema                    bool // the answer must follow one
}

// Constraint is the name of a constraint, for errors and explanations.
type Constraint string

// The constraints; "" is none.
const (
	Met                      Constraint = ""
	ToolCallingAllowed       Constraint = "tool_calling_allowed"
	WebSearchAllowed         Constraint = "web_search_allowed"
	FileUploadAllowed        Constraint = "file_upload_allowed"
	StructuredOutputRequired Constraint = "structured_output_required"
)

// Violated returns the first constraint that the content does not meet.
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

// about has the requirement of each constraint, and the request's member that it applies to.
var about = map[Constraint]struct{ requirement, member string }{
	Met:                      {},
	ToolCallingAllowed:       {"tools are not allowed", "tools"},
	WebSearchAllowed:         {"a search of the web is not allowed", "web_search"},
	FileUploadAllowed:        {"images, audio, video and files are not allowed", "messages"},
	StructuredOutputRequired: {"the answer needs a JSON schema", "response_format"},
}

// Requirement returns the requirement of the constraint.
func (c Constraint) Requirement() string { return about[c].requirement }

// Member returns the request's member that the constraint applies to.
func (c Constraint) Member() string { return about[c].member }
