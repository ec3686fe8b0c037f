package anthropic

import (
	"slices"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// defaultMaxTokens is the limit of the answer if neither the client nor the catalog has one: the API requires one.
const defaultMaxTokens = 4096

// RequestOptions are a provider's requirements. The zero value suits any server that speaks this format.
type RequestOptions struct {
	Model             string   // the provider's name of the model
	MaxOutput         int      // the model's output limit in tokens; 0 if unknown
	MinCache          int      // minimum size in tokens of a prefix that the provider caches; 0 if unknown
	Adaptive          bool     // the model accepts an effort, not a budget of thinking tokens
	StructuredOutputs bool     // the model accepts output_config.format, and strict tools
	Unknown           bool     // unknown whether it accepts output_config.format: a client's schema is sent
	StripThinking     Strip    // the thinking of the history to remove
	NoThinking        bool     // the model has no parameter for thinking
	FixedSampling     bool     // the model refuses temperature, top_p and top_k: they are dropped for clients of every dialect
	Efforts           []string // the efforts of a model without budgets, in ascending order; nil: the API's usual ones
	Thinks            policy.ThinkingDefault
	NoContextEdits    bool // the provider does not support context_management: it refused the beta flag
	SearchResults     bool // the model supports search_result blocks
}

// alwaysThinks reports whether thinking cannot be disabled.
func (o *RequestOptions) alwaysThinks() bool { return o.Adaptive && o.Thinks == policy.ThinksAlways }

// forces reports whether a client's own request requires a tool call.
func forces(d *jsonx.Doc) bool {
	kind := d.Get("tool_choice").Get("type")
	return kind.Equal("any") || kind.Equal("tool")
}

// EncodeRequest appends to buf the body for a provider that speaks this format, and names what it could not express. A request in the same
// dialect is spliced: bytes that need no change do not change. A request in another one is written from its conversation, always in the same
// order. The error is a fault.
func EncodeRequest(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string, err error) {
	if req.Dialect == chat.Anthropic {
		if o.SearchResults {
			req = wire.ResultBlocks(req, cites(req))
		}
		body, degraded = splice(buf, req, o)
		return body, degraded, nil
	}
	c, err := wire.Target{Dialect: chat.Anthropic}.Conversation(req)
	if err != nil {
		return nil, nil, err
	}
	c, cut := wire.LimitMarks(c)
	w := writer{Writer: wire.Writer{Dst: buf, Conv: wire.Mark(c, req.Cache, o.MinCache)}, req: req, opts: o}
	if cut {
		w.Degrade("cache_control")
	}
	if w.turns, err = w.alternate(); err != nil {
		return nil, nil, err
	}
	w.prepare()
	w.request()
	return w.Dst, w.Degraded, w.Refused
}

// cites reports whether results that the gateway added may be cited: the client requested citations, and the answer has no schema, with
// which the API refuses citations.
func cites(req *chat.Request) bool {
	return req.Cites && (req.Profile == nil || len(req.Profile.Default.Schema)+len(req.Profile.Locked.Schema) == 0) && req.Doc.Get("output_config").Get("format").IsNull() && req.Doc.Get("output_format").IsNull()
}

func splice(buf []byte, req *chat.Request, o RequestOptions) (body []byte, degraded []string) {
	e, d := req.Edit, &req.Doc
	otherModel := o.Model != "" && !d.Get("model").Equal(o.Model)
	fixed := o.FixedSampling && req.Op == chat.Generate && samples(d)
	adjusts := req.Op == chat.Generate && (req.Profile != nil || o.alwaysThinks() && forces(d))
	cites := mayCite(d)
	marks := req.Op == chat.Generate && req.Cache.SetsMarks()
	if marks || fixed || otherModel || cites || o.StripThinking != StripNothing || o.NoContextEdits || adjusts {
		e = req.Edit.Clone()
	}
	if otherModel {
		e.Set(d, "model", jsonx.AppendString(nil, o.Model))
	}
	degraded = stripThinking(&e, d, o.StripThinking)
	if cites && dropCitations(&e, d) {
		degraded = append(degraded, keyCitations)
	}
	if o.NoContextEdits && d.Get("context_management").Exists() {
		e.Delete(d, "context_management")
		degraded = append(degraded, "context_management")
	}
	if fixed {
		degraded = append(degraded, dropSampling(&e, d)...)
	}
	if adjusts {
		a := adjuster{edits: &e, doc: d, req: req, opts: &o, degraded: degraded}
		a.adjust()
		degraded = a.degraded
	}
	if marks {
		wire.Patch{Edits: &e, Doc: d}.Mark(req.Cache, o.MinCache, []jsonx.Value{d.Get("system")}, lastContent(d))
	}
	return e.AppendTo(slices.Grow(buf, e.Len(d)), d), degraded
}

// lastContent returns the content of the last message, if it is the user's.
func lastContent(d *jsonx.Doc) (content jsonx.Value) {
	for _, m := range d.Get("messages").Each {
		content = jsonx.Value{}
		if m.Get("role").Equal("user") {
			content = m.Get("content")
		}
	}
	return content
}

// sampling are the sampling parameters that models may refuse, and their default values.
var sampling = [...]struct{ key, defaultValue string }{{"temperature", "1"}, {"top_p", "1"}, {"top_k", ""}}

// samples reports whether a request sets a sampling parameter that some models refuse.
func samples(d *jsonx.Doc) bool {
	for _, s := range sampling {
		if isNonDefault(d.Get(s.key), s.defaultValue) {
			return true
		}
	}
	return false
}

func isNonDefault(v jsonx.Value, defaultValue string) bool {
	return !v.IsNull() && (defaultValue == "" || strings.TrimSuffix(string(v.Raw), ".0") != defaultValue)
}

// dropSampling removes the parameters that the model would refuse, and names them.
func dropSampling(e *jsonx.Edits, d *jsonx.Doc) (degraded []string) {
	for _, s := range sampling {
		if isNonDefault(d.Get(s.key), s.defaultValue) {
			e.Delete(d, s.key)
			degraded = append(degraded, s.key)
		}
	}
	return degraded
}
