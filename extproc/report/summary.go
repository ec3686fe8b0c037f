package report

import (
	"encoding/json"
	"strconv"
	"time"

	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/review"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// Summary is the cost of a settled answer, and how it is reported.
type Summary struct {
	*record.Settlement

	Standing quota.Standing // state of the caller's limits
	of       *Report
}

// Summary returns the summary of a settlement, with the current state of the caller's limits.
func (r *Report) Summary(s *record.Settlement) *Summary {
	return &Summary{Settlement: s, Standing: r.Bill.Standing(), of: r}
}

// tier returns the service tier that the answer was billed in; "" for the default.
func (s *Summary) tier() string {
	if s.of.Stored != nil || s.Cost == 0 {
		return ""
	}
	if s.of.Later.PaidAsBatch() {
		return later.TierBatch
	}
	return s.of.Terms(&s.By).BilledTier(&s.By, &s.Usage)
}

// Record returns the request's full routing and cost record, without content. path is how it was served: native, driven or cache. A request that was
// refused before its body was read has only what the headers state.
func (s *Summary) Record(path string) []byte {
	r := s.of
	out := record.Request{
		RequestID: r.ID, Dialect: r.Head.Dialect(), Path: path, Subsystem: r.Hints.Subsystem,
		Task: r.Task, Regime: r.Hints.Regime, SecurityClass: r.securityClass(), PrivacyTier: r.neededTier(),
		Degraded: r.degraded(s.By, r.Calls.DegradedForOthers), ServiceTier: s.tier(), SpreadPct: r.SpreadAt(s.By.Provider),
		Schema: r.SchemaStatus(&s.By), Verification: r.Review.VerificationRecord(), Escalation: r.Review.EscalationRecord(), Pipeline: r.pipelineLog(),
		CacheEntry: r.cacheEntry(), Attestation: r.Attestation, SideCalls: r.sideRecord(), Invoice: r.invoice(),
		Decisions: r.Tags, Policies: r.Principal.Guards,
	}
	if r.Request != nil {
		out.Dialect, out.Stream, out.RequestedModel = r.Request.Dialect, r.Request.Stream, r.RequestedModel()
	}
	r.Trace.Fill(&out, r.Started)
	b, err := out.JSON()
	if err != nil {
		r.Logger.Error("a request's record cannot be written", "request", r.ID, "error", err)
	}
	return b
}

// Degraded lists what the request did not get from its provider and, once the answer is complete, what the client's format could not express, by the
// client's own names. Each is listed once.
func (r *Report) Degraded(to policy.Resolution) []string { return r.degraded(to, r.Calls.Degraded) }

// degraded is Degraded, with calls returning the entries of the attempt at a provider.
func (r *Report) degraded(to policy.Resolution, calls func(policy.ProviderID) []string) []string {
	var out wire.DegradedNames
	add := func(names []string) {
		for _, n := range names {
			out.Degrade(header.ListItem(n))
		}
	}
	add(to.Degraded)
	if r.Request != nil {
		add(r.Request.Dropped)
	}
	if word := r.Bill.Allowance.Degraded; word != "" {
		out.Degrade(word)
	}
	if r.Stored != nil {
		add(r.Stored.Degraded)
	} else {
		add(calls(to.Provider))
	}
	add(r.DegradedAnswer)
	if o := r.Review.Verification; o != nil && o.Requested && o.SkipReason != "" {
		out.Degrade(string(policy.CrossVerify))
	}
	if r.Review.Result != nil && r.Review.Result.Defaulted {
		out.Degrade(review.DegradedDefault)
	}
	return out.Degraded()
}

// pipelineLog returns the log of the layers, in milliseconds and tokens: "l3;dur=0.04, l4;dur=1.20;saved=11800". A layer that exceeded its time limit
// is marked late, and left if it was skipped for that.
func (r *Report) pipelineLog() string {
	if len(r.Log) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(r.Log))
	for i := range r.Log {
		e, note := &r.Log[i], r.Log[i].Note
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

// cacheEntry returns the id of the stored answer that was served, or under which the answer can be stored; "" for neither.
func (r *Report) cacheEntry() string {
	switch {
	case r.Stored != nil:
		return r.Stored.Key.ID()
	case r.Cache != nil && r.Cache.Records():
		return r.Cache.ID()
	}
	return ""
}

// invoice returns the lines of the provider cost, for the request's record.
func (r *Report) invoice() []record.Line {
	lines := r.Bill.Lines()
	if len(lines) == 0 {
		return nil
	}
	list := make([]record.Line, len(lines))
	for i := range lines {
		l := &lines[i]
		list[i] = record.Line{Provider: l.Call.To.Provider, Model: l.Call.To.Model, Layer: l.Call.Side, Kind: l.Kind, Count: l.Count, Price: policy.Micro(l.Price), CostUSD: l.Cost}
		if o := l.Origin; o != nil {
			list[i].Source, list[i].Updated, list[i].Hours = o.Source, o.Updated, o.Hours
		}
	}
	return list
}

// sideRecord returns the side calls on the bill, for the request's record.
func (r *Report) sideRecord() (list []record.SideCall) {
	for _, c := range r.Bill.Calls() {
		if c.Side != "" {
			list = append(list, record.SideCall{
				Layer: c.Side, Provider: c.To.Provider, Model: c.To.Model, InputTokens: c.Usage.TotalInput(), OutputTokens: c.Usage.Output, CostUSD: c.Cost,
			})
		}
	}
	return list
}

// SchemaStatus returns the value of X-Bardo-Schema for an answer of to; "" for none.
func (r *Report) SchemaStatus(to *policy.Resolution) string {
	if r.Stored != nil {
		return r.Stored.Schema
	}
	return r.Review.SchemaStatus(to)
}

// SchemaHeader appends the header to those of an answer.
func (r *Report) SchemaHeader(h header.List, to *policy.Resolution) header.List {
	if status := r.SchemaStatus(to); status != "" {
		h = append(h, header.Field{Name: review.HeaderSchema, Value: status})
	}
	return h
}

// VerifiedStatus returns the value of X-Bardo-Verified; "" for none.
func (r *Report) VerifiedStatus() string {
	if r.Stored != nil && r.Stored.Verified != "" {
		return r.Stored.Verified
	}
	return r.Review.VerifiedStatus()
}

// EscalatedStatus returns the value of X-Bardo-Escalated; "" for none.
func (r *Report) EscalatedStatus() string {
	if r.Stored != nil {
		return r.Stored.Escalated
	}
	return r.Review.EscalatedStatus()
}

// WithVerification adds the verification, with the names and values of both answers, to the JSON object that accompanies an answer.
func (r *Report) WithVerification(object []byte) []byte {
	v := r.Review.VerificationRecord()
	if v == nil || !r.FullChain || len(object) == 0 || object[len(object)-1] != '}' {
		return object
	}
	for i := range r.Review.Verification.Compared.Fields {
		f := &r.Review.Verification.Compared.Fields[i]
		v.Fields[i].Path, v.Fields[i].First, v.Fields[i].Second = f.Path, json.RawMessage(f.First), json.RawMessage(f.Second)
	}
	b, err := json.Marshal(v)
	if err != nil {
		r.Logger.Error("an answer's verification cannot be written", "request", r.ID, "error", err)
		return object
	}
	object = append(object[:len(object)-1:len(object)-1], `,"verification":`...)
	return append(append(object, b...), '}')
}

// checkHeaders append the results of verification and escalation.
func (r *Report) checkHeaders(h header.List) header.List {
	if status := r.VerifiedStatus(); status != "" {
		h = append(h, header.Field{Name: review.HeaderVerified, Value: status})
	}
	if status := r.EscalatedStatus(); status != "" {
		h = append(h, header.Field{Name: review.HeaderEscalated, Value: status})
	}
	if r.Attestation != "" {
		h = append(h, header.Field{Name: headerAttestation, Value: "verified; token=" + r.Attestation})
	}
	return r.ruleHeaders(h)
}

// headerAttestation marks an attested answer, with the hash of its token.
const headerAttestation = "x-bardo-attestation"

// The headers of the rules' decisions, and the matching members of a stream's last comment.
const (
	headerFirewall   = "x-bardo-firewall"
	headerGuardrails = "x-bardo-guardrails"
)

// ruleHeaders append the decisions of the operator's rules, as far as they are known.
func (r *Report) ruleHeaders(h header.List) header.List {
	for _, of := range [...]struct{ name, by string }{{headerFirewall, policy.ByFirewall}, {headerGuardrails, policy.ByGuardrail}} {
		if value := policy.Summary(r.Tags, of.by); value != "" {
			h = append(h, header.Field{Name: of.name, Value: value})
		}
	}
	return h
}
