package responses

import (
	"slices"
	"strconv"
	"strings"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// RequestOptions say what a provider's model wants to read. The zero value suits any.
type RequestOptions struct {
	Model         string   // the name the provider knows the model by
	Reasons       bool     // it takes an effort, and no sampling beside one
	Efforts       []string // that it takes; nil: whatever comes
	FixedSampling bool     // it refuses temperature and top_p but for the values that are usual anyway

	// Of clients of other dialects:

	Unknown    bool // nobody said how the model is told to think: what the client says is said
	NoSummary  bool // the provider refused to summarise what the model thinks
	NoThinking bool // the provider refused the history's encrypted reasoning
}

// adjuster changes a client's own request by what its profile says, and by what the model refuses. What neither changes stays as it came.
type adjuster struct {
	e    *jsonx.Edits
	d    *jsonx.Doc
	o    *RequestOptions
	lost []string
}

func (a *adjuster) lose(names ...string) {
	for _, name := range names {
		a.lost = wire.Named(a.lost, name)
	}
}

func (a *adjuster) set(key string, json []byte) { a.e.Set(a.d, key, json) }

func (a *adjuster) adjust(req *chat.Request) {
	if a.o.FixedSampling {
		a.dropSampling()
	}
	p := req.Profile
	if p == nil {
		return
	}
	own := ownParams(a.d)
	said, overridden := p.Over(own)
	a.lose(overridden...)
	a.sampling(own, said)
	if said.Effort != own.Effort {
		a.effort(said.Effort)
	}
	if said.ThinkingBudget != own.ThinkingBudget {
		a.lose("thinking_budget")
	}
	if said.CacheKey != own.CacheKey {
		a.set("prompt_cache_key", jsonx.AppendString(nil, said.CacheKey))
	}
	if req.MaxTokens == 0 && p.MaxTokens > 0 {
		a.set("max_output_tokens", strconv.AppendInt(nil, int64(p.MaxTokens), 10))
	}
	if len(own.Schema) == 0 && len(said.Schema) > 0 {
		a.schema(&said)
	}
	a.reportUnsupported(&said)
}

// reportUnsupported names the parameters that the format lacks.
func (a *adjuster) reportUnsupported(said *chat.Params) {
	for _, u := range [...]struct {
		name string
		said bool
	}{
		{"presence_penalty", said.PresencePenalty != ""},
		{"frequency_penalty", said.FrequencyPenalty != ""},
		{"seed", said.Seed != ""},
		{"stop_sequences", len(said.Stop) > 0},
		{"predicted_output", said.Predicted != ""},
		{"web_search", said.WebSearch != nil && *said.WebSearch},
		{"tee_mode", said.TEE},
	} {
		if u.said {
			a.lose(u.name)
		}
	}
}

// drawn are the parameters of how words are drawn.
var drawn = [...]struct {
	key string
	at  func(*chat.Params) *string
}{
	{"temperature", func(p *chat.Params) *string { return &p.Temperature }},
	{"top_p", func(p *chat.Params) *string { return &p.TopP }},
}

// dropSampling takes out what the model would refuse.
func (a *adjuster) dropSampling() {
	for _, n := range drawn {
		if v := a.d.Get(n.key); !v.IsNull() && strings.TrimSuffix(string(v.Raw), ".0") != "1" {
			a.e.Delete(a.d, n.key)
			a.lose(n.key)
		}
	}
}

// sampling sets what the profile says of how words are drawn, unless the model takes no word about it.
func (a *adjuster) sampling(own, said chat.Params) {
	fixed := a.o.FixedSampling || a.o.Reasons && said.Effort != "none"
	said, lost := wire.Draws(own, said, false, false, !fixed)
	a.lose(lost...)
	for _, n := range drawn {
		switch was, now := *n.at(&own), *n.at(&said); {
		case now == was:
		case fixed && strings.TrimSuffix(now, ".0") != "1":
			a.lose(n.key)
		default:
			a.set(n.key, []byte(now))
		}
	}
}

// effort says how hard to think, beside what else the client says of it.
func (a *adjuster) effort(effort string) {
	if !a.o.Reasons && effort != "" && effort != "none" || a.o.Efforts != nil && !slices.Contains(a.o.Efforts, effort) {
		a.lose("reasoning_effort")
		return
	}
	a.beside("reasoning", "effort", jsonx.AppendString(nil, effort))
}

// schema asks for an answer by the profile's schema, beside what else the client says of its text.
func (a *adjuster) schema(said *chat.Params) {
	json, enforced := format(said)
	if !enforced {
		a.lose("response_schema")
	}
	a.beside("text", "format", json)
}

// beside sets a member of an object at the top, and keeps the others.
func (a *adjuster) beside(key, member string, json []byte) {
	object := a.d.Get(key)
	whole := append(append(jsonx.AppendString([]byte{'{'}, member), ':'), json...)
	switch inner := object.Get(member); {
	case object.Kind() != jsonx.Object || wire.IsEmpty(object):
		a.set(key, append(whole, '}'))
	case inner.Exists():
		a.e.Replace(inner.At, inner.At+len(inner.Raw), json)
	default:
		a.e.Replace(object.At+1, object.At+1, append(whole[1:], ','))
	}
}

// ownParams are the parameters that a request says itself. What is not what it should be counts as unsaid: its provider will say so.
func ownParams(d *jsonx.Doc) chat.Params {
	c := chat.Conversation{Words: words}
	for i := range d.Members {
		m := &d.Members[i]
		switch m.Key {
		case "temperature", "top_p", "prompt_cache_key", "reasoning", "text":
			if v := (jsonx.Value{Raw: d.Bytes[m.Start:m.End], At: m.Start}); !v.IsNull() {
				_ = readParam(&c, m.Key, v) // as said above
			}
		}
	}
	return c.Params
}
