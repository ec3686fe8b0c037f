package request

import (
	"encoding/json"
	"fmt"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/privacy"
)

// The constraints of privacy tiers (P-04) on a request's content, checked before any provider is called.

// Privacy is the privacy tier of a request and its effective constraints. The zero value is a request without a tier.
type Privacy struct {
	TaskClass   string              `json:"task_class,omitempty"`
	Tier        string              `json:"tier"`               // from the task class and the hints
	Default     bool                `json:"default,omitempty"`  // from the operator's default
	InForce     string              `json:"in_force,omitempty"` // the tier whose constraints apply; "" if none
	Tools       bool                `json:"tool_calling_allowed"`
	WebSearch   bool                `json:"web_search_allowed"`
	Uploads     bool                `json:"file_upload_allowed"`
	Schema      bool                `json:"structured_output_required"`
	Violated    privacy.Constraint  `json:"violated,omitempty"`
	constraints privacy.Constraints // effective
}

// PrivacyOf returns the privacy of a request with the hints h; nil without a tier.
func PrivacyOf(rt *runtime.Config, h *policy.Hints) *Privacy {
	asked := privacy.Tier(h)
	if asked == policy.PrivacyUnset {
		return nil
	}
	t := privacy.InForce(h, rt.Resolver.PrivatePlane())
	c := privacy.Of(t, h)
	return &Privacy{
		TaskClass: h.TaskClass, Tier: asked.String(), Default: h.TierByDefault, InForce: t.String(), Tools: c.Tools, WebSearch: c.WebSearch, Uploads: c.Uploads, Schema: c.Schema,
		constraints: c,
	}
}

// Check returns the fault of a request that violates the constraints, else nil. schema reports whether the answer must follow a schema, search
// whether a hint requests a web search.
func (p *Privacy) Check(rt *runtime.Config, r *chat.Request, candidates []policy.Resolution, search, schema bool) error {
	if p == nil || p.InForce == "" || r.Op != chat.Generate {
		return nil
	}
	have, err := contentOf(rt, r, candidates)
	if err != nil {
		return err
	}
	have.WebSearch, have.Schema = have.WebSearch || search, schema
	return p.CheckContent(have)
}

// CheckContent is Check for a request of which only the content have is known.
func (p *Privacy) CheckContent(have privacy.Content) error {
	if p == nil || p.InForce == "" {
		return nil
	}
	if p.Violated = p.constraints.Violated(have); p.Violated == privacy.Met {
		return nil
	}
	return p.fault()
}

// contentOf returns the content of a request that constraints apply to. A request that cannot be parsed is refused, because its content is unknown.
func contentOf(rt *runtime.Config, r *chat.Request, candidates []policy.Resolution) (have privacy.Content, err error) {
	c, err := r.Conversation()
	if err != nil {
		return have, err
	}
	have.Tools = len(c.Tools) > 0 || isNonEmptyList(r, "tools") || isNonEmptyList(r, "functions")
	have.Uploads = slices.ContainsFunc(c.System, isUpload)
	for i := range c.Messages {
		have.Uploads = have.Uploads || slices.ContainsFunc(c.Messages[i].Parts, isUpload)
	}
	have.WebSearch = slices.ContainsFunc(candidates, func(to policy.Resolution) bool {
		return slices.ContainsFunc(rt.Extras(r, &to), func(e provider.Extra) bool { return e.By == provider.PerSearch })
	})
	return have, nil
}

// isNonEmptyList reports whether a member of the request is a non-empty list.
func isNonEmptyList(r *chat.Request, member string) bool {
	for range r.Doc.Get(member).Each {
		return true
	}
	return false
}

// isUpload reports whether a part is anything but conversation text and calls. Parts that only the client's format defines count, because their
// content is unknown.
func isUpload(p chat.Part) bool {
	switch p.Kind {
	case chat.PartText, chat.PartToolUse, chat.PartThinking, chat.PartRedacted, chat.PartRefusal:
		return false
	case chat.PartToolResult:
		return slices.ContainsFunc(p.Parts, isUpload)
	case chat.PartImage, chat.PartDocument, chat.PartOther, chat.PartAudio, chat.PartVideo, chat.PartFile:
	}
	return true
}

func (p *Privacy) fault() error {
	of := "privacy tier " + p.InForce
	if p.TaskClass != "" {
		of += fmt.Sprintf(" (task class %s)", p.TaskClass)
	}
	if p.Default {
		of += " (providers.venice.default_privacy_tier)"
	}
	f := fault.Newf(fault.InvalidRequest, "%s: %s: %s", of, p.Violated, p.Violated.Requirement())
	f.Param, f.Plain = p.Violated.Member(), true
	details, err := json.Marshal(map[string]string{"constraint": string(p.Violated), "privacy_tier": p.InForce, "task_class": p.TaskClass})
	if err == nil { // strings always marshal
		f.Details = string(details)
	}
	return f
}

// CheckPrivacy returns the fault of a request that violates the constraints of its privacy tier, else nil. A web search that only the profile adds is
// omitted if the tier does not allow it. schema: the gateway enforces a schema.
func (v *View) CheckPrivacy(schema bool) error {
	p := PrivacyOf(v.Config, &v.Hints)
	if p == nil || p.InForce == "" {
		return nil
	}
	if !p.WebSearch && WantsSearch(v.Request) && !HintsSearch(&v.Hints) {
		v.NoSearch = true
	}
	return p.Check(v.Config, v.Request, v.Found, HintsSearch(&v.Hints), schema || v.Intent.Schema)
}

// HintsSearch reports whether a hint requests a web search.
func HintsSearch(h *policy.Hints) bool {
	p := h.Profile
	return h.WebSearch != nil && *h.WebSearch || p != nil && p.WebSearch != nil && *p.WebSearch
}
