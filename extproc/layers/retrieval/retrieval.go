// Package retrieval adds similar texts to requests (C-17): documents that an agent has stored in its session, and results of an operator's services. They are
// added to the last message of the user as search results, after everything that a provider's prompt cache may hold, and before the user's text. It does not
// know the configuration, nor how providers' formats represent results.
package retrieval

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/session"
)

// Name is the layer's name in X-Bardo-Pipeline, and in tags.
const Name = policy.ByRetrieval

// Question is the query of a request to sources.
type Question struct {
	ID         string // of the request
	Account    policy.Account
	Agent      string
	Session    string
	Subsystem  string
	Class      policy.SecurityClass
	Text       string // the end of the user's last message, bounded
	MaxResults int    // results
}

// Result is a text that is similar to a question.
type Result struct {
	ID     string // for records; it must not be content
	Source string
	Title  string
	Text   string
	Score  float64
}

// Finder finds texts that are similar to a question, best first. The error is a *FailedError, or has an unknown reason. Safe for concurrent use; it is called
// in a separate goroutine.
type Finder interface {
	Find(ctx context.Context, q *Question) ([]Result, error)
}

// FailedError is the error of a finder. Why is a word for records.
type FailedError struct{ Why string }

// Error implements error.
func (e *FailedError) Error() string { return "retrieval failed: " + e.Why }

// Source is a finder, and the requests that it applies to.
type Source struct {
	Finder

	Name         string
	Timeout      time.Duration
	Shadow       bool       // its results are counted, but not added
	Refuse       bool       // requests without its answer are refused
	Local        bool       // it is in this process: it may see private requests, and unmasked texts
	Private      bool       // it may see private requests
	SessionsOnly bool       // it applies only to requests of sessions
	Subsystems   rule.Names // empty: all
	Keys         rule.Names // ids or names of API keys; empty: all
}

// PersonalData finds personal data and secrets in texts. Safe for concurrent use.
type PersonalData interface {
	Find(ctx context.Context, text string) ([]pii.Span, error)
}

// Layer adds results. The zero value has no sources. Safe for concurrent use.
type Layer struct {
	Sources      []Source
	ProfileNames []string   // pipeline profiles, in addition to full
	Subsystems   rule.Names // whose requests get results; empty: all
	MaxResults   int
	MaxTokens    int // of all results together

	Guard    pipeline.Guarding // reports whether personal data of a request are masked
	Personal PersonalData
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Waiting   = Layer{}
)

// Name is "retrieval".
func (Layer) Name() string { return Name }

// Profiles implements pipeline.Layer.
func (l Layer) Profiles() []string { return l.ProfileNames }

// Applies reports whether a source applies to the request. Requests to enclaves, or with end-to-end encryption, are not changed. Deferred requests run several
// times, and must be the same each time.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if len(l.Sources) == 0 || x.Request.Op != chat.Generate || x.Request.Dialect == chat.Completions || x.ForEnclave() || x.Deferred || x.Header.Has(deferHeader) {
		return false
	}
	return ofSubsystems(x, l.Subsystems) && slices.ContainsFunc(l.Sources, func(s Source) bool { return s.appliesTo(x) })
}

// deferHeader is the header of deferred requests.
const deferHeader = "x-bardo-defer"

// Waits reports whether the layer applies, since requests wait for sources.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.Applies(x) }

func ofSubsystems(x *pipeline.Exchange, names rule.Names) bool {
	return len(names) == 0 || names.Match(x.Hints.Subsystem) || names.Match(x.Intent.Subsystem)
}

func (s *Source) appliesTo(x *pipeline.Exchange) bool {
	return ofSubsystems(x, s.Subsystems) && (!s.SessionsOnly || session.IsID(x.Hints.SessionID)) &&
		(len(s.Keys) == 0 || s.Keys.Match(string(x.Principal.Account)) || x.Principal.Name != "" && s.Keys.Match(x.Principal.Name))
}

// maySee reports whether a source may see a request. Requests that are private or have a privacy tier are only for local and private sources (D-05).
func (s *Source) maySee(x *pipeline.Exchange) bool {
	return s.Local || s.Private || !x.KeepsToPrivate()
}

// Request adds results.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	t, err := x.Transcript()
	if err != nil {
		return err
	}
	x.Log = append(x.Log, pipeline.Entry{Layer: Name, Note: "results=0"})
	note := &x.Log[len(x.Log)-1].Note
	at, ok := findPlace(t, x.Request.Dialect)
	q := l.question(x, t)
	if !ok || q.Text == "" {
		return nil
	}
	answers, err := l.ask(ctx, x, q)
	if err != nil {
		return err
	}
	chosen := choose(answers, l.MaxResults, min(l.MaxTokens, freeTokens(x)))
	*note = noteOf(answers, chosen)
	if len(chosen) == 0 {
		return nil
	}
	t.Replace(at.value, at.with(chosen))
	if err := x.Change(t); err != nil {
		return err
	}
	r := *x.Request
	r.Retrieved, r.VolatileEnd, r.Cites = true, true, wantsCitations(x, t) // the next request may have other results: a cache mark after them would not pay
	x.Request = &r
	return nil
}

// maxQuestion is the number of bytes of the user's text that are used, from its end.
const maxQuestion = 2 << 10

// question is the question of the last turn.
func (l Layer) question(x *pipeline.Exchange, t *transcript.Transcript) *Question {
	q := &Question{
		ID: x.ID, Account: x.Principal.Account, Agent: x.Hints.GolemID, Session: x.Hints.SessionID, Subsystem: x.Hints.Subsystem, Class: x.Hints.SecurityClass, MaxResults: l.MaxResults,
	}
	if len(t.Turns) == 0 {
		return q
	}
	var parts []string
	last := &t.Turns[len(t.Turns)-1]
	for i := last.First; i < last.End; i++ {
		if t.Texts[i].Kind == transcript.User {
			parts = append(parts, t.String(i))
		}
	}
	q.Text = strings.TrimSpace(tail(strings.Join(parts, "\n"), maxQuestion))
	return q
}

// tail is the end of a text, of at most n bytes and whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// freeTokens is the number of tokens that fit into the context windows of all candidates, with the request and its answer.
func freeTokens(x *pipeline.Exchange) int {
	free := 1 << 30
	for i := range x.Found {
		if window := x.Found[i].Context; window > 0 {
			free = min(free, window-int(x.Request.InputTokens)-x.Request.MaxTokens)
		}
	}
	return free
}

// wantsCitations reports whether the client wants citations: as for its own results or documents, since the API requires the same for all results, otherwise by
// a hint.
func wantsCitations(x *pipeline.Exchange, t *transcript.Transcript) bool {
	wanted := slices.Contains(x.Hints.Require, policy.Citations) || slices.Contains(x.Hints.Prefer, policy.Citations)
	if x.Request.Dialect != chat.Anthropic {
		return wanted
	}
	for _, m := range t.Doc().Get("messages").Each {
		for _, block := range m.Get("content").Each {
			on, _ := block.Get("citations").Get("enabled").Bool()
			if block.Get("type").Equal("search_result") {
				return on
			}
			wanted = wanted || on
		}
	}
	return wanted
}

// errDown is the fault of a request without the answer of a required source.
func errDown(name string) error {
	f := fault.Newf(fault.Unavailable, "the source %q has to be asked about every request, and gave no answer (pipeline.retrieval.hooks)", name)
	f.RetryAfter = time.Second
	return f
}

// Client calls hooks through Envoy.
type Client struct {
	HTTP   *http.Client  // of Envoy's egress listener, or of its clusters
	Secret func() string // of the egress listener
}
