package responses

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// RequestOptions are the requirements of a provider's model. The zero value suits any.
type RequestOptions struct {
	Model         string   // the provider's name of the model
	Reasons       bool     // it accepts an effort, and no sampling parameters with one
	Efforts       []string // efforts that it accepts; nil: any
	FixedSampling bool     // it refuses temperature and top_p other than the defaults

	// For clients of other dialects:

	Unknown    bool // the catalog does not describe how thinking is controlled: the client's parameters are sent
	NoSummary  bool // the provider refused to summarise the reasoning
	NoThinking bool // the provider refused the history's encrypted reasoning
}

// adjuster applies the profile to a client's own request, and removes what the model refuses. Everything else keeps its bytes.
type adjuster struct {
	edits    *jsonx.Edits
	doc      *jsonx.Doc
	opts     *RequestOptions
	degraded []string
}

func (a *adjuster) degrade(names ...string) {
	for _, name := range names {
		a.degraded = wire.AppendDegraded(a.degraded, name)
	}
}

func (a *adjuster) set(key string, json []byte) { a.edits.Set(a.doc, key, json) }

func (a *adjuster) adjust(req *chat.Request) {
	if a.opts.FixedSampling {
		a.dropSampling()
	}
	p := req.Profile
	if p == nil {
		return
	}
	own := ownParams(a.doc)
	merged, overridden := p.Over(own)
	a.degrade(overridden...)
	a.sampling(own, merged)
	if merged.Effort != own.Effort {
		a.effort(merged.Effort)
	}
	if merged.ThinkingBudget != own.ThinkingBudget {
		a.degrade("thinking_budget")
	}
	if merged.CacheKey != own.CacheKey {
		a.set("prompt_cache_key", jsonx.AppendString(nil, merged.CacheKey))
	}
	if req.MaxTokens == 0 && p.MaxTokens > 0 {
		a.set("max_output_tokens", strconv.AppendInt(nil, int64(p.MaxTokens), 10))
	}
	if len(own.Schema) == 0 && len(merged.Schema) > 0 {
		a.schema(&merged)
	}
	a.reportUnsupported(&merged)
}

// reportUnsupported names the parameters that the format lacks.
func (a *adjuster) reportUnsupported(merged *chat.Params) {
	for _, u := range [...]struct {
		name string
		set  bool
	}{
		{"presence_penalty", merged.PresencePenalty != ""},
		{"frequency_penalty", merged.FrequencyPenalty != ""},
		{"seed", merged.Seed != ""},
		{"stop_sequences", len(merged.Stop) > 0},
		{"predicted_output", merged.Predicted != ""},
		{"web_search", merged.WebSearch != nil && *merged.WebSearch},
		{"tee_mode", merged.TEE},
	} {
		if u.set {
			a.degrade(u.name)
		}
	}
}

// samplingParams are the sampling parameters of the format.
var samplingParams = [...]struct {
	key string
	at  func(*chat.Params) *string
}{
	{"temperature", func(p *chat.Params) *string { return &p.Temperature }},
	{"top_p", func(p *chat.Params) *string { return &p.TopP }},
}

// dropSampling removes the parameters that the model would refuse.
func (a *adjuster) dropSampling() {
	for _, n := range samplingParams {
		if v := a.doc.Get(n.key); !v.IsNull() && strings.TrimSuffix(string(v.Raw), ".0") != "1" {
			a.edits.Delete(a.doc, n.key)
			a.degrade(n.key)
		}
	}
}

// sampling sets the profile's sampling parameters, unless the model refuses them.
func (a *adjuster) sampling(own, merged chat.Params) {
	fixed := a.opts.FixedSampling || a.opts.Reasons && merged.Effort != "none"
	merged, degraded := wire.ApproximateSampling(own, merged, false, false, !fixed)
	a.degrade(degraded...)
	for _, n := range samplingParams {
		switch was, now := *n.at(&own), *n.at(&merged); {
		case now == was:
		case fixed && strings.TrimSuffix(now, ".0") != "1":
			a.degrade(n.key)
		default:
			a.set(n.key, []byte(now))
		}
	}
}

// effort sets the effort; the client's other members of reasoning stay.
func (a *adjuster) effort(effort string) {
	if !a.opts.Reasons && effort != "" && effort != "none" || a.opts.Efforts != nil && !slices.Contains(a.opts.Efforts, effort) {
		a.degrade("reasoning_effort")
		return
	}
	a.setNested("reasoning", "effort", jsonx.AppendString(nil, effort))
}

// schema sets the profile's schema of the answer; the client's other members of text stay.
func (a *adjuster) schema(merged *chat.Params) {
	json, enforced := format(merged)
	if !enforced {
		a.degrade("response_schema")
	}
	a.setNested("text", "format", json)
}

// setNested sets a member of a top-level object, whose other members stay.
func (a *adjuster) setNested(key, member string, json []byte) {
	object := a.doc.Get(key)
	whole := append(append(jsonx.AppendString([]byte{'{'}, member), ':'), json...)
	switch inner := object.Get(member); {
	case object.Kind() != jsonx.Object || wire.IsEmpty(object):
		a.set(key, append(whole, '}'))
	case inner.Exists():
		a.edits.Replace(inner.At, inner.At+len(inner.Raw), json)
	default:
		a.edits.Replace(object.At+1, object.At+1, append(whole[1:], ','))
	}
}

// ownParams returns the parameters in a request's own members. Members of the wrong type count as absent: the provider will refuse them.
func ownParams(d *jsonx.Doc) chat.Params {
	c := chat.Conversation{Words: words}
	for key, v := range wire.TopMembers(d) {
		switch key {
		case "temperature", "top_p", "prompt_cache_key", "reasoning", "text":
			if !v.IsNull() {
				_ = readParam(&c, key, v) // see above
			}
		}
	}
	return c.Params
}
