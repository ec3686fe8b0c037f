package side

import (
	"context"
	"strings"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Answer reads the answer to a side call, of which only the text is used. The zero value is an answer before its first event. It belongs to the
// goroutine that makes the attempt.
type Answer struct {
	Count   meter.Count
	Refused bool // the model refused, or called a tool

	view     *request.View
	to       policy.Resolution
	dec      provider.Decoder
	stages   []attempt.Stage
	text     strings.Builder
	failed   *chat.ProviderError
	tooLong  bool
	content  bool
	ended    bool
	maxBytes int
}

var _ attempt.Sink = (*Answer)(nil)

// maxBytesPerToken bounds the text of an answer: no vocabulary has longer tokens on average.
const maxBytesPerToken = 64

// Begin initialises the answer of an attempt.
func (a *Answer) Begin(w *attempt.Writer, t *attempt.Attempt, maxTokens, status int, h header.List) {
	*a = Answer{view: t.View, to: t.To, maxBytes: maxTokens * maxBytesPerToken}
	a.dec, a.stages = w.Decoder(t, status, h)
}

// Text returns the model's text.
func (a *Answer) Text() string { return strings.TrimSpace(a.text.String()) }

// Feed implements attempt.Sink.
func (a *Answer) Feed(_ context.Context, b []byte, end bool) {
	events := a.dec.Decode(b, end)
	for i := range events {
		if a.over() {
			return
		}
		a.view.Redact(&events[i])
		a.content = a.content || events[i].Kind.IsContent()
		a.read(&events[i], 0)
	}
}

func (a *Answer) over() bool { return a.failed != nil || a.tooLong || a.ended }

// read passes an event through the stages from the n-th on.
func (a *Answer) read(ev *chat.Event, n int) {
	if n == len(a.stages) {
		a.take(ev)
		return
	}
	events := a.stages[n].Read(ev)
	for i := range events {
		if !a.over() {
			a.read(&events[i], n+1)
		}
	}
}

func (a *Answer) take(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are counted alone
	case chat.Error:
		failed := *ev.Err
		failed.Dialect = a.view.DialectAt(&a.to)
		a.failed = &failed
		return
	case chat.End:
		a.ended = true
		return
	case chat.Text:
		if a.tooLong = a.text.Len()+len(ev.Text) > a.maxBytes; !a.tooLong {
			_, _ = a.text.Write(ev.Text) // never fails
		}
	case chat.Refusal, chat.ToolStart:
		a.Refused = true
	}
	a.Count.Note(ev)
}

// Pass implements attempt.Sink.
func (a *Answer) Pass(context.Context) (done bool, err error) { return a.ended, nil }

// Failure implements attempt.Sink.
func (a *Answer) Failure() *upstream.Failure {
	switch {
	case a.failed != nil:
		return upstream.Stated(a.to.Provider, a.failed)
	case a.tooLong:
		return &upstream.Failure{Provider: a.to.Provider, Kind: upstream.Reset, Cause: upstream.ErrTooLong}
	}
	return nil
}

// Refusal implements attempt.Sink.
func (a *Answer) Refusal(status int) *chat.ProviderError {
	if a.failed == nil {
		return &chat.ProviderError{Status: status}
	}
	e := *a.failed
	if e.Status == 0 {
		e.Status = status
	}
	return &e
}

// HasContent implements attempt.Sink.
func (a *Answer) HasContent() bool { return a.content }

// LacksUsage implements attempt.Sink.
func (a *Answer) LacksUsage() bool { return a.Count.Stop != "" && !a.Count.Complete() && !a.over() }

// Complete reports whether the model ended by itself.
func (a *Answer) Complete() bool {
	return a.ended && a.Count.Stop != chat.StopLength && a.Count.Stop != chat.StopContext
}
