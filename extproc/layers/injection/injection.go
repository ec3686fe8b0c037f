// Package injection is layer L8: it judges what comes into a conversation, each user's turn, result of a tool and document, for instructions that it should
// not hold (D-38). By policy such a text is flagged in the answer's headers, refused, or replaced. Flags are found beside the provider's call and delay
// nothing; only what may be refused or replaced is waited for.
package injection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/injection"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/transcript"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
)

// Name is the layer's name in X-Bardo-Pipeline.
const Name = "l8"

// Header has the highest score of the texts that are flagged.
const Header = "x-bardo-injection"

// Policy is what happens to a text that holds instructions.
type Policy string

// The policies.
const (
	Off        Policy = "off"        // it is not judged
	Flag       Policy = "flag"       // it is sent, and the answer says so
	Block      Policy = "block"      // the request is refused
	Quarantine Policy = "quarantine" // a note is sent in its place
)

// Waits reports whether the request has to wait for the verdict.
func (p Policy) Waits() bool { return p == Block || p == Quarantine }

// Policies are by source: user, result of a tool, document.
type Policies [3]Policy

// PoliciesOf are the policies by source. p is that of results of tools and documents, "" means Flag; user and documents are those of their sources where they
// differ. Without one, users' turns are flagged, or not judged if nothing is.
func PoliciesOf(p, user, documents Policy) Policies {
	p = cmp.Or(p, Flag)
	if user == "" {
		user = Flag
		if p == Off {
			user = Off
		}
	}
	return Policies{user, p, cmp.Or(documents, p)}
}

// defaultTimeout bounds how long a request waits, and how long texts are judged beside one.
const defaultTimeout = 2 * time.Second

// Layer judges texts. Safe for concurrent use.
type Layer struct {
	Policies Policies
	User     Policy        // of users' turns of a key with a policy of its own; "" is as for PoliciesOf
	Timeout  time.Duration // 0 means 2 s
	Refuse   bool          // a request that has to wait for a verdict is refused where there is none
	Detector *injection.Detector
	Scores   bool              // the detector's classifier should run: without its score there is no verdict, unless the patterns are enough
	Beside   *Beside           // judges what is only flagged
	Second   models.Classifier // scores what is in doubt, beside requests; nil for none
	Meter    Meter             // may be nil
	Events   *event.Sink       // may be nil
}

// Meter counts judged texts, by source and verdict: clean, flagged, blocked, quarantined, unscored, skipped. Safe for concurrent use.
type Meter interface {
	InjectionJudged(source, verdict string)
	// InjectionDoubted is told what a second model says: agrees, disagrees, unscored.
	InjectionDoubted(source, opinion string)
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Guarding  = Layer{}
)

// Name is "l8".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: no caller may choose one to avoid what the operator has refused or replaced. What is only flagged depends on the profile, see flags.
func (Layer) Profiles() []string { return profiles }

// policies are those of a request's key, without the flags that its profile does not have.
func (l Layer) policies(x *pipeline.Exchange) Policies {
	p := l.of(&x.Principal)
	if !flags(x) {
		for i := range p {
			if p[i] == Flag {
				p[i] = Off
			}
		}
	}
	return p
}

// of are the policies of a caller: those of its key, or the configured ones.
func (l Layer) of(p *policy.Principal) Policies {
	if own := Policy(p.Guards.Injection); own != "" {
		return PoliciesOf(own, l.User, "")
	}
	return l.Policies
}

// Guard says what happens to a caller's texts, as in explanations: "flag", or by source where they differ.
func (l Layer) Guard(p *policy.Principal, _ policy.SecurityClass) (name, does string) {
	by := l.of(p)
	if by[injection.User] == by[injection.Result] && by[injection.Result] == by[injection.Document] {
		return "injection", string(by[injection.User])
	}
	return "injection", fmt.Sprintf("user=%s, tool_result=%s, document=%s", by[injection.User], by[injection.Result], by[injection.Document])
}

// flags reports whether texts of a request are judged that are only flagged: with the full profile, and for callers that are no agents (D-30).
func flags(x *pipeline.Exchange) bool {
	h := &x.Hints
	switch x.Profile {
	case pipeline.ProfileMinimal, pipeline.ProfileFast:
		return false
	case pipeline.ProfileStandard:
		return h.GolemID == "" && h.Subsystem == "" && h.TickType == ""
	}
	return true
}

// state is what the layer knows of an exchange.
type state struct {
	of    *transcript.Transcript
	spans []span
	err   error
}

var slot = pipeline.NewSlot[state]()

// span is a text to judge: what stands together in a turn.
type span struct {
	source     injection.Source
	policy     Policy
	first, end int // of the transcript's texts
	key        injection.Key
	finding    injection.Finding
	known      bool
}

func (l Layer) timeout() time.Duration {
	if l.Timeout > 0 {
		return l.Timeout
	}
	return defaultTimeout
}

// bad reports whether a known span counts as an injection.
func (l Layer) bad(s *span) bool { return s.finding.Score(s.source) >= l.Detector.Threshold() }

// Waits reports whether the verdict of a text has to be waited for, and is not known yet.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	if p := l.policies(x); !slices.ContainsFunc(p[:], Policy.Waits) || !judges(x) {
		return false
	}
	return slices.ContainsFunc(l.plan(x).spans, func(s span) bool { return !s.known && s.policy.Waits() })
}

// judges reports whether requests of this kind are judged. What an enclave alone may read, the gateway cannot.
func judges(x *pipeline.Exchange) bool {
	return x.Request.Op == chat.Generate && !x.NeedsSealed()
}

// none has nothing judged.
var none = Policies{Off, Off, Off}

// Applies reports whether the request has a text that was not judged before, or that is bad.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if l.policies(x) == none || !judges(x) {
		return false
	}
	s := l.plan(x)
	return s.err != nil || slices.ContainsFunc(s.spans, func(s span) bool { return !s.known || l.bad(&s) })
}

// plan lists the texts to judge, with what is known of them.
func (l Layer) plan(x *pipeline.Exchange) *state {
	s := slot.Of(x)
	t, err := x.Transcript()
	if err == nil && s.of == t {
		return s
	}
	*s = state{of: t, err: err}
	if err != nil {
		return s
	}
	s.spans = spansOf(t, l.policies(x))
	for i := range s.spans {
		sp := &s.spans[i]
		sp.key = sp.keyOf(l.Detector, t)
		sp.finding, sp.known = l.Detector.Known(sp.key)
	}
	return s
}

// Request refuses, replaces or flags.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	s := l.plan(x)
	if s.err != nil {
		return s.err
	}
	o := &outcome{request: x.ID, account: x.Principal.Account, told: x.Repeated}
	x.Announce(Header, o.header)
	x.Log = append(x.Log, pipeline.Entry{Layer: Name, Later: o})
	if err := l.await(ctx, s, o); err != nil {
		return err
	}
	if err := l.replace(x, s, o); err != nil {
		return err
	}
	l.flag(s, o)
	return nil
}

// await judges the texts that may be refused or replaced, and refuses.
func (l Layer) await(ctx context.Context, s *state, o *outcome) error {
	if !slices.ContainsFunc(s.spans, func(sp span) bool { return sp.policy.Waits() }) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout())
	defer cancel()
	budget := injection.NewBudget()
	for i := range s.spans {
		sp := &s.spans[i]
		if !sp.policy.Waits() {
			continue
		}
		err := l.judge(ctx, s.of, sp, budget, o)
		switch {
		case l.bad(sp) && sp.policy == Block:
			l.tell(o, sp, Block)
			return fault.Newf(fault.PromptInjection, "the request was not sent to any provider: a text in it seems to hold instructions for the model (%s; the first turn is 0)", place(s.of, sp))
		case l.bad(sp): // replace tells
		case err != nil:
			l.count(o, sp, "unscored")
			o.unscored()
			if l.Refuse {
				return unjudged(err)
			}
		}
	}
	return nil
}

// errNoScore is the error of a text that the classifier did not score, though it should.
var errNoScore = errors.New("the classifier does not run")

// judge finds out about a span, unless that is known. The error is that there is no score.
func (l Layer) judge(ctx context.Context, t *transcript.Transcript, sp *span, b *injection.Budget, o *outcome) (err error) {
	fresh := !sp.known
	if fresh {
		text := sp.text(t)
		sp.finding, err = l.Detector.Learn(ctx, sp.key, text, b)
		sp.known = true
		o.partly(sp)
		l.haveDoubted(o, sp, text)
	}
	if err == nil && l.Scores && !sp.finding.Scored {
		err = errNoScore
	}
	if fresh && err == nil && !l.bad(sp) {
		l.count(o, sp, "clean")
	}
	return err
}

// unjudged is the fault of a request whose texts could not be judged.
func unjudged(err error) error {
	const refused = "the request was not sent to any provider: its texts could not be checked for instructions"
	if errors.Is(err, errNoScore) {
		return fault.New(fault.Unavailable, refused+", since the local model that does so is not available (pipeline.injection.on_error)", err)
	}
	f := fault.New(fault.Overloaded, refused+" in time", err)
	f.RetryAfter = time.Second
	return f
}

// IsOff reports whether an error is that of a model which does not run.
func IsOff(err error) bool { return errors.Is(err, models.ErrOff) }

// replace puts a note in the place of texts.
func (l Layer) replace(x *pipeline.Exchange, s *state, o *outcome) error {
	changed := false
	for i := range s.spans {
		if sp := &s.spans[i]; sp.policy == Quarantine && sp.known && l.bad(sp) {
			sp.replace(s.of)
			l.tell(o, sp, Quarantine)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return x.Change(s.of)
}

// flag notes the verdicts that are known, and has the others found beside the request.
func (l Layer) flag(s *state, o *outcome) {
	var jobs []job
	size := 0
	for i := range s.spans {
		sp := &s.spans[i]
		switch {
		case sp.policy != Flag:
		case sp.known && l.bad(sp):
			l.tell(o, sp, Flag)
		case !sp.known:
			text := sp.text(s.of)
			short := injection.Clip(text)
			jobs = append(jobs, job{span: *sp, text: short, clipped: len(short) != len(text)})
			size += len(short)
		}
	}
	if len(jobs) == 0 || l.Beside.run(size, func() { l.judgeBeside(jobs, o) }) {
		return
	}
	for i := range jobs {
		l.count(o, &jobs[i].span, "skipped")
		o.unscored()
	}
}

// job is a text that is judged beside its request. It outlives the request's memory.
type job struct {
	span

	text    string
	clipped bool // there was more of it
}

// judgeBeside judges texts that are only flagged.
func (l Layer) judgeBeside(jobs []job, o *outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout())
	defer cancel()
	budget := injection.NewBudget()
	for i := range jobs {
		sp := &jobs[i].span
		var err error
		sp.finding, err = l.Detector.Learn(ctx, sp.key, jobs[i].text, budget)
		sp.finding.Partial = sp.finding.Partial || jobs[i].clipped
		o.partly(sp)
		switch {
		case l.bad(sp):
			l.tell(o, sp, Flag)
		case err != nil:
			l.count(o, sp, "unscored")
			o.unscored()
		default:
			l.count(o, sp, "clean")
		}
		if l.doubts(sp) {
			l.askSecond(o, *sp, jobs[i].text)
		}
	}
}

// verdicts are the names of what happened to bad texts.
var verdicts = map[Policy]string{Off: "", Flag: "flagged", Block: "blocked", Quarantine: "quarantined"}

func (l Layer) count(o *outcome, sp *span, verdict string) {
	if l.Meter != nil && (!o.told || verdict == verdicts[Block]) {
		l.Meter.InjectionJudged(sp.source.String(), verdict)
	}
}

// eventDetected is the event of a text that seems to hold instructions.
var eventDetected = event.Declare[detected]("inference:injection_detected", "A text has instructions to the model.")

type detected struct {
	RequestID string   `json:"request_id"`
	Source    string   `json:"source"`
	Verdict   string   `json:"verdict"`
	Score     string   `json:"score"`
	Kinds     []string `json:"kinds"` // of patterns
	Encoded   bool     `json:"encoded"`
	Scored    bool     `json:"scored"` // by the local model, too
}

// tell notes, counts and emits that a text is bad, and what happened to it.
func (l Layer) tell(o *outcome, sp *span, did Policy) {
	score := sp.finding.Score(sp.source)
	o.bad(sp.source, did, score)
	l.count(o, sp, verdicts[did])
	if o.told && did != Block || !l.Events.On() {
		return
	}
	eventDetected.Emit(l.Events, o.account, detected{
		o.request, sp.source.String(), verdicts[did], printed(score), append([]string{}, sp.finding.Kinds.Names()...), sp.finding.Encoded, sp.finding.Scored,
	})
}

// printed is a score in headers and events.
func printed(score float64) string { return fmt.Sprintf("%.2f", score) }
