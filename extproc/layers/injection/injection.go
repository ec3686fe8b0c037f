// Package injection is layer L8: it detects prompt injections in the inputs of a conversation: users' turns, results of tools, and documents (D-38). By policy,
// such a text is flagged in the answer's headers, refused, or replaced. Texts that are only flagged are judged in the background, while the provider is called;
// requests wait only for verdicts by which they may be refused or changed.
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

// Header has the highest score of the flagged texts.
const Header = "x-bardo-injection"

// Policy is what happens to a text with injected instructions.
type Policy string

// The policies.
const (
	Off        Policy = "off"        // texts are not judged
	Flag       Policy = "flag"       // it is sent, and the answer has a header
	Block      Policy = "block"      // the request is refused
	Quarantine Policy = "quarantine" // a note is sent in its place
)

// Waits reports whether the request has to wait for the verdict.
func (p Policy) Waits() bool { return p == Block || p == Quarantine }

// Policies are by source: user, result of a tool, document.
type Policies [3]Policy

// PoliciesOf returns the policies by source. p is that of results of tools, "" means Flag. documents is that of documents, "" means p. user is that of users'
// turns, "" means Flag, or Off if p is Off.
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

// defaultTimeout bounds how long a request waits, and how long its texts are judged in the background.
const defaultTimeout = 2 * time.Second

// Layer judges texts. Safe for concurrent use.
type Layer struct {
	Policies      Policies
	User          Policy        // of users' turns, for keys with their own policy; "" is as for PoliciesOf
	Timeout       time.Duration // 0 means 2 s
	Refuse        bool          // requests that wait for a verdict are refused if there is none in time
	Detector      *injection.Detector
	Scores        bool              // the detector's classifier should run: without its score there is no verdict, unless the patterns are enough
	Background    *Background       // judges what is only flagged
	SecondOpinion models.Classifier // scores doubtful texts in the background; nil for none
	Meter         Meter             // may be nil
	Events        *event.Sink       // may be nil
}

// Meter counts judged texts, by source and verdict: clean, flagged, blocked, quarantined, unscored, skipped. Safe for concurrent use.
type Meter interface {
	InjectionJudged(source, verdict string)
	// InjectionDoubted counts verdicts of a second model: agrees, disagrees, unscored.
	InjectionDoubted(source, verdict string)
}

var (
	_ pipeline.Layer     = Layer{}
	_ pipeline.Selective = Layer{}
	_ pipeline.Waiting   = Layer{}
	_ pipeline.Guarding  = Layer{}
	_ pipeline.Demanding = Layer{}
)

// Name is "l8".
func (Layer) Name() string { return Name }

var profiles = []string{pipeline.ProfileMinimal, pipeline.ProfileFast, pipeline.ProfileStandard}

// Profiles are all: callers cannot bypass refusal and replacement by choosing a profile. Whether texts are flagged depends on the profile, see flags.
func (Layer) Profiles() []string { return profiles }

// policies are those of a request's key, without Flag where its profile has none.
func (l Layer) policies(x *pipeline.Exchange) Policies {
	p := l.configured(&x.Principal)
	if !flags(x) {
		for i := range p {
			if p[i] == Flag {
				p[i] = Off
			}
		}
	}
	return p
}

// configured are the policies of a caller: those of its key, or the configured ones.
func (l Layer) configured(p *policy.Principal) Policies {
	if own := Policy(p.Guards.Injection); own != "" {
		return PoliciesOf(own, l.User, "")
	}
	return l.Policies
}

// Demands implements pipeline.Demanding.
func (l Layer) Demands(x *pipeline.Exchange) string {
	if p := l.configured(&x.Principal); slices.ContainsFunc(p[:], Policy.Waits) {
		return "injected instructions have to be refused or removed (pipeline.injection, or the key's --injection)"
	}
	return ""
}

// Guard implements pipeline.Guarding: does is the policy, or the policies by source where they differ.
func (l Layer) Guard(p *policy.Principal, _ policy.SecurityClass) (name, does string) {
	policies := l.configured(p)
	if policies[injection.User] == policies[injection.Result] && policies[injection.Result] == policies[injection.Document] {
		return "injection", string(policies[injection.User])
	}
	return "injection", fmt.Sprintf("user=%s, tool_result=%s, document=%s", policies[injection.User], policies[injection.Result], policies[injection.Document])
}

// flags reports whether a request's texts are judged that are only flagged: with the full profile, and with the standard profile unless the caller is an
// agent (D-30).
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
	transcript *transcript.Transcript
	spans      []span
	err        error
}

var slot = pipeline.NewSlot[state]()

// span is a text to judge: texts of one source that are together in a turn.
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

// Waits reports whether the request has to wait for a verdict that is not known yet.
func (l Layer) Waits(x *pipeline.Exchange) bool {
	if p := l.policies(x); !slices.ContainsFunc(p[:], Policy.Waits) || !judges(x) {
		return false
	}
	return slices.ContainsFunc(l.plan(x).spans, func(s span) bool { return !s.known && s.policy.Waits() })
}

// judges reports whether the request is judged: generations, except those that only an enclave can decrypt.
func judges(x *pipeline.Exchange) bool {
	return x.Request.Op == chat.Generate && !x.NeedsSealed()
}

// allOff are the policies with which nothing is judged.
var allOff = Policies{Off, Off, Off}

// Applies reports whether the request has a text that was not judged before, or that is bad.
func (l Layer) Applies(x *pipeline.Exchange) bool {
	if l.policies(x) == allOff || !judges(x) {
		return false
	}
	s := l.plan(x)
	return s.err != nil || slices.ContainsFunc(s.spans, func(s span) bool { return !s.known || l.bad(&s) })
}

// plan lists the texts to judge, with the known verdicts.
func (l Layer) plan(x *pipeline.Exchange) *state {
	s := slot.Of(x)
	t, err := x.Transcript()
	if err == nil && s.transcript == t {
		return s
	}
	*s = state{transcript: t, err: err}
	if err != nil {
		return s
	}
	s.spans = spansOf(t, l.policies(x))
	for i := range s.spans {
		sp := &s.spans[i]
		sp.key = sp.keyOf(l.Detector, t)
		sp.finding, sp.known = l.Detector.Cached(sp.key)
	}
	return s
}

// Request refuses, replaces or flags.
func (l Layer) Request(ctx context.Context, x *pipeline.Exchange) error {
	s := l.plan(x)
	if s.err != nil {
		return s.err
	}
	o := &outcome{request: x.ID, account: x.Principal.Account, repeated: x.Repeated}
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
		err := l.judge(ctx, s.transcript, sp, budget, o)
		switch {
		case l.bad(sp) && sp.policy == Block:
			l.report(o, sp, Block)
			return fault.Newf(fault.PromptInjection, "the request was not sent to any provider: a text in it seems to hold instructions for the model (%s; the first turn is 0)", location(s.transcript, sp))
		case l.bad(sp): // replace reports it
		case err != nil:
			l.count(o, sp, "unscored")
			o.addUnjudged()
			if l.Refuse {
				return unjudged(err)
			}
		}
	}
	return nil
}

// errNoScore is the error of a text that the classifier should have scored and did not.
var errNoScore = errors.New("the classifier does not run")

// judge judges a span, unless its verdict is known. An error means that there is no score.
func (l Layer) judge(ctx context.Context, t *transcript.Transcript, sp *span, b *injection.Budget, o *outcome) (err error) {
	isNew := !sp.known
	if isNew {
		text := sp.text(t)
		sp.finding, err = l.Detector.Learn(ctx, sp.key, text, b)
		sp.known = true
		o.addPartial(sp)
		l.startSecond(o, sp, text)
	}
	if err == nil && l.Scores && !sp.finding.Scored {
		err = errNoScore
	}
	if isNew && err == nil && !l.bad(sp) {
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

// IsOff reports whether an error is that of a model that does not run.
func IsOff(err error) bool { return errors.Is(err, models.ErrOff) }

// replace replaces texts that are quarantined by a note.
func (l Layer) replace(x *pipeline.Exchange, s *state, o *outcome) error {
	changed := false
	for i := range s.spans {
		if sp := &s.spans[i]; sp.policy == Quarantine && sp.known && l.bad(sp) {
			sp.replace(s.transcript)
			l.report(o, sp, Quarantine)
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return x.Change(s.transcript)
}

// flag reports the known verdicts, and starts the judgement of the other texts in the background.
func (l Layer) flag(s *state, o *outcome) {
	var jobs []job
	size := 0
	for i := range s.spans {
		sp := &s.spans[i]
		switch {
		case sp.policy != Flag:
		case sp.known && l.bad(sp):
			l.report(o, sp, Flag)
		case !sp.known:
			text := sp.text(s.transcript)
			short := injection.Clip(text)
			jobs = append(jobs, job{span: *sp, text: short, clipped: len(short) != len(text)})
			size += len(short)
		}
	}
	if len(jobs) == 0 || l.Background.run(size, func() { l.judgeInBackground(jobs, o) }) {
		return
	}
	for i := range jobs {
		l.count(o, &jobs[i].span, "skipped")
		o.addUnjudged()
	}
}

// job is a copy of a text that is judged in the background, which may outlive the request.
type job struct {
	span

	text    string
	clipped bool // the text was longer
}

// judgeInBackground judges texts that are only flagged.
func (l Layer) judgeInBackground(jobs []job, o *outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), l.timeout())
	defer cancel()
	budget := injection.NewBudget()
	for i := range jobs {
		sp := &jobs[i].span
		var err error
		sp.finding, err = l.Detector.Learn(ctx, sp.key, jobs[i].text, budget)
		sp.finding.Partial = sp.finding.Partial || jobs[i].clipped
		o.addPartial(sp)
		switch {
		case l.bad(sp):
			l.report(o, sp, Flag)
		case err != nil:
			l.count(o, sp, "unscored")
			o.addUnjudged()
		default:
			l.count(o, sp, "clean")
		}
		if l.isDoubtful(sp) {
			l.scoreAgain(o, *sp, jobs[i].text)
		}
	}
}

// verdicts are the names of what happened to bad texts.
var verdicts = map[Policy]string{Off: "", Flag: "flagged", Block: "blocked", Quarantine: "quarantined"}

func (l Layer) count(o *outcome, sp *span, verdict string) {
	if l.Meter != nil && (!o.repeated || verdict == verdicts[Block]) {
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
	Scored    bool     `json:"scored"` // also by the local model
}

// report records, counts and emits a bad text and the action that was taken.
func (l Layer) report(o *outcome, sp *span, action Policy) {
	score := sp.finding.Score(sp.source)
	o.addBad(sp.source, action, score)
	l.count(o, sp, verdicts[action])
	if o.repeated && action != Block || !l.Events.On() {
		return
	}
	eventDetected.Emit(l.Events, o.account, detected{
		o.request, sp.source.String(), verdicts[action], printed(score), append([]string{}, sp.finding.Kinds.Names()...), sp.finding.Encoded, sp.finding.Scored,
	})
}

// printed formats a score for headers and events.
func printed(score float64) string { return fmt.Sprintf("%.2f", score) }
