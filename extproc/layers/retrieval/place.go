package retrieval

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/jsonx"
)

// formatted is a result as a text of the conversation.
func formatted(r *Result) string {
	return (&wire.SearchResult{Source: r.Source, Title: r.Title, Text: r.Text}).String()
}

// place is the position of results: in a content of the last message.
type place struct {
	dialect chat.Dialect
	value   jsonx.Value // a string, or an array of parts
	index   int         // of the part before which they are inserted; in a string, 0 is before and 1 after it
	whole   bool        // the value is the input of the Responses API, not a content
}

// findPlace is the place of results: in the last turn, if it has a text of the user, after results of tools and all parts with cache marks, and if these allow
// it, before the user's text. ok is false for any other turn.
func findPlace(t *transcript.Transcript, d chat.Dialect) (p place, ok bool) {
	if len(t.Turns) == 0 || t.Turns[len(t.Turns)-1].Role != chat.RoleUser {
		return p, false
	}
	turn := &t.Turns[len(t.Turns)-1]
	p = place{dialect: d, value: turn.Value}
	if turn.Value.Kind() == jsonx.Object {
		p.value = turn.Value.Get(contentKey(d))
	} else {
		p.whole = d == chat.Responses
	}
	switch p.value.Kind() { //nolint:exhaustive // nothing else is a content
	case jsonx.String:
		if turn.Marked {
			p.index = 1
		}
		return p, true
	case jsonx.Array:
		p.index, ok = indexIn(p.value)
		return p, ok
	}
	return p, false
}

func contentKey(d chat.Dialect) string {
	if d == chat.Gemini {
		return "parts"
	}
	return "content"
}

// indexIn is the index in an array of parts; ok is false if no part is a text of the user.
func indexIn(parts jsonx.Value) (index int, ok bool) {
	behind, text := 0, -1
	for i, e := range parts.Each {
		switch {
		case e.Get("type").Equal("tool_result"), e.Get("functionResponse").Exists(), e.Get("function_response").Exists():
			behind, text = i+1, -1
		case text < 0 && isText(e):
			text = i
		}
		if isMarked(e) {
			behind = i + 1
		}
	}
	return max(behind, text), text >= 0
}

func isText(part jsonx.Value) bool {
	thought, _ := part.Get("thought").Bool()
	return part.Get("text").Kind() == jsonx.String && !thought
}

// isMarked reports whether a part, or one inside it, has a cache mark.
func isMarked(part jsonx.Value) bool {
	if !part.Get("cache_control").IsNull() {
		return true
	}
	for _, e := range part.Get("content").Each {
		if !e.Get("cache_control").IsNull() {
			return true
		}
	}
	return false
}

// with is the value with results.
func (p *place) with(results []chosen) jsonx.Raw {
	b := jsonx.Raw("[")
	if p.whole {
		b = append(b, `{"role":"user","content":[`...)
	}
	if text, ok := p.value.Str(); ok {
		b = p.aroundText(b, text, results)
	} else {
		b = p.between(b, results)
	}
	if p.whole {
		b = append(b, "]}"...)
	}
	return append(b, ']')
}

func (p *place) aroundText(b jsonx.Raw, text string, results []chosen) jsonx.Raw {
	if p.index == 0 {
		return p.part(p.parts(b, results), text)
	}
	b = append(p.part(b, text), ',')
	b = p.parts(b, results)
	return b[:len(b)-1]
}

func (p *place) between(b jsonx.Raw, results []chosen) jsonx.Raw {
	n := 0
	for i, e := range p.value.Each {
		if i == p.index {
			b = p.parts(b, results)
		}
		b = append(append(b, e.Raw...), ',')
		n++
	}
	if p.index >= n {
		b = p.parts(b, results)
	}
	return b[:len(b)-1]
}

// parts writes results, each as a part and a comma.
func (p *place) parts(b jsonx.Raw, results []chosen) jsonx.Raw {
	for i := range results {
		b = append(p.part(b, results[i].text), ',')
	}
	return b
}

// part writes a text as a part of a message.
func (p *place) part(b jsonx.Raw, text string) jsonx.Raw {
	switch p.dialect {
	case chat.Gemini:
		b = append(b, `{"text":`...)
	case chat.Responses:
		b = append(b, `{"type":"input_text","text":`...)
	default:
		b = append(b, `{"type":"text","text":`...)
	}
	return append(jsonx.AppendString(b, text), '}')
}
