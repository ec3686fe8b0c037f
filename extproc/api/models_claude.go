package api

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// claudeModel is one model of the merged catalog in the form of Anthropic's Models API, with the gateway's own facts. The features that OpenAI's form
// has as capabilities are called features here, because Anthropic's capabilities are an object.
type claudeModel struct {
	Type         string              `json:"type"`
	ID           string              `json:"id"`
	DisplayName  string              `json:"display_name"`
	CreatedAt    time.Time           `json:"created_at"` // always the epoch: the release date is unknown
	Lifecycle    string              `json:"lifecycle"`
	DeprecatedAt *time.Time          `json:"deprecated_at"`
	RetiresAt    *time.Time          `json:"retires_at"`
	Line         *string             `json:"line"`
	MaxInput     *int                `json:"max_input_tokens"` // nil: unknown
	MaxTokens    *int                `json:"max_tokens"`
	Capabilities *claudeCapabilities `json:"capabilities"` // nil: unknown
	Features     []policy.Feature    `json:"features"`
	modelFacts
}

// lifecycleActive is the stage of every model that is listed.
const lifecycleActive = "active"

// support states whether a model supports a feature.
type support struct {
	Supported bool `json:"supported"`
}

// claudeCapabilities are a model's capabilities, by the names of Anthropic's Models API.
type claudeCapabilities struct {
	Batch             support                 `json:"batch"`
	Citations         support                 `json:"citations"`
	CodeExecution     support                 `json:"code_execution"`
	ContextManagement claudeContextManagement `json:"context_management"`
	Effort            claudeEffort            `json:"effort"`
	Images            support                 `json:"image_input"`
	PDF               support                 `json:"pdf_input"`
	ServerTools       claudeServerTools       `json:"server_tools"`
	StructuredOutputs support                 `json:"structured_outputs"`
	Thinking          claudeThinking          `json:"thinking"`
}

type claudeContextManagement struct {
	ClearThinking support `json:"clear_thinking_20251015"`
	ClearToolUses support `json:"clear_tool_uses_20250919"`
	Compact       support `json:"compact_20260112"`
	support
}

type claudeEffort struct {
	High   support `json:"high"`
	Low    support `json:"low"`
	Max    support `json:"max"`
	Medium support `json:"medium"`
	XHigh  support `json:"xhigh"`
	support
}

type claudeServerTools struct {
	CodeExecution support `json:"code_execution"`
	WebSearch     support `json:"web_search"`
	support
}

type claudeThinking struct {
	Types claudeThinkingTypes `json:"types"`
	support
}

type claudeThinkingTypes struct {
	Adaptive     support `json:"adaptive"`
	BetweenTools support `json:"between_tools"`
	Disabled     support `json:"disabled"`
	Enabled      support `json:"enabled"`
}

func (s *Server) claudeModel(o *resolve.Offer) claudeModel {
	m := newClaudeModel(o.ID, s.facts(o))
	m.MaxTokens, m.Capabilities = known(o.MaxOutput), newClaudeCapabilities(o)
	return m
}

func localClaudeModel(m *localembed.Model) claudeModel {
	out := newClaudeModel(m.ID, localFacts(m))
	out.Capabilities = new(claudeCapabilities)
	out.Capabilities.Thinking.Types.Disabled = support{true}
	return out
}

// newClaudeModel returns a model without its capabilities.
func newClaudeModel(id policy.ModelID, f modelFacts) claudeModel {
	return claudeModel{
		Type: "model", ID: string(id), DisplayName: string(id), CreatedAt: time.Unix(0, 0).UTC(), Lifecycle: lifecycleActive,
		MaxInput: known(f.Context), Features: f.Capabilities, modelFacts: f,
	}
}

// known returns a pointer to n; nil for 0.
func known(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// newClaudeCapabilities returns what a model supports at one of its providers at least; nil if unknown. What the gateway knows of no model, such as
// between_tools, and what it only passes on with a caller's own key, such as code execution, counts as unsupported.
func newClaudeCapabilities(o *resolve.Offer) *claudeCapabilities {
	if o.Capabilities == nil {
		return nil
	}
	can := func(f policy.Feature) support {
		return support{slices.ContainsFunc(o.Abilities, func(a resolve.Ability) bool { return slices.Contains(a.Features, f) })}
	}
	c := claudeCapabilities{
		Batch: can(policy.BatchAPI), Citations: can(policy.Citations), Effort: newClaudeEffort(o), Images: can(policy.Vision),
		PDF:               support{slices.ContainsFunc(o.Abilities, func(a resolve.Ability) bool { return a.Documents })},
		StructuredOutputs: can(policy.StructuredOutputs), Thinking: newClaudeThinking(o),
	}
	vendor := atVendor(o)
	edits := support{vendor != nil && c.Thinking.Supported} // the catalog does not list it; the vendor's thinking models support it
	c.ContextManagement = claudeContextManagement{edits, edits, can(policy.Compaction), edits}
	c.ContextManagement.Supported = edits.Supported || c.ContextManagement.Compact.Supported
	c.ServerTools.WebSearch = support{vendor != nil && vendor.Prices.SearchKnown} // refused without a price
	c.ServerTools.support = c.ServerTools.WebSearch
	return &c
}

// atVendor returns a model as offered by the format's own vendor, which supports what only its API has; nil if it does not offer it.
func atVendor(o *resolve.Offer) *catalog.Model {
	for i := range o.Offers {
		if m := &o.Offers[i]; o.Abilities[i].Vendor && m.Vendor == policy.ProviderID(chat.Anthropic) {
			return m
		}
	}
	return nil
}

// newClaudeEffort returns the efforts that a model supports. A model that accepts any effort has those that all such models have.
func newClaudeEffort(o *resolve.Offer) (e claudeEffort) {
	t := &o.Thinking
	takes := t.Efforts
	if takes == nil && (t.Control == policy.ControlEffort || t.Control == policy.ControlLevel || t.Control == policy.ControlAdaptive) {
		takes = []string{"low", "medium", "high"}
	}
	for word, to := range map[string]*support{"low": &e.Low, "medium": &e.Medium, "high": &e.High, "xhigh": &e.XHigh, "max": &e.Max} {
		to.Supported = slices.Contains(takes, word)
		e.Supported = e.Supported || to.Supported
	}
	return e
}

// newClaudeThinking returns how a model's thinking is controlled: by a budget, or adaptively; models of other vendors take both, which are
// translated. "disabled" is unsupported if the model thinks regardless.
func newClaudeThinking(o *resolve.Offer) (t claudeThinking) {
	control := o.Thinking.Control
	t.Supported = thinks(o)
	t.Types.Adaptive.Supported = t.Supported && control != policy.ControlBudget
	t.Types.Enabled.Supported = t.Supported && control != policy.ControlAdaptive
	t.Types.Disabled.Supported = control != policy.ControlAlways && o.Thinking.Default != policy.ThinksAlways
	return t
}

// thinks reports whether a model is known to think.
func thinks(o *resolve.Offer) bool {
	switch o.Thinking.Control {
	case policy.ControlNone:
		return false
	case policy.ControlUsual:
		return slices.ContainsFunc(o.Capabilities, func(f policy.Feature) bool {
			return f == policy.VisibleThinking || f == policy.InterleavedThinking || f == policy.AdaptiveThinking
		})
	default:
		return o.Reasoning != "none"
	}
}

func (s *Server) claudeModels(c *Caller, offers []resolve.Offer) (stream.Reply, error) {
	all := make([]claudeModel, 0, len(offers)+1)
	for i := range offers {
		all = append(all, s.claudeModel(&offers[i]))
	}
	if m := c.local(); m != nil {
		all = append(all, localClaudeModel(m))
	}
	list := struct {
		Data    []claudeModel `json:"data"`
		FirstID *string       `json:"first_id"`
		HasMore bool          `json:"has_more"`
		LastID  *string       `json:"last_id"`
	}{}
	var err error
	if list.Data, list.HasMore, err = claudePage(all, c.Head.Query); err != nil {
		return stream.Reply{}, err
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	body, err := json.Marshal(list)
	return c.Head.JSON(body), err
}

// maxPage is the maximum limit of the Models API.
const maxPage = 1000

// claudePage returns the part of a list that a query requests, and whether there is more in its direction. Without a limit all are on one page, for
// clients that do not paginate. The error is a fault.
func claudePage(all []claudeModel, query string) (page []claudeModel, more bool, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, false, fault.New(fault.InvalidRequest, "the query string cannot be read", err)
	}
	if stages := slices.Concat(q["lifecycle"], q["lifecycle[]"]); len(stages) > 0 && !slices.Contains(strings.Split(strings.Join(stages, ","), ","), lifecycleActive) {
		return []claudeModel{}, false, nil
	}
	limit := len(all)
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return nil, false, queryFault("limit", text, "a number from 1 to 1000")
		}
	}
	after, before := q.Get("after_id"), q.Get("before_id")
	if after != "" && before != "" {
		return nil, false, queryFault("before_id", before, "no after_id beside it")
	}
	at := slices.IndexFunc(all, func(m claudeModel) bool { return m.ID == after || m.ID == before })
	switch {
	case after == "" && before == "":
	case at < 0:
		return nil, false, queryFault(map[bool]string{true: "after_id", false: "before_id"}[after != ""], after+before, "the id of a model of the list")
	case before != "":
		from := max(at-limit, 0)
		return all[from:at], from > 0, nil
	default:
		all = all[at+1:]
	}
	return all[:min(limit, len(all))], limit < len(all), nil
}

func queryFault(name, got, want string) error {
	f := fault.Newf(fault.InvalidRequest, "%s: %q, expected %s", name, fault.Clip(got), want)
	f.Param = name
	return f
}
