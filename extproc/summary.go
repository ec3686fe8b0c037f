package extproc

import (
	"encoding/json"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// summary is what a settled answer cost.
type summary struct {
	*record.Settlement

	x        *exchange
	standing quota.Standing
}

// tier is the tier of service that the answer was billed in; "" for the usual one.
func (s *summary) tier() string {
	if s.x.stored != nil || s.Cost == 0 {
		return ""
	}
	if s.x.later.PaidAsBatch() {
		return later.TierBatch
	}
	return s.x.Terms(&s.By).BilledTier(&s.By, &s.Usage)
}

// record is the request's full routing and cost record, without content.
func (s *summary) record() []byte {
	x := s.x
	r := record.Request{
		RequestID: x.ID, Dialect: x.Request.Dialect, Stream: x.Request.Stream, Path: x.pathName(), RequestedModel: x.RequestedModel(), Subsystem: x.Hints.Subsystem,
		Task: x.task, Regime: x.Hints.Regime,
		Degraded: x.degraded(s.By), ServiceTier: s.tier(), SpreadPct: x.SpreadAt(s.By.Provider),
		Schema: x.schemaStatus(&s.By), Verification: x.review.VerificationRecord(), Escalation: x.review.EscalationRecord(), Pipeline: x.pipelineLog(),
		SideCalls: x.sideRecord(),
		Decisions: x.Tags, Policies: x.Principal.Guards,
	}
	r.CacheEntry = x.cacheEntry()
	x.trace.Fill(&r, x.Started)
	b, err := r.JSON()
	if err != nil {
		x.gw.Log.Error("a request's record cannot be written", "request", x.ID, "error", err)
	}
	return b
}

// pathName is the path that served the request, for X-Bardo-Path.
func (x *exchange) pathName() string {
	if x.stored != nil {
		return "cache"
	}
	if x.Request != nil && x.Request.Op == chat.Generate && x.driven() {
		return "driven"
	}
	return "native"
}

// degraded lists what the request did not get from its provider and, once the answer is complete, what of it the client's format could not express.
// Each is named once.
func (x *exchange) degraded(to policy.Resolution) []string {
	var out wire.DegradedNames
	lose := func(names []string) {
		for _, n := range names {
			out.Degrade(header.ListItem(n))
		}
	}
	lose(to.Degraded)
	if x.Request != nil {
		lose(x.Request.Dropped)
	}
	if word := x.bill.Allowance.Degraded; word != "" {
		out.Degrade(word)
	}
	if x.stored != nil {
		lose(x.stored.Degraded)
	} else {
		lose(x.calls.Degraded(to.Provider))
	}
	lose(x.degradedAnswer)
	if o := x.review.Verification; o != nil && o.Requested && o.SkipReason != "" {
		out.Degrade(string(policy.CrossVerify))
	}
	if x.review.Result != nil && x.review.Result.Defaulted {
		out.Degrade(review.DegradedDefault)
	}
	return out.Degraded()
}

// pipelineLog is the log of the layers, in milliseconds and tokens: "l3;dur=0.04, l4;dur=1.20;saved=11800". A layer over its time limit is marked
// late, and one that was skipped for that left.
func (x *exchange) pipelineLog() string {
	if len(x.Log) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(x.Log))
	for i := range x.Log {
		e, note := &x.Log[i], x.Log[i].Note
		if e.Later != nil {
			if note = e.Later.Note(); note == "" {
				continue
			}
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, e.Layer...), ";dur="...)
		b = strconv.AppendFloat(b, float64(e.Took)/float64(time.Millisecond), 'f', 2, 64)
		switch {
		case e.TimedOut:
			b = append(b, ";left"...)
		case e.Late():
			b = append(b, ";late"...)
		}
		if e.Saved > 0 {
			b = strconv.AppendInt(append(b, ";saved="...), e.Saved, 10)
		}
		if note != "" {
			b = append(append(b, ';'), note...)
		}
	}
	return string(b)
}

// cacheEntry is the id of the stored answer that was served, or under which the answer is stored if it can be; "" for neither.
func (x *exchange) cacheEntry() string {
	switch {
	case x.stored != nil:
		return x.stored.Key.ID()
	case x.Cache != nil && x.Cache.Records():
		return x.Cache.ID()
	}
	return ""
}

// sideRecord lists the side calls on the bill, for the request's record.
func (x *exchange) sideRecord() (list []record.SideCall) {
	for _, c := range x.bill.Calls() {
		if c.Side != "" {
			list = append(list, record.SideCall{
				Layer: c.Side, Provider: c.To.Provider, Model: c.To.Model, InputTokens: c.Usage.TotalInput(), OutputTokens: c.Usage.Output, CostUSD: c.Cost,
			})
		}
	}
	return list
}

// schemaStatus is what X-Bardo-Schema says of an answer of to; "" for nothing.
func (x *exchange) schemaStatus(to *policy.Resolution) string {
	if x.stored != nil {
		return x.stored.Schema
	}
	return x.review.SchemaStatus(to)
}

// schemaHeader appends the header to those of an answer.
func (x *exchange) schemaHeader(h header.List, to *policy.Resolution) header.List {
	if word := x.schemaStatus(to); word != "" {
		h = append(h, header.Field{Name: review.HeaderSchema, Value: word})
	}
	return h
}

// verifiedStatus is what X-Bardo-Verified says; "" for nothing.
func (x *exchange) verifiedStatus() string {
	if x.stored != nil && x.stored.Verified != "" {
		return x.stored.Verified
	}
	return x.review.VerifiedStatus()
}

// escalatedStatus is what X-Bardo-Escalated says; "" for nothing.
func (x *exchange) escalatedStatus() string {
	if x.stored != nil {
		return x.stored.Escalated
	}
	return x.review.EscalatedStatus()
}

// withVerification puts the verification, with the values of both answers, into the JSON object that stands beside an answer.
func (x *exchange) withVerification(object []byte) []byte {
	r := x.review.VerificationRecord()
	if r == nil || !x.fullChain || len(object) == 0 || object[len(object)-1] != '}' {
		return object
	}
	for i := range x.review.Verification.Compared.Fields {
		f := &x.review.Verification.Compared.Fields[i]
		r.Fields[i].First, r.Fields[i].Second = json.RawMessage(f.First), json.RawMessage(f.Second)
	}
	b, err := json.Marshal(r)
	if err != nil {
		x.gw.Log.Error("an answer's verification cannot be written", "request", x.ID, "error", err)
		return object
	}
	object = append(object[:len(object)-1:len(object)-1], `,"verification":`...)
	return append(append(object, b...), '}')
}

// checkHeaders append the results of verification and escalation.
func (x *exchange) checkHeaders(h header.List) header.List {
	if word := x.verifiedStatus(); word != "" {
		h = append(h, header.Field{Name: review.HeaderVerified, Value: word})
	}
	if word := x.escalatedStatus(); word != "" {
		h = append(h, header.Field{Name: review.HeaderEscalated, Value: word})
	}
	return x.ruleHeaders(h)
}

// The headers with what the rules decided, and the members of a stream's last comment.
const (
	headerFirewall   = "x-bardo-firewall"
	headerGuardrails = "x-bardo-guardrails"
)

// ruleHeaders append what the operator's rules decided about the request, as far as it is known.
func (x *exchange) ruleHeaders(h header.List) header.List {
	for _, r := range [...]struct{ name, by string }{{headerFirewall, policy.ByFirewall}, {headerGuardrails, policy.ByGuardrail}} {
		if word := policy.Summary(x.Tags, r.by); word != "" {
			h = append(h, header.Field{Name: r.name, Value: word})
		}
	}
	return h
}
