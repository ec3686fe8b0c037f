// Package defi adds what the operator knows of tokens and protocols to requests that mention them: addresses, decimals, chains. A model that has these
// before it does not have to guess them. They stand at the end of the last message of the user, behind all that a provider's prompt cache may hold, and
// never in the system prompt. What is mentioned is found by exact symbol, name or address; a symbol of several chains needs a chain.
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

// The bounds of what is read.
const (
	turns    = 4        // at the end of the conversation
	mostText = 32 << 10 // bytes of each text
)

// Layer adds facts. Safe for concurrent use.
type Layer struct {
	Facts     *Facts        // nil: the layer is off
	MaxTokens int           // of what is added to a request
	Plans     []policy.Tier // of keys whose requests get facts; none: every key's do
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

// Applies reports whether facts may be added. What an enclave gets, or what is encrypted end to end, is left as it is.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Facts != nil && (len(l.Plans) == 0 || slices.Contains(l.Plans, x.Principal.Tier)) && x.Request.Op == chat.Generate && x.Request.Dialect != chat.Completions && !x.ForEnclave()
}

// expected is how long a run may take.
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
	if place, ok := endOfLast(t, x.Request.Dialect, text); n > 0 && ok {
		t.Replace(place.at, place.raw)
		if err := x.Change(t); err != nil {
			return err
		}
		r := *x.Request
		r.VolatileEnd = true // the facts of the next request may be others: a cache mark behind these would be paid for nothing
		x.Request = &r
		e.Note = fmt.Sprintf("facts=%d;added=%d", n, estimate(len(text)))
	}
	x.Log = append(x.Log, e)
	return nil
}

// estimate is how many tokens a number of bytes probably is.
func estimate(bytes int) int { return (2*bytes + 6) / 7 }

// textFor is what is added to a conversation, and how many facts it has.
func (l Layer) textFor(t *transcript.Transcript) (text string, n int) {
	m := mentions{chains: map[int64]bool{}}
	for i := max(len(t.Turns)-turns, 0); i < len(t.Turns); i++ {
		for k := t.Turns[i].First; k < t.Turns[i].End; k++ {
			switch t.Texts[k].Kind { //nolint:exhaustive // system prompts, definitions and reasoning are not the conversation
			case transcript.User, transcript.Assistant, transcript.Arguments, transcript.Result, transcript.Document:
				s := t.String(k)
				l.Facts.read(s[:min(len(s), mostText)], &m)
			}
		}
	}
	var b strings.Builder
	b.WriteString(opening)
	for _, i := range l.Facts.found(&m) {
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

// opening says to the model where the facts come from.
const opening = "[Known facts about what is mentioned above, from the operator's list:"

// edit is a value of the document, and what replaces it.
type edit struct {
	at  jsonx.Value
	raw jsonx.Raw
}

// endOfLast puts a text at the end of the last turn, as a part of its own behind the others; ok is false if that is not the user's.
func endOfLast(t *transcript.Transcript, d chat.Dialect, text string) (e edit, ok bool) {
	if len(t.Turns) == 0 || t.Turns[len(t.Turns)-1].Role != chat.RoleUser {
		return e, false
	}
	turn := t.Turns[len(t.Turns)-1].Value
	e.at = turn
	if turn.Kind() == jsonx.Object {
		key := "content"
		if d == chat.Gemini {
			key = "parts"
		}
		e.at = turn.Get(key)
	}
	switch e.at.Kind() { //nolint:exhaustive // nothing else is a content
	case jsonx.String:
		s, _ := e.at.Str()
		e.raw = jsonx.AppendString(nil, s+"\n\n"+text)
		return e, true
	case jsonx.Array:
		raw := strings.TrimRight(string(e.at.Raw[:len(e.at.Raw)-1]), " \t\r\n")
		if !strings.HasSuffix(raw, "[") {
			raw += ","
		}
		e.raw = append(part([]byte(raw), d, text), ']')
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
