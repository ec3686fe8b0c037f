package extproc

import (
	"context"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/structured"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// What becomes of an answer that shall have a form: it passes, its model is told what is wrong with it, the form's default takes its place,
// or the caller is told what came.

// headerSchema says how the form of an answer was asked for, and whether the answer has it.
const headerSchema = "x-bardo-schema"

// lostDefault is what an answer lacks that is its form's default.
const lostDefault = "schema_default"

// finding is what X-Bardo-Schema says.
type finding struct {
	mode      structured.Mode
	checked   bool
	valid     bool
	defaulted bool
	retries   int
	good, of  int // choices, where there are several
}

// String is the header's value: with nothing behind the mode, nothing was checked.
func (f *finding) String() string {
	if !f.checked {
		return f.mode.String()
	}
	s := f.mode.String() + "; valid=" + strconv.FormatBool(f.valid) + "; retries=" + strconv.Itoa(f.retries)
	if f.of > 1 && !f.valid {
		s += "; choices=" + strconv.Itoa(f.good) + "/" + strconv.Itoa(f.of)
	}
	if f.defaulted {
		s += "; default=true"
	}
	return s
}

// schemaWord is what there is to say of the answer's form at this moment, if to gives it; "" for an answer without one.
func (x *exchange) schemaWord(to *policy.Resolution) string {
	switch {
	case x.stored != nil:
		return x.stored.Schema
	case x.form == nil:
		return ""
	case x.found != nil:
		return x.found.String()
	}
	if mode := x.mode(to); mode != structured.None {
		return mode.String()
	}
	return ""
}

// schemaHeader appends the header to those of an answer.
func (x *exchange) schemaHeader(h header.List, to *policy.Resolution) header.List {
	if word := x.schemaWord(to); word != "" {
		h = append(h, header.Field{Name: headerSchema, Value: word})
	}
	return h
}

// holdsBack reports whether an answer of a plan is looked at as a whole before its client sees any of it.
func (x *exchange) holdsBack(plan *structured.Plan) bool {
	return plan != nil && (!x.Request.Stream || !plan.Live || x.reconsiders())
}

// rejection is an answer that does not have its form.
type rejection struct {
	a   *answer
	j   *judgement
	say []chat.Message // to the same candidate: all its failed answers, and what is wrong with each
}

// at reports whether it was a candidate's.
func (r *rejection) at(to *policy.Resolution) bool {
	return r.a.res.Provider == to.Provider && r.a.res.Model == to.Model
}

// find notes what the check of an answer came to.
func (x *exchange) find(a *answer, j *judgement) {
	x.found = &finding{
		mode: a.form.plan.Mode, checked: !j.open && x.rt.Structured.Validate, valid: j.valid, retries: x.reasked,
		good: j.good, of: len(j.verdicts),
	}
	a.unfit = x.found.checked && !j.valid
}

// findLive looks at an answer whose client has all of it but the end.
func (x *exchange) findLive(a *answer) {
	j := x.judge(a)
	x.find(a, j)
	x.tellForm()
}

// errForm is the cause of a failed attempt whose answer does not have its form.
type errForm struct{}

func (errForm) Error() string { return "the answer does not have the form that was asked for" }

// reject puts an answer on the bill that does not have its form, and says what its model is told.
func (x *exchange) reject(a *answer, j *judgement) *upstream.Failure {
	x.charge(a)
	x.answered(a, "schema")
	x.attempts[len(x.attempts)-1].Reason = (&upstream.Failure{Kind: upstream.WrongForm}).Reason()
	x.decided(upstream.Decision{Move: upstream.ValidationRetry, Why: "the model is told what is wrong with its answer"})
	r := &rejection{a: a, j: j}
	if x.rejected != nil && x.rejected.at(&a.res) {
		r.say = x.rejected.say
	}
	if len(j.raw) > 0 {
		r.say = append(r.say, turn(chat.RoleAssistant, string(j.raw)))
	}
	r.say = append(r.say, turn(chat.RoleUser, x.form.Complaint(j.verdicts[j.wrong])))
	x.rejected = r
	x.reasked++
	x.doubted(&a.res)
	return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.WrongForm, Cause: errForm{}}
}

func turn(r chat.Role, text string) chat.Message {
	return chat.Message{Role: r, Parts: []chat.Part{{Kind: chat.PartText, Text: text}}}
}

// conclude ends an answer that is complete and of which the client has seen nothing. A failure of kind failForm says that the candidate
// is to be asked once more.
func (s *drivenStream) conclude(ctx context.Context, a *answer) (*upstream.Failure, error) {
	x := s.x
	if !a.holds {
		return nil, s.send(ctx, a)
	}
	j := x.judged(a)
	if a.form == nil {
		return s.give(ctx, a, j)
	}
	x.find(a, j)
	switch {
	case x.passes(j):
	case x.reasked < x.retries() && !j.declines:
		return x.reject(a, j), nil
	default:
		return nil, s.fallBack(ctx, a, j)
	}
	x.tellForm()
	return s.give(ctx, a, j)
}

// give sends a good answer that was held, or another one in its place.
func (s *drivenStream) give(ctx context.Context, a *answer, j *judgement) (*upstream.Failure, error) {
	x := s.x
	if a, j = s.reconsider(ctx, a, j); a == nil {
		return nil, context.Cause(ctx)
	}
	a.release(ctx, x.shown(a, j))
	if f := a.failure(); f != nil {
		return f, nil
	}
	return nil, s.send(ctx, a)
}

// reconsider is where a good answer may be compared with another model's before anybody sees it. It returns the one that goes out, with
// what its check came to; nil when the client left.
func (s *drivenStream) reconsider(ctx context.Context, a *answer, j *judgement) (*answer, *judgement) {
	switch {
	case s.x.verifies():
		return s.verify(ctx, a, j)
	case s.x.escalates():
		return s.escalate(ctx, a, j)
	}
	return a, j
}

// opinion gathers one more answer of a candidate's, and checks it. Nobody sees it; its call is on the request's bill, as is the one
// that is held at the time. The client's stream is kept alive meanwhile. say is what the model is told behind the messages. Without a
// form, or for one that is asked as the client asks, the judgement is nil. The error is that the client left.
func (s *drivenStream) opinion(ctx context.Context, to policy.Resolution, say []chat.Message) (*answer, *judgement, *upstream.Failure, error) {
	x, held := s.x, s.x.current
	x.charge(held)
	defer func() { x.current = held }()
	a, f, err := s.listen(ctx, &try{to: to, plan: x.planFor(&to), say: say}, func(_ context.Context, a *answer) (bool, error) { return a.ended, nil })
	if err != nil { // the client disconnected in the middle of it
		x.interrupt(x.current)
	}
	if f != nil {
		x.bill.Over()
	}
	if f != nil || err != nil {
		return nil, nil, f, err
	}
	x.charge(a)
	x.answered(a, record.OK)
	if a.form == nil {
		return a, nil, nil, nil
	}
	return a, x.judge(a), nil, nil
}

// fallBack answers with the form's default in the place of an answer that does not have the form; without one, with an error.
func (s *drivenStream) fallBack(ctx context.Context, a *answer, j *judgement) error {
	x := s.x
	if ok, err := s.rescue(ctx); ok || err != nil {
		return err
	}
	if ok, err := s.lift(ctx, a); ok || err != nil {
		return err
	}
	text := x.form.Default()
	if text == nil || x.form.Strict() {
		return s.refuseForm(ctx, a, j)
	}
	x.find(a, j)
	x.current, x.found.defaulted = a, true
	x.tellForm()
	x.tellFormFallback(fallbackDefault)
	x.gw.Log.Warn("an answer without its form was replaced by the form's default", "request", x.ID, "subsystem", x.Hints.Subsystem,
		"schema", x.form.Name(), "provider", string(a.res.Provider), "model", string(a.res.Model), "retries", x.reasked)
	events := inPlace(a.held, text)
	x.sumUsage(a, events)
	a.release(ctx, events)
	if f := a.failure(); f != nil {
		return s.fail(fault.From(f.Cause))
	}
	return s.send(ctx, a)
}

// refuseForm tells the caller what came in the place of an answer. It is paid for: the models did their work.
func (s *drivenStream) refuseForm(ctx context.Context, a *answer, j *judgement) error {
	x := s.x
	x.find(a, j)
	f := x.errNoForm(j, x.reasked)
	x.current, x.fault, x.upstream = a, f, f
	x.tellForm()
	x.tellFormFallback(fallbackError)
	sum, err := x.settle(context.WithoutCancel(ctx), a, record.Invalid)
	if err != nil {
		return s.fail(fault.From(err))
	}
	if s.begun {
		return s.fail(f)
	}
	x.refused(f)
	r := x.errorReply(f)
	r.Header = append(x.schemaHeader(r.Header, &a.res), sum.headers()...)
	return s.client.Reply(r)
}

// answered notes an attempt that was answered, though not to the end of the request.
func (x *exchange) answered(a *answer, outcome string) {
	took := time.Since(x.attemptStarted)
	a.noted = true
	x.attempted(a.res, outcome, telemetry.Served)
	x.gw.Health.Report(policy.Result{Provider: a.res.Provider, Outcome: policy.Succeeded, Latency: took})
}

// The events of forms.
const (
	eventSchema         = "inference:schema_validated"
	eventSchemaFallback = "inference:schema_fallback"
)

// Why an answer's form was not simply enforced.
const (
	fallbackPrompted = "prompted" // neither the provider nor a tool enforces it
	fallbackDefault  = "default"
	fallbackError    = "error"
)

type schemaValidated struct {
	RequestID string `json:"request_id"`
	Subsystem string `json:"subsystem"`
	Schema    string `json:"schema"`
	Mode      string `json:"mode"`
	Valid     bool   `json:"valid"`
	Retries   int    `json:"retries"`
}

type schemaFallback struct {
	schemaValidated
	Reason string `json:"reason"`
}

// tellForm reports what the last check of the request's answers came to.
func (x *exchange) tellForm() {
	if !x.gw.Events.On() || !x.found.checked {
		return
	}
	x.gw.Events.Emit(eventSchema, x.Principal.Account, x.formTold())
	if x.found.mode == structured.Prompted {
		x.tellFormFallback(fallbackPrompted)
	}
}

func (x *exchange) tellFormFallback(reason string) {
	if x.gw.Events.On() {
		x.gw.Events.Emit(eventSchemaFallback, x.Principal.Account, schemaFallback{x.formTold(), reason})
	}
}

func (x *exchange) formTold() schemaValidated {
	return schemaValidated{x.ID, x.Hints.Subsystem, x.form.Name(), x.found.mode.String(), x.found.valid, x.found.retries}
}
