// Package retrieval adds to requests what resembles them (C-17): documents that an agent has stored in its session, and what an operator's services find. They
// stand in the last message of the user as results of a search, behind all that a provider's prompt cache may hold, before what the user says. It does not know
// the configuration, nor what providers' formats make of results.
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

// Question is what a request asks, for those who may know something about it.
type Question struct {
	ID        string // of the request
	Account   policy.Account
	Agent     string
	Session   string
	Subsystem string
	Class     policy.SecurityClass
	Text      string // the newest of what the user says, bounded
	Most      int    // results
}

// Result is a piece of text that resembles a question.
type Result struct {
	ID     string // in records: no content
	Source string
	Title  string
	Text   string
	Score  float64
}

// Finder finds what resembles a question, the best first. The error is a *FailedError, or of an unknown reason. Safe for concurrent use; it is called in a
// goroutine of its own.
type Finder interface {
	Find(ctx context.Context, q *Question) ([]Result, error)
}

// FailedError is why a finder found nothing out. Why is a word for records.
type FailedError struct{ Why string }

// Error implements error.
func (e *FailedError) Error() string { return "retrieval failed: " + e.Why }

// Source is a finder, and which requests it is asked about.
type Source struct {
	Finder

	Name       string
	Timeout    time.Duration
	Shadow     bool       // what it finds is counted, and not added
	Refuse     bool       // without its answer a request ends with an error
	Local      bool       // it is this program: it may see private requests, and what is masked for others
	Private    bool       // it may see private requests
	OfSessions bool       // it knows requests of sessions alone
	Subsystems rule.Names // empty: all
	Keys       rule.Names // ids or names of API keys; empty: all
}

// PersonalData finds personal data and secrets in texts. Safe for concurrent use.
type PersonalData interface {
	Find(ctx context.Context, text string) ([]pii.Span, error)
}

// Layer adds results. The zero value has no sources. Safe for concurrent use.
type Layer struct {
	Sources    []Source
	In         []string   // pipeline profiles, besides full
	Subsystems rule.Names // whose requests get results; empty: all
	MaxResults int
	MaxTokens  int // of all results together

	Guard    pipeline.Guarding // says whether personal data of a request are masked
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
func (l Layer) Profiles() []string { return l.In }

// Applies reports whether a source may know something. What an enclave gets, or what is encrypted end to end, is left as it is. Deferred requests run several times,
// and have to be the same each time.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if len(l.Sources) == 0 || x.Request.Op != chat.Generate || x.Request.Dialect == chat.Completions || x.ForEnclave() || x.Deferred || x.Header.Has(deferHeader) {
		return false
	}
	return ofSubsystems(x, l.Subsystems) && slices.ContainsFunc(l.Sources, func(s Source) bool { return s.concerns(x) })
}

// deferHeader is of requests that are answered later.
const deferHeader = "x-bardo-defer"

// Waits reports whether the layer applies: sources are waited for.
func (l Layer) Waits(x *pipeline.Exchange) bool { return l.Applies(x) }

func ofSubsystems(x *pipeline.Exchange, names rule.Names) bool {
	return len(names) == 0 || names.Match(x.Hints.Subsystem) || names.Match(x.Intent.Subsystem)
}

func (s *Source) concerns(x *pipeline.Exchange) bool {
	return ofSubsystems(x, s.Subsystems) && (!s.OfSessions || session.IsID(x.Hints.SessionID)) &&
		(len(s.Keys) == 0 || s.Keys.Match(string(x.Principal.Account)) || x.Principal.Name != "" && s.Keys.Match(x.Principal.Name))
}

// maySee reports whether a source may see a request: one that is private or has a privacy tier only those that are private themselves (D-05).
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
	at, ok := placeIn(t, x.Request.Dialect)
	q := l.question(x, t)
	if !ok || q.Text == "" {
		return nil
	}
	asked, err := l.ask(ctx, x, q)
	if err != nil {
		return err
	}
	chosen := choose(asked, l.MaxResults, min(l.MaxTokens, room(x)))
	*note = noteOf(asked, chosen)
	if len(chosen) == 0 {
		return nil
	}
	t.Replace(at.value, at.with(chosen))
	if err := x.Change(t); err != nil {
		return err
	}
	r := *x.Request
	r.Retrieved, r.VolatileEnd, r.Cites = true, true, wantsCitations(x, t) // those of the next request may be others: a cache mark behind them would be paid for nothing
	x.Request = &r
	return nil
}

// longestQuestion is how much of what the user says is looked at, in bytes from its end.
const longestQuestion = 2 << 10

// question is what the last turn asks.
func (l Layer) question(x *pipeline.Exchange, t *transcript.Transcript) *Question {
	q := &Question{
		ID: x.ID, Account: x.Principal.Account, Agent: x.Hints.GolemID, Session: x.Hints.SessionID, Subsystem: x.Hints.Subsystem, Class: x.Hints.SecurityClass, Most: l.MaxResults,
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
	q.Text = strings.TrimSpace(tail(strings.Join(parts, "\n"), longestQuestion))
	return q
}

// tail is the end of a text, of at most n bytes and whole characters.
func tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[len(s)-n:], "")
}

// room is how many tokens fit into the windows of all candidates beside the request and its answer.
func room(x *pipeline.Exchange) int {
	least := 1 << 30
	for i := range x.Found {
		if window := x.Found[i].Context; window > 0 {
			least = min(least, window-int(x.Request.InputTokens)-x.Request.MaxTokens)
		}
	}
	return least
}

// wantsCitations reports whether the client asks for citations: of documents or results of its own, as the API demands the same for all results, else by a hint.
func wantsCitations(x *pipeline.Exchange, t *transcript.Transcript) bool {
	asked := slices.Contains(x.Hints.Require, policy.Citations) || slices.Contains(x.Hints.Prefer, policy.Citations)
	if x.Request.Dialect != chat.Anthropic {
		return asked
	}
	for _, m := range t.Doc().Get("messages").Each {
		for _, block := range m.Get("content").Each {
			on, _ := block.Get("citations").Get("enabled").Bool()
			if block.Get("type").Equal("search_result") {
				return on
			}
			asked = asked || on
		}
	}
	return asked
}

// errDown is the fault of a request whose source has to answer.
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
