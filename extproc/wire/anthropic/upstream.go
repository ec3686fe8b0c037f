package anthropic

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// defaultMaxTokens is the answer's limit when neither the caller nor the catalog knows one: this format demands one.
const defaultMaxTokens = 4096

// RequestOptions say what a provider wants to read. The zero value suits any server that speaks this format.
type RequestOptions struct {
	Model             string   // the name the provider knows the model by
	MaxOutput         int      // the model's output limit in tokens; 0 if unknown
	MinCache          int      // least tokens of a prompt's beginning that the provider caches; 0 if unknown
	Adaptive          bool     // the model takes an effort, not a budget of thinking tokens
	StructuredOutputs bool     // the model takes output_config.format, and strict tools
	Unknown           bool     // nobody knows whether it takes output_config.format: a client's schema is sent
	StripThinking     Strip    // what of the history's thinking the provider must not see
	NoThinking        bool     // the model does not think by any parameter
	FixedSampling     bool     // the model refuses temperature, top_p and top_k: clients of every dialect lose them
	Efforts           []string // the efforts that a model of no budget takes, least first; nil: the API's usual ones
	Thinks            policy.ThinkingDefault
	NoContextEdits    bool // the provider knows nothing of context_management, of which a beta flag tells
}

// alwaysThinks reports whether the model thinks whatever it is told.
func (o *RequestOptions) alwaysThinks() bool { return o.Adaptive && o.Thinks == policy.ThinksAlways }

// forces reports whether a client's own request says that a tool must be used.
func forces(d *jsonx.Doc) bool {
	kind := d.Get("tool_choice").Get("type")
	return kind.Equal("any") || kind.Equal("tool")
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not say. A
// request in the same dialect is spliced: what need not change does not. A request in another is written from its
// conversation, always in the same order. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.Anthropic {
		body, degraded = splice(buf, req, o)
		return body, degraded, nil
	}
	c, err := req.Conversation()
	if err != nil {
		return nil, nil, err
	}
	if err := wire.CheckCalls(c); err != nil {
		return nil, nil, err
	}
	if err := (wire.Target{Dialect: chat.Anthropic}).CheckContent(c, req.Dialect); err != nil {
		return nil, nil, err
	}
	w := writer{Writer: wire.Writer{Dst: buf, Conv: c}, req: req, opts: o}
	if w.turns, err = w.alternate(); err != nil {
		return nil, nil, err
	}
	w.prepare()
	w.request()
	return w.Dst, w.Degraded, w.Refused
}

func splice(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string) {
	e, d := req.Edit, &req.Doc
	otherModel := o.Model != "" && !d.Get("model").Equal(o.Model)
	fixed := o.FixedSampling && req.Op == chat.Generate && samples(d)
	adjusts := req.Op == chat.Generate && (req.Profile != nil || o.alwaysThinks() && forces(d))
	cites := mayCite(d)
	if fixed || otherModel || cites || o.StripThinking != StripNothing || o.NoContextEdits || adjusts {
		e = req.Edit.Clone()
	}
	if otherModel {
		e.Set(d, "model", jsonx.AppendString(nil, o.Model))
	}
	degraded = stripThinking(&e, d, o.StripThinking)
	if cites && dropCitations(&e, d) {
		degraded = append(degraded, citations)
	}
	if o.NoContextEdits && d.Get("context_management").Exists() {
		e.Delete(d, "context_management")
		degraded = append(degraded, "context_management")
	}
	if fixed {
		degraded = append(degraded, dropSampling(&e, d)...)
	}
	if adjusts {
		a := adjuster{e: &e, d: d, req: req, o: &o, lost: degraded}
		a.adjust()
		degraded = a.lost
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded
}

// sampling are the parameters of how a model draws its words, and the value that says nothing.
var sampling = [...]struct{ key, usual string }{{"temperature", "1"}, {"top_p", "1"}, {"top_k", ""}}

// samples reports whether a request says anything about it that some models refuse.
func samples(d *jsonx.Doc) bool {
	for _, s := range sampling {
		if unusual(d.Get(s.key), s.usual) {
			return true
		}
	}
	return false
}

func unusual(v jsonx.Value, usual string) bool {
	return !v.IsNull() && (usual == "" || strings.TrimSuffix(string(v.Raw), ".0") != usual)
}

// dropSampling takes out what the model would refuse, and names it.
func dropSampling(e *jsonx.Edits, d *jsonx.Doc) (lost []string) {
	for _, s := range sampling {
		if unusual(d.Get(s.key), s.usual) {
			e.Delete(d, s.key)
			lost = append(lost, s.key)
		}
	}
	return lost
}
