package gemini

import (
	"slices"
	"strconv"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// applyProfile applies the profile to a request of this dialect. Everything else keeps its bytes.
func applyProfile(e *jsonx.Edits, req *chat.Request, o RequestOptions) (degraded []string, err error) {
	c, err := req.Conversation()
	if err != nil {
		return nil, err
	}
	w := writer{Writer: wire.Writer{Conv: c}, req: req, opts: o}
	own := c.Params
	w.resolve(own)
	if own.Stop != nil { // the provider validates the client's own
		w.params.Stop = nil
	}
	w.params.User, w.params.SchemaNote = "", ""
	w.fit(&w.params)
	var set []member
	for i, n := range numbers(&w.params) {
		if was := numbers(&own)[i].text; n.text != "" && n.text != was {
			set = append(set, member{n.name, []byte(n.text)})
		}
	}
	if req.MaxTokens == 0 && req.Profile.MaxTokens > 0 {
		set = append(set, member{"maxOutputTokens", strconv.AppendInt(nil, int64(req.Profile.MaxTokens), 10)})
	}
	if len(w.params.Stop) > 0 {
		set = append(set, member{"stopSequences", appendStrings(nil, w.params.Stop)})
	}
	if own.Schema == nil && len(w.params.Schema) > 0 {
		set = append(set, member{"responseMimeType", []byte(`"application/json"`)}, member{"responseJsonSchema", w.params.Schema})
	}
	if thinks := w.params.Effort != own.Effort || w.params.ThinkingBudget != own.ThinkingBudget || w.params.Thinking != own.Thinking; thinks {
		if config := w.planThinking(&w.params).appendTo(nil); len(config) > 0 {
			set = append(set, member{"thinkingConfig", config[len(`,"thinkingConfig":`):]})
		}
	}
	if w.searches && len(c.Tools) == 0 && !req.Doc.Get("tools").Exists() {
		e.Set(&req.Doc, "tools", jsonx.Raw(searchTool))
	}
	configure(e, &req.Doc, set)
	return w.Degraded, nil
}

// member is a member of an object: its key and its JSON.
type member struct {
	key  string
	json []byte
}

// configure sets members of the generationConfig. Existing ones, in either spelling, are replaced.
func configure(e *jsonx.Edits, d *jsonx.Doc, set []member) {
	if len(set) == 0 {
		return
	}
	at := slices.IndexFunc(d.Members, func(m jsonx.Member) bool { return camel([]byte(m.Key)) == "generationConfig" })
	if at < 0 || d.Members[at].Kind != jsonx.Object {
		key := "generationConfig"
		if at >= 0 {
			key = d.Members[at].Key
		}
		e.Set(d, key, append(append([]byte{'{'}, joined(set)...), '}'))
		return
	}
	config := d.Value(at)
	var added []member
	for _, m := range set {
		if was := get(config, m.key); was.Exists() {
			e.Replace(was.At, was.At+len(was.Raw), m.json)
		} else {
			added = append(added, m)
		}
	}
	if len(added) == 0 {
		return
	}
	text := joined(added)
	for range config.Members {
		text = append(text, ',')
		break
	}
	e.Replace(config.At+1, config.At+1, text)
}

func joined(ms []member) []byte {
	var b []byte
	for i, m := range ms {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(jsonx.AppendString(b, m.key), ':'), m.json...)
	}
	return b
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonx.AppendString(dst, s)
	}
	return append(dst, ']')
}
