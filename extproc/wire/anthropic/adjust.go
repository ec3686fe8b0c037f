package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// adjuster changes a client's own request by what its profile says. What that does not change stays as it came.
type adjuster struct {
	e    *jsonx.Edits
	d    *jsonx.Doc
	req  *chat.Request
	o    *RequestOptions
	lost []string
}

func (a *adjuster) name(word string) { a.lost = wire.Named(a.lost, word) }

func (a *adjuster) adjust() {
	c := ownConversation(a.d)
	p := plan{opts: a.o, own: c.Params, asked: a.req.MaxTokens, keepsOwn: true, lose: a.name, name: a.name}
	p.begun, p.bare = a.turn()
	p.settle(a.req.Profile, c.ToolChoice)
	p.reportUnsupported()
	a.numbers(&p)
	if p.profiled {
		a.think(&p)
	}
	if p.choice != c.ToolChoice {
		a.free(c)
	}
	a.config(&p)
	a.stop(&p)
	a.guide(&p)
	if p.sampling.MarkCache {
		a.patch().MarkStable(a.o.MinCache, len(a.d.Get("system").Raw), a.markSystem)
	}
}

// numbers sets what the profile says, and takes out what may not stand beside it.
func (a *adjuster) numbers(p *plan) {
	for _, n := range [...]struct{ key, own, said string }{
		{"temperature", p.own.Temperature, p.sampling.Temperature},
		{"top_p", p.own.TopP, p.sampling.TopP},
		{"top_k", p.own.TopK, p.sampling.TopK},
	} {
		switch n.said {
		case n.own:
		case "":
			a.e.Delete(a.d, n.key)
		default:
			a.e.Set(a.d, n.key, jsonx.Raw(n.said))
		}
	}
}

func (a *adjuster) think(p *plan) {
	if raw := p.thinkingMember(); raw != nil {
		a.e.Set(a.d, "thinking", raw)
	} else {
		a.e.Delete(a.d, "thinking")
	}
	if p.maxTokens != a.req.MaxTokens && p.thinks() {
		a.e.Set(a.d, "max_tokens", strconv.AppendInt(nil, int64(p.maxTokens), 10))
	}
}

// free takes back that the model must use a tool. How many it may use at once stays.
func (a *adjuster) free(c *chat.Conversation) {
	if c.ParallelTools != nil && !*c.ParallelTools {
		a.e.Set(a.d, "tool_choice", jsonx.Raw(`{"type":"auto","disable_parallel_tool_use":true}`))
		return
	}
	a.e.Delete(a.d, "tool_choice")
}

const (
	outputConfig = "output_config"
	lostSchema   = "response_schema" // a profile's
)

// config sets how hard to think, and the schema of the answer, beside what the client has there.
func (a *adjuster) config(p *plan) {
	schema := p.sampling.Schema
	switch {
	case len(p.own.Schema) > 0, len(schema) == 0:
		schema = nil
	case !a.o.enforces(schema), p.begun:
		a.name(lostSchema)
		schema = nil
	}
	client := a.d.Get(outputConfig)
	if !p.profiled && schema == nil || p.profiled && p.effort == "" && schema == nil && !client.Get("effort").Exists() {
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
		if k := string(key); k != "effort" || !p.profiled {
			put(k, v.Raw)
		}
	}
	if p.profiled && p.effort != "" {
		put("effort", jsonx.AppendString(nil, p.effort))
	}
	if schema != nil {
		put("format", slices.Concat([]byte(`{"type":"json_schema","schema":`), schema, []byte("}")))
	}
	if len(b) == 1 {
		a.e.Delete(a.d, outputConfig)
		return
	}
	a.e.Set(a.d, outputConfig, append(b, '}'))
}

// stop sets the profile's stop sequences; the API refuses those of white space alone.
func (a *adjuster) stop(p *plan) {
	if len(p.sampling.Stop) == 0 || !a.d.Get("stop_sequences").IsNull() {
		return
	}
	b := []byte{'['}
	for _, s := range p.sampling.Stop {
		if strings.TrimSpace(s) == "" {
			a.name("stop_sequences")
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = jsonx.AppendString(b, s)
	}
	if len(b) > 1 {
		a.e.Set(a.d, "stop_sequences", append(b, ']'))
	}
}

// guide says before the system prompt what the model has no parameter for.
func (a *adjuster) guide(p *plan) {
	if p.words == "" {
		return
	}
	if system := a.d.Get("system"); wire.IsEmpty(system) || !a.patch().Preface(system, p.words) {
		a.e.Set(a.d, "system", jsonx.AppendString(nil, p.words))
	}
}

func (a *adjuster) patch() wire.Patch { return wire.Patch{Edits: a.e, Doc: a.d} }

// markSystem marks the last block of the system prompt.
func (a *adjuster) markSystem() bool {
	system := a.d.Get("system")
	if a.patch().MarkText(system) {
		return true
	}
	var last jsonx.Value
	for _, block := range system.Each {
		last = block
	}
	return a.patch().MarkObject(last)
}

// turn tells where in its turn the model is: whether an answer is begun for it, and whether it works with tools since a turn that did
// not begin with thinking.
func (a *adjuster) turn() (begun, bare bool) {
	working, thinks := false, false
	for _, m := range a.d.Get("messages").Each {
		content := m.Get("content")
		if begun = m.Get("role").Equal("assistant"); begun {
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
	return begun, working && !thinks
}

// beginsWithThinking reports whether a turn begins with thinking that the provider gets to see.
func (a *adjuster) beginsWithThinking(content jsonx.Value) bool {
	for _, block := range content.Each {
		kind := block.Get("type")
		switch {
		case a.o.StripThinking == StripAll:
			return false
		case kind.Equal("redacted_thinking"):
			return a.o.StripThinking != StripSignatures
		case kind.Equal("thinking"):
			return a.o.StripThinking != StripUnsigned || !isEmpty(block.Get("signature"))
		}
		return false
	}
	return false
}

// ownConversation is what a request of this dialect says at its top. What is not what it should be counts as unsaid: its provider will
// say so.
func ownConversation(d *jsonx.Doc) *chat.Conversation {
	c := &chat.Conversation{}
	for i := range d.Members {
		m := &d.Members[i]
		v := jsonx.Value{Raw: jsonx.Raw(d.Bytes[m.Start:m.End]), At: m.Start}
		switch {
		case v.IsNull(), m.Key == "system", m.Key == "messages", m.Key == "tools":
		default:
			_ = readInto(c, m.Key, v)
		}
	}
	return c
}
