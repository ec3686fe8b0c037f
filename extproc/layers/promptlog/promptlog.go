// Package promptlog is the layer that keeps what was said, for the keys that an operator names: what the client sent, and what it got. It changes nothing, and
// keeps nothing of requests that are confidential, private, or for an enclave. Masking and writing are package prompts' work, beside requests.
package promptlog

import (
	"context"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "promptlog"

// Header is on answers that are kept.
const Header = "x-bardo-prompt-log"

// Layer keeps requests and answers. Safe for concurrent use.
type Layer struct {
	Keys map[policy.Account]bool // whose
	Log  *prompts.Log
	Mask prompts.Masker
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Responder = Layer{}
	_ pipeline.Ender     = Layer{}
)

// Name is "promptlog".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: whose requests are kept does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether the request may be kept, and is to be.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Keys[x.Principal.Account] && x.Request.Op == chat.Generate && !forbidden(x)
}

// forbidden reports whether nothing may be kept of a request, whatever the operator wants: it is confidential, private, or for an enclave, by what it asks for; it
// prefers a provider that keeps nothing; or a key of the caller's own may pay for it.
func forbidden(x *pipeline.Exchange) bool {
	return x.CallersKey || x.KeepsNothing() || x.ForEnclave() || slices.ContainsFunc(x.Intent.Prefer, policy.Feature.KeepsPrivate)
}

// The most that is kept of a request, and of an answer, in bytes. Longer texts are left out as a whole: a value that is cut in two could not be masked.
const (
	maxRequest = 512 << 10
	maxAnswer  = 256 << 10
)

// state is what the layer has of an exchange.
type state struct {
	request []prompts.Text
	media   int
	answer  answer
	over    bool // the answer had its end
	said    bool // its headers say that it is kept
}

var slot = pipeline.NewSlot[state]()

// Request keeps the texts of a request, and watches its answer.
func (l Layer) Request(_ context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	s := slot.Of(x)
	s.request, s.media = textsOf(t), t.Media
	x.Watch(Name, l)
	x.AnnounceAnswer(Header, s.announce)
	return nil
}

// announce is the header of an answer. An error in its place is not kept, and does not say so.
func (s *state) announce(answered bool) string {
	if s.said = answered; s.said {
		return "on"
	}
	return ""
}

// textsOf are the texts of a conversation, the newest of them first to be kept.
func textsOf(t *transcript.Transcript) []prompts.Text {
	var out []prompts.Text
	left := maxRequest
	for i := len(t.Texts) - 1; i >= 0; i-- {
		at := &t.Texts[i]
		if at.Kind == transcript.Definition || at.Kind == transcript.Other {
			continue
		}
		text := prompts.Text{Turn: at.Turn, Kind: at.Kind.String()}
		if at.Kind == transcript.Arguments {
			text.Tool = toolOf(t, at)
		}
		if n := len(at.Value.Raw); n > left {
			text.Omitted = n
		} else {
			text.Text = t.String(i)
			left -= n
		}
		out = append(out, text)
	}
	slices.Reverse(out)
	return out
}

// toolOf is the name of the tool that a call's arguments are for.
func toolOf(t *transcript.Transcript, at *transcript.Text) string {
	if at.Turn < 0 {
		return ""
	}
	for _, c := range t.Turns[at.Turn].Calls {
		if c.ID == at.Call || c.Name == at.Call {
			return c.Name
		}
	}
	return ""
}

// Response takes what the client gets.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	s := slot.Of(x)
	s.answer.take(ev)
	s.over = ev.Kind == chat.End || s.over && ev.Kind != chat.Start
	return append(out, *ev), nil
}

// Ended keeps an answer whose headers say so, or whose client disconnected before it had them. One without its end is kept as far as it came, with why there was no more of
// it; of a stream that had begun and got an error in place of an answer, the request and the error.
func (l Layer) Ended(x *pipeline.Exchange, outcome, code string, by policy.Resolution) {
	s := slot.Of(x)
	left := outcome == record.Cancelled || outcome == record.Disconnected
	if x.Unread || forbidden(x) || !s.said && !left {
		return
	}
	if s.over {
		e := l.entry(x, s, by)
		e.Error = code
		l.Log.Add(e)
		return
	}
	if !left && outcome != record.Cut {
		s.answer = answer{}
	}
	s.answer.breakOff()
	e := l.entry(x, s, by)
	e.Outcome, e.Error, e.Provider, e.Model = outcome, code, by.Provider, by.Model
	l.Log.Add(e)
}

func (l Layer) entry(x *pipeline.Exchange, s *state, by policy.Resolution) *prompts.Entry {
	e := &prompts.Entry{
		At: time.Now(), RequestID: x.ID, Account: x.Principal.Account, Subsystem: x.Hints.Subsystem, Media: s.media,
		Request: s.request, Answer: s.answer.texts(), Stop: s.answer.stop, Mask: l.Mask, Provider: by.Provider, Model: by.Model,
	}
	if x.Served != nil {
		e.Provider, e.Model = x.Served.By.Provider, x.Served.By.Model
	}
	return e
}
