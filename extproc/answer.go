package extproc

import (
	"errors"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// answer turns one attempt's answer into the client's bytes, and counts its usage. Owned by the goroutine that makes the attempt.
type answer struct {
	x         *exchange
	res       policy.Resolution
	dialect   chat.Dialect // of the provider
	dec       provider.Decoder
	stages    []attempt.Stage // that read reasoning, tool calls and schema answers out of the text, in order; none for most answers
	enc       wire.Encoder
	reasoning *render.Presenter // nil: its reasoning is sent as it came
	stream    bool

	out     []byte // encoded, not sent yet
	end     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	content bool   // a part of the answer came
	passed  bool   // a part of it came through the layers
	failed  *chat.ProviderError
	broken  error // a layer failed on it
	ended   bool
	count   meter.Count // the usage so far
	began   time.Time   // when its call was sent

	heldBack
	gate *rounds.Gate // of calls that are answered inside the gateway; nil for a request without such tools

	form     *review.Transcript // of its text, for validation; nil: it has no schema
	ownUsage *chat.Usage        // of its own call, where its events show the usage of all calls of the request
	marks

	id        string   // the provider's id of the answer
	storedIDs []string // ids of what the provider stored, or gave access to, as it answered
}

// marks are what was decided or done about an answer.
type marks struct {
	notCacheable bool // it is invalid, or another call may answer better
	counted      bool // its call is on the request's bill
	noted        bool // the provider's success was reported
	parallel     bool // of a side call
}

// heldBack is what of an answer is kept until it was reviewed.
type heldBack struct {
	holds     bool         // nothing is sent before release
	held      []chat.Event // the events, detached from the decoder's buffers
	heldBytes int64        // bytes of these
}

// whole reports whether the answer is sent as a whole: the client does not stream, or it is held back.
func (a *answer) whole() bool { return a.holds || !a.stream }

func (a *answer) over() bool { return a.failed != nil || a.broken != nil || a.ended }

// fail notes the provider's error, and its dialect.
func (a *answer) fail(e *chat.ProviderError) {
	failed := *e
	failed.Dialect = a.dialect
	a.failed = &failed
}

// note keeps what an event tells about the whole answer: usage, ids.
func (a *answer) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are counted alone
	case chat.Start:
		a.id = ev.ID
	case chat.Extra:
		a.names(ev)
	}
	if a.gate == nil { // it counts by itself
		a.count.Note(ev)
	}
}

// drain returns the encoded bytes that were not sent yet. They are valid until the next feed.
func (a *answer) drain() []byte {
	b := a.out
	a.out = a.out[:0]
	return b
}

// names notes the ids of stored resources in members that only the answer's own format has.
func (a *answer) names(ev *chat.Event) {
	if len(ev.Text) == 0 || a.dialect != a.x.Request.Dialect {
		return
	}
	switch ev.Text[0] {
	case '"':
		if ev.ID == itemID {
			a.storedIDs = stored.AppendID(a.storedIDs, ev.Text)
		}
	case '{':
		own := a.dialect == chat.Responses || ev.ID == "container" || ev.ID == "audio"
		a.storedIDs = append(a.storedIDs, stored.IDs(ev.Text, own)...)
	}
}

// itemID is the extra that names an item of a response.
const itemID = "item_id"

// total is the usage to bill. What the provider did not report is estimated from the events.
func (a *answer) total() chat.Usage {
	if a.ownUsage != nil {
		return *a.ownUsage
	}
	return a.count.Total(a.x.Request.InputTokens)
}

// failure is the answer's own: the provider's error in it, or a layer that could not read it; nil for none.
func (a *answer) failure() *upstream.Failure {
	switch {
	case a.failed != nil:
		return upstream.Stated(a.res.Provider, a.failed)
	case a.broken != nil:
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.NotEncoded, Cause: a.broken}
	}
	return nil
}

// errorOf is the error of an answer with a status other than 2xx.
func errorOf(a *answer, status int) *chat.ProviderError {
	if a.failed == nil {
		return &chat.ProviderError{Status: status}
	}
	e := *a.failed
	if e.Status == 0 {
		e.Status = status
	}
	return &e
}

// refusal is the fault by which a layer refused the answer; nil if none did.
func (a *answer) refusal() *fault.Fault { return byRules(a.broken) }

func (a *answer) incomplete() error {
	switch {
	case a.broken != nil:
		return a.broken
	case !a.ended:
		return errIncomplete
	}
	return nil
}

// errIncomplete is a stored answer without an end.
var errIncomplete = errors.New("a stored answer has no end")

// tooLong is the failure of an answer that is larger than the gateway holds; nil for any other. size is in bytes.
func (a *answer) tooLong(size int64) *upstream.Failure {
	if size > a.x.Config.MaxAnswer {
		return &upstream.Failure{Provider: a.res.Provider, Kind: upstream.Reset, Cause: upstream.ErrTooLong}
	}
	return nil
}

// HasContent implements attempt.Sink.
func (a *answer) HasContent() bool { return a.content }

// LacksUsage implements attempt.Sink.
func (a *answer) LacksUsage() bool { return a.count.Stop != "" && !a.count.Complete() && !a.over() }

// Refusal implements attempt.Sink.
func (a *answer) Refusal(status int) *chat.ProviderError { return errorOf(a, status) }

// refusalOf is the fault by which a layer refused an answer; nil for any other failure. Another candidate is not called for it.
func refusalOf(f *upstream.Failure) *fault.Fault {
	if f == nil || f.Kind != upstream.NotEncoded {
		return nil
	}
	return byRules(f.Cause)
}

func byRules(err error) *fault.Fault {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind.ByRules() {
		return f
	}
	return nil
}

// totalWith is the usage and cost of the request: all calls on the bill, and an answer that is not on it yet.
func (x *exchange) totalWith(a *answer) meter.Total {
	if a.counted {
		return x.bill.Total()
	}
	u := a.total()
	return x.bill.With(&a.res, &u)
}

// answersWith is totalWith without the calls that layers had made.
func (x *exchange) answersWith(a *answer) meter.Total {
	if a.counted {
		return x.bill.AnswersWith(nil, nil)
	}
	u := a.total()
	return x.bill.AnswersWith(&a.res, &u)
}

// attemptNumber counts the attempts up to the one that answers.
func (x *exchange) attemptNumber() int {
	if x.trace.Settled != nil || x.report.Stored != nil || x.current != nil && x.current.counted {
		return len(x.trace.Attempts)
	}
	return len(x.trace.Attempts) + 1
}

// answerHeaders are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	return x.report.Answer(to, x.attemptNumber())
}
