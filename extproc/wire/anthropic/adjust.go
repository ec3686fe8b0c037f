package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// adjuster applies the profile to a client's own request. Everything else keeps its bytes.
type adjuster struct {
	edits    *jsonx.Edits
	doc      *jsonx.Doc
	req      *chat.Request
	opts     *RequestOptions
	degraded []string
}

func (a *adjuster) degradeAs(word string) { a.degraded = wire.AppendDegraded(a.degraded, word) }

func (a *adjuster) adjust() {
	c := ownConversation(a.doc)
	p := plan{opts: a.opts, own: c.Params, requested: a.req.MaxTokens, keepsOwn: true, degrade: a.degradeAs, degradeAs: a.degradeAs}
	p.prefilled, p.withoutThinking = a.turn()
	p.resolve(a.req.Profile, c.ToolChoice)
	p.reportUnsupported()
	a.numbers(&p)
	if p.byProfile {
		a.think(&p)
	}
	if p.choice != c.ToolChoice {
		a.relaxChoice(c)
	}
	a.config(&p)
	a.stop(&p)
	a.guide(&p)
}

// numbers sets the profile's sampling parameters, and removes those that the API refuses in combination.
func (a *adjuster) numbers(p *plan) {
	for _, n := range [...]struct{ key, own, wanted string }{
		{"temperature", p.own.Temperature, p.sampling.Temperature},
		{"top_p", p.own.TopP, p.sampling.TopP},
		{"top_k", p.own.TopK, p.sampling.TopK},
	} {
		switch n.wanted {
		case n.own:
		case "":
			a.edits.Delete(a.doc, n.key)
		default:
			a.edits.Set(a.doc, n.key, jsonx.Raw(n.wanted))
		}
	}
}

func (a *adjuster) think(p *plan) {
	if raw := p.thinkingMember(); raw != nil {
		a.edits.Set(a.doc, "thinking", raw)
	} else {
		a.edits.Delete(a.doc, "thinking")
	}
	if p.maxTokens != a.req.MaxTokens && p.thinks() {
		a.edits.Set(a.doc, "max_tokens", strconv.AppendInt(nil, int64(p.maxTokens), 10))
	}
}

// relaxChoice removes the requirement to use a tool. The limit to one call stays.
func (a *adjuster) relaxChoice(c *chat.Conversation) {
	if c.ParallelTools != nil && !*c.ParallelTools {
		a.edits.Set(a.doc, "tool_choice", jsonx.Raw(`{"type":"auto","disable_parallel_tool_use":true}`))
		return
	}
	a.edits.Delete(a.doc, "tool_choice")
}

const (
	outputConfig   = "output_config"
	responseSchema = "response_schema" // a profile's schema, as a degraded name
)

// config sets the effort and the schema of the answer; the client's other members stay.
func (a *adjuster) config(p *plan) {
	schema := p.sampling.Schema
	switch {
	case len(p.own.Schema) > 0, len(schema) == 0:
		schema = nil
	case !a.opts.enforces(schema), p.prefilled:
		a.degradeAs(responseSchema)
		schema = nil
	}
	client := a.doc.Get(outputConfig)
	if !p.byProfile && schema == nil || p.byProfile && p.effort == "" && schema == nil && !client.Get("effort").Exists() {
		return
	}
	b := []byte{'{'}
	put := func(key string, raw []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(jsonx.AppendString(b, key), ':'), raw...)
	}
	for key, v := range client.Members {
		if k := string(key); k != "effort" || !p.byProfile {
			put(k, v.Raw)
		}
	}
	if p.byProfile && p.effort != "" {
		put("effort", jsonx.AppendString(nil, p.effort))
	}
	if schema != nil {
		put("format", slices.Concat([]byte(`{"type":"json_schema","schema":`), schema, []byte("}")))
	}
	if len(b) == 1 {
		a.edits.Delete(a.doc, outputConfig)
		return
	}
	a.edits.Set(a.doc, outputConfig, append(b, '}'))
}

// stop sets the profile's stop sequences. The API refuses blank ones.
func (a *adjuster) stop(p *plan) {
	if len(p.sampling.Stop) == 0 || !a.doc.Get("stop_sequences").IsNull() {
		return
	}
	b := []byte{'['}
	for _, s := range p.sampling.Stop {
		if strings.TrimSpace(s) == "" {
			a.degradeAs("stop_sequences")
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, s)
	}
	if len(b) > 1 {
		a.edits.Set(a.doc, "stop_sequences", append(b, ']'))
	}
}

// guide inserts text before the system prompt, in place of a parameter that the model lacks.
func (a *adjuster) guide(p *plan) {
	if p.guidance == "" {
		return
	}
	if system := a.doc.Get("system"); wire.IsEmpty(system) || !a.patch().PrependText(system, p.guidance) {
		a.edits.Set(a.doc, "system", jsonx.AppendString(nil, p.guidance))
	}
}

func (a *adjuster) patch() wire.Patch { return wire.Patch{Edits: a.edits, Doc: a.doc} }

// turn returns the state of the model's turn: prefilled is whether the client started the answer, and withoutThinking whether the model
// uses tools in a turn that does not start with thinking.
func (a *adjuster) turn() (prefilled, withoutThinking bool) {
	working, thinks := false, false
	for _, m := range a.doc.Get("messages").Each {
		content := m.Get("content")
		if prefilled = m.Get("role").Equal("assistant"); prefilled {
			if !working {
				thinks = a.beginsWithThinking(content)
			}
			continue
		}
		working = false
		for _, block := range content.Each {
			working = working || block.Get("type").Equal("tool_result")
		}
	}
	return prefilled, working && !thinks
}

// beginsWithThinking reports whether a turn starts with thinking that is sent to the provider.
func (a *adjuster) beginsWithThinking(content jsonx.Value) bool {
	for _, block := range content.Each {
		kind := block.Get("type")
		switch {
		case a.opts.StripThinking == StripAll:
			return false
		case kind.Equal("redacted_thinking"):
			return a.opts.StripThinking != StripSignatures
		case kind.Equal("thinking"):
			return a.opts.StripThinking != StripUnsigned || !isEmpty(block.Get("signature"))
		}
		return false
	}
	return false
}

// ownConversation returns the parameters in a request's own top-level members. Members of the wrong type count as absent: the provider will
// refuse them.
func ownConversation(d *jsonx.Doc) *chat.Conversation {
	c := &chat.Conversation{}
	for key, v := range wire.TopMembers(d) {
		switch {
		case v.IsNull(), key == "system", key == "messages", key == "tools":
		default:
			_ = readInto(c, key, v)
		}
	}
	return c
}
