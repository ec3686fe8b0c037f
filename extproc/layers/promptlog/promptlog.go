// Package promptlog is the layer that logs the texts of requests and answers, for the keys that an operator names. It changes nothing, and logs nothing of
// requests that are confidential, private, or for an enclave. Package prompts masks and writes entries in the background.
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

// Header is the header of answers that are logged.
const Header = "x-bardo-prompt-log"

// Layer logs requests and answers. Safe for concurrent use.
type Layer struct {
	Keys map[policy.Account]bool // whose requests are logged
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

// Profiles are all: whose requests are logged does not depend on a profile.
func (Layer) Profiles() []string { return profiles }

// Applies reports whether the request is to be logged and may be.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	return l.Keys[x.Principal.Account] && x.Request.Op == chat.Generate && !forbidden(x)
}

// forbidden reports whether nothing of a request may be logged: it is confidential, private, or for an enclave; it prefers a provider that retains nothing; or
// the caller's own key may pay for it.
func forbidden(x *pipeline.Exchange) bool {
	return x.CallersKey || x.KeepsNothing() || x.ForEnclave() || slices.ContainsFunc(x.Intent.Prefer, policy.Feature.KeepsPrivate)
}

// The bytes that are logged of a request, and of an answer. Texts that exceed them are omitted as a whole, since a value that is cut could not be masked.
const (
	maxRequest = 512 << 10
	maxAnswer  = 256 << 10
)

// state is the layer's state for an exchange.
type state struct {
	request   []prompts.Text
	media     int
	answer    answer
	complete  bool // the answer has ended
	announced bool // the answer has Header
}

var slot = pipeline.NewSlot[state]()

// Request copies the texts of a request, and registers the layer for the answer.
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

// announce is the value of Header for an answer. An error in its place has none, and is not logged.
func (s *state) announce(answered bool) string {
	if s.announced = answered; s.announced {
		return "on"
	}
	return ""
}

// textsOf are the texts of a conversation. The newest ones take precedence in the limit.
func textsOf(t *transcript.Transcript) []prompts.Text {
	var out []prompts.Text
	budget := maxRequest
	for i := len(t.Texts) - 1; i >= 0; i-- {
		at := &t.Texts[i]
		if at.Kind == transcript.Definition || at.Kind == transcript.Other {
			continue
		}
		text := prompts.Text{Turn: at.Turn, Kind: at.Kind.String()}
		if at.Kind == transcript.Arguments {
			text.Tool = toolOf(t, at)
		}
		if n := len(at.Value.Raw); n > budget {
			text.Omitted = n
		} else {
			text.Text = t.String(i)
			budget -= n
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

// Response records what the client gets.
func (Layer) Response(_ context.Context, x *pipeline.Exchange, ev *chat.Event, out []chat.Event) ([]chat.Event, error) {
	s := slot.Of(x)
	s.answer.record(ev)
	s.complete = ev.Kind == chat.End || s.complete && ev.Kind != chat.Start
	return append(out, *ev), nil
}

// Ended logs an answer with Header, or whose client disconnected before the headers. An incomplete answer is logged up to its last whole sentence, with the
// outcome; of a stream that ended with an error instead of an answer, only the request and the error are logged.
func (l Layer) Ended(x *pipeline.Exchange, outcome, code string, by policy.Resolution) {
	s := slot.Of(x)
	disconnected := outcome == record.Cancelled || outcome == record.Disconnected
	if x.Unread || forbidden(x) || !s.announced && !disconnected {
		return
	}
	if s.complete {
		e := l.entry(x, s, by)
		e.Error = code
		l.Log.Add(e)
		return
	}
	if !disconnected && outcome != record.Cut {
		s.answer = answer{}
	}
	s.answer.trimUnfinished()
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
