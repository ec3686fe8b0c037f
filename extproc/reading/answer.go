// Package reading turns one attempt's answer, or a stored one, into the client's bytes: it decodes it, passes it through the stages and the layers,
// holds it back if it is reviewed first, encodes it, and counts its usage. It makes no calls, sends nothing and bills nothing.
package reading

import (
	"errors"
	"time"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/cognition"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/render"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/stored"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Answer turns one attempt's answer into the client's bytes, and counts its usage. Owned by the goroutine that makes the attempt.
type Answer struct {
	Report    *report.Report // the request's
	By        policy.Resolution
	Dialect   chat.Dialect // the provider's
	dec       provider.Decoder
	stages    []attempt.Stage // parsers of reasoning, tool calls and schema answers in the text, in order; usually none
	Encoder   wire.Encoder
	Reasoning *render.Presenter // nil: reasoning is sent unchanged
	Stream    bool

	Out     []byte // encoded, not sent yet
	End     []byte // the terminator (stream) or the whole body (JSON), once the answer is complete
	Content bool   // a part of the answer arrived
	Passed  bool   // a part of it passed the layers
	Failed  *chat.ProviderError
	Broken  error // the error of a layer that failed on it
	Ended   bool
	Count   meter.Count // usage so far
	Began   time.Time   // when its call was sent

	heldBack
	Gate *rounds.Gate // separates calls that are answered inside the gateway; nil without such tools

	Proof    *attestation.Proof // verified, once the answer is complete; nil if no attestation is required
	Form     *review.Transcript // its text, for validation; nil without a schema
	ownUsage *chat.Usage        // usage of its own call, if its events show that of all calls of the request
	marks

	Seen      cognition.Seen // head of the private provider's answer
	ID        string         // the provider's id for the answer
	StoredIDs []string       // ids of resources that the provider stored, or gave access to, with the answer
}

// marks record decisions and actions on an answer.
type marks struct {
	NotCacheable bool // it is invalid, or another call may give a better one
	Counted      bool // its call is on the request's bill
	Noted        bool // the provider's success was recorded
	Parallel     bool // it belongs to a side call
}

// heldBack is the part of an answer that is held until it was reviewed.
type heldBack struct {
	Holds     bool         // nothing is sent before Release
	Held      []chat.Event // the events, detached from the decoder's buffers
	HeldBytes int64        // size of Held in bytes
}

// Whole reports whether the answer is sent as a whole: the client does not stream, or it is held back.
func (a *Answer) Whole() bool { return a.Holds || !a.Stream }

// IsOver implements rounds.Sink: it reports whether reading the answer has ended.
func (a *Answer) IsOver() bool { return a.Failed != nil || a.Broken != nil || a.Ended }

// fail records the provider's error, and its dialect.
func (a *Answer) fail(e *chat.ProviderError) {
	failed := *e
	failed.Dialect = a.Dialect
	a.Failed = &failed
}

// note records what an event contains about the whole answer: usage, ids.
func (a *Answer) note(ev *chat.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are counted alone
	case chat.Start:
		a.ID = ev.ID
	case chat.Extra:
		a.noteIDs(ev)
	}
	if !a.Parallel { // the request's events count only its own calls
		a.Report.Tokens(ev)
	}
	if a.Gate == nil { // the gate counts by itself
		a.Count.Note(ev)
	}
}

// Drain returns the encoded bytes that were not sent yet. They are valid until the next Feed.
func (a *Answer) Drain() []byte {
	b := a.Out
	a.Out = a.Out[:0]
	return b
}

// noteIDs records the ids of stored resources in members that only the answer's own format has.
func (a *Answer) noteIDs(ev *chat.Event) {
	if len(ev.Text) == 0 || a.Dialect != a.Report.Request.Dialect {
		return
	}
	switch ev.Text[0] {
	case '"':
		if ev.ID == itemID {
			a.StoredIDs = stored.AppendID(a.StoredIDs, ev.Text)
		}
	case '{':
		own := a.Dialect == chat.Responses || ev.ID == "container" || ev.ID == "audio"
		a.StoredIDs = append(a.StoredIDs, stored.IDs(ev.Text, own)...)
	}
}

// itemID is the extra that holds the id of a response item.
const itemID = "item_id"

// Total returns the usage to bill. What the provider did not report is estimated from the events.
func (a *Answer) Total() chat.Usage {
	if a.ownUsage != nil {
		return *a.ownUsage
	}
	return a.Count.Total(a.Report.Request.InputTokens)
}

// estimate returns the usage that is billed, if it is an estimate and the client's format is not the provider's, whose usage it would get as it is.
func (a *Answer) estimate() (u chat.Usage, ok bool) {
	if a.Dialect == a.Report.Request.Dialect {
		return u, false
	}
	u = a.Total()
	if a.Report.Stored != nil {
		u = a.Report.Stored.Usage
	} else if u.Estimated {
		u = a.AnswersTotal().Usage
	}
	u.Final = true
	return u, u.Estimated
}

// complete returns a final usage event with the estimate instead of a report without numbers. Before the end of the content it is not final.
func (a *Answer) complete(ev *chat.Event) *chat.Event {
	u, ok := a.estimate()
	if !ok {
		return ev
	}
	completed := *ev
	completed.Usage = u
	completed.Usage.Final = a.Count.Stop != ""
	return &completed
}

// appendEstimate appends the encoded estimate of an answer that ends without a complete report.
func (a *Answer) appendEstimate(dst []byte) []byte {
	u, ok := a.estimate()
	if !ok {
		return dst
	}
	return a.Encoder.Append(dst, &chat.Event{Kind: chat.UsageInfo, Usage: u})
}

// Fails returns the answer's own failure: the provider's error in it, or a layer that could not read it; nil for none.
func (a *Answer) Fails() *upstream.Failure {
	switch {
	case a.Failed != nil:
		return upstream.Stated(a.By.Provider, a.Failed)
	case a.Broken != nil:
		return &upstream.Failure{Provider: a.By.Provider, Kind: upstream.NotEncoded, Cause: a.Broken}
	}
	return nil
}

// errorOf returns the error of an answer with a status other than 2xx.
func errorOf(a *Answer, status int) *chat.ProviderError {
	if a.Failed == nil {
		return &chat.ProviderError{Status: status}
	}
	e := *a.Failed
	if e.Status == 0 {
		e.Status = status
	}
	return &e
}

// RefusedBy returns the fault by which a layer refused the answer; nil if none did.
func (a *Answer) RefusedBy() *fault.Fault { return byRules(a.Broken) }

// Incomplete returns the error of a stored answer that was refused, or has no end; nil for any other.
func (a *Answer) Incomplete() error {
	switch {
	case a.Broken != nil:
		return a.Broken
	case !a.Ended:
		return errIncomplete
	}
	return nil
}

// errIncomplete is a stored answer without an end.
var errIncomplete = errors.New("a stored answer has no end")

// TooLong returns the failure of an answer that exceeds the gateway's buffer; nil for any other. size is in bytes.
func (a *Answer) TooLong(size int64) *upstream.Failure {
	if size > a.Report.Config.MaxAnswer {
		return &upstream.Failure{Provider: a.By.Provider, Kind: upstream.Reset, Cause: upstream.ErrTooLong}
	}
	return nil
}

// HasContent implements attempt.Sink.
func (a *Answer) HasContent() bool { return a.Content }

// LacksUsage implements attempt.Sink.
func (a *Answer) LacksUsage() bool { return a.Count.Stop != "" && !a.Count.Complete() && !a.IsOver() }

// Refusal implements attempt.Sink.
func (a *Answer) Refusal(status int) *chat.ProviderError { return errorOf(a, status) }

// RefusalOf returns the fault by which a layer refused an answer; nil for any other failure. It does not lead to another candidate.
func RefusalOf(f *upstream.Failure) *fault.Fault {
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

// RequestTotal returns the usage and cost of the request: all calls on the bill, and this answer's, which may not be on it yet.
func (a *Answer) RequestTotal() meter.Total {
	if a.Counted {
		return a.Report.Bill.Total()
	}
	u := a.Total()
	return a.Report.Bill.With(&a.By, &u)
}

// AnswersTotal is RequestTotal without layers' side calls.
func (a *Answer) AnswersTotal() meter.Total {
	if a.Counted {
		return a.Report.Bill.AnswersWith(nil, nil)
	}
	u := a.Total()
	return a.Report.Bill.AnswersWith(&a.By, &u)
}
