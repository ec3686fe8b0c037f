// Package defi adds an operator's facts about tokens and protocols to requests that mention them: addresses, decimals, chains, which the model would otherwise
// guess. They are appended to the last message of the user, after everything that a provider's prompt cache may hold, and never to the system prompt. Mentions
// are found by exact symbol, name or address; a symbol of several chains needs a mention of the chain.
package defi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "defi"

// Bounds of the search for mentions.
const (
	maxTurns = 4        // from the end of the conversation
	maxText  = 32 << 10 // bytes of each text
)

// Layer adds facts. Safe for concurrent use.
type Layer struct {
	Facts     *Facts        // nil: the layer is off
	MaxTokens int           // of what is added to a request
	Plans     []policy.Tier // plans of keys whose requests get facts; empty: all
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Timed     = Layer{}
)

// Name is "defi".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileStandard}

// Profiles implements pipeline.Layer.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether facts may be added. Requests to enclaves, or with end-to-end encryption, are not changed.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Facts != nil && (len(l.Plans) == 0 || slices.Contains(l.Plans, x.Principal.Tier)) && x.Request.Op == chat.Generate && x.Request.Dialect != chat.Completions && !x.ForEnclave()
}

// expected is the expected time of Request.
const expected = 10 * time.Millisecond

// Expected implements pipeline.Timed.
func (Layer) Expected(*pipeline.Exchange) time.Duration { return expected }

// Request adds facts.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	e := pipeline.Entry{Layer: Name, Note: "facts=0"}
	text, n := l.textFor(t)
	if place, ok := appendToLast(t, x.Request.Dialect, text); n > 0 && ok {
		t.Replace(place.old, place.new)
		if err := x.Change(t); err != nil {
			return err
		}
		r := *x.Request
		r.VolatileEnd = true // the next request may have other facts: a cache mark after these would not pay
		x.Request = &r
		e.Note = fmt.Sprintf("facts=%d;added=%d", n, estimate(len(text)))
	}
	x.Log = append(x.Log, e)
	return nil
}

// estimate is the estimated number of tokens of a number of bytes.
func estimate(bytes int) int { return (2*bytes + 6) / 7 }

// textFor is the text that is added to a conversation, and the number of facts in it.
func (l Layer) textFor(t *transcript.Transcript) (text string, n int) {
	m := mentions{chains: map[int64]bool{}}
	for i := max(len(t.Turns)-maxTurns, 0); i < len(t.Turns); i++ {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			switch t.Texts[k].Kind { //nolint:exhaustive // system prompts, definitions and reasoning are not the conversation
			case transcript.User, transcript.Assistant, transcript.Arguments, transcript.Result, transcript.Document:
				s := t.String(k)
				l.Facts.findMentions(s[:min(len(s), maxText)], &m)
			}
		}
	}
	var b strings.Builder
	b.WriteString(opening)
	for _, i := range l.Facts.resolve(&m) {
		line := "\n- " + l.Facts.all[i].text
		if estimate(b.Len()+len(line)+1) > l.MaxTokens {
			break
		}
		b.WriteString(line)
		n++
	}
	b.WriteString("]")
	return b.String(), n
}

// opening tells the model the source of the facts.
const opening = "[Known facts about what is mentioned above, from the operator's list:"

// edit is a value of the document, and its replacement.
type edit struct {
	old jsonx.Value
	new jsonx.Raw
}

// appendToLast appends a text to the last turn, as a separate part if it has parts; ok is false if that turn is not the user's.
func appendToLast(t *transcript.Transcript, d chat.Dialect, text string) (e edit, ok bool) {
	if len(t.Turns) == 0 || t.Turns[len(t.Turns)-1].Role != chat.RoleUser {
		return e, false
	}
	turn := t.Turns[len(t.Turns)-1].Value
	e.old = turn
	if turn.Kind() == jsonx.Object {
		key := "content"
		if d == chat.Gemini {
			key = "parts"
		}
		e.old = turn.Get(key)
	}
	switch e.old.Kind() { //nolint:exhaustive // nothing else is a content
	case jsonx.String:
		s, _ := e.old.Str()
		e.new = jsonx.AppendString(nil, s+"\n\n"+text)
		return e, true
	case jsonx.Array:
		raw := strings.TrimRight(string(e.old.Raw[:len(e.old.Raw)-1]), " \t\r\n")
		if !strings.HasSuffix(raw, "[") {
			raw += ","
		}
		e.new = append(part([]byte(raw), d, text), ']')
		return e, true
	}
	return e, false
}

// part writes a text as a part of a message.
func part(b jsonx.Raw, d chat.Dialect, text string) jsonx.Raw {
	switch d {
	case chat.Gemini:
		b = append(b, `{"text":`...)
	case chat.Responses:
		b = append(b, `{"type":"input_text","text":`...)
	default:
		b = append(b, `{"type":"text","text":`...)
	}
	return append(jsonx.AppendString(b, text), '}')
}
