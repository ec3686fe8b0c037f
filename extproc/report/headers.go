package report

import (
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/passthrough"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// IDHeaders returns the headers of every answer: the request's id in each dialect's header, the caller's limits, and warnings about unknown hints.
func (r *Report) IDHeaders() header.List { return r.appendIDHeaders(make(header.List, 0, 10)) }

func (r *Report) appendIDHeaders(h header.List) header.List {
	h = append(h, header.Field{Name: "x-request-id", Value: r.ID}, header.Field{Name: "request-id", Value: r.ID})
	return r.WarningHeader(r.limitHeaders(h))
}

// limitHeaders append what is left of the request's limits as OpenAI's x-ratelimit headers, and of the hourly tokens also as X-Remaining-Tokens.
// Limits that are not set have no header.
func (r *Report) limitHeaders(h header.List) header.List {
	s := r.Bill.Standing()
	if s.RequestsPerMinute == 0 && s.TokensPerHour == 0 {
		return h
	}
	now := time.Now()
	if s.RequestsPerMinute > 0 {
		left, reset := s.Requests(now)
		h = append(h,
			header.Field{Name: "x-ratelimit-limit-requests", Value: strconv.Itoa(s.RequestsPerMinute)},
			header.Field{Name: "x-ratelimit-remaining-requests", Value: strconv.Itoa(left)},
			header.Field{Name: "x-ratelimit-reset-requests", Value: resetIn(reset)},
		)
	}
	if s.TokensPerHour > 0 {
		h = append(h,
			header.Field{Name: "x-ratelimit-limit-tokens", Value: strconv.FormatInt(s.TokensPerHour, 10)},
			header.Field{Name: "x-ratelimit-remaining-tokens", Value: strconv.FormatInt(s.RemainingTokens, 10)},
			header.Field{Name: "x-ratelimit-reset-tokens", Value: resetIn(s.Reset.Sub(now))},
			remainingTokens(s),
		)
	}
	return h
}

// resetIn returns a duration in OpenAI's format: 120ms, 1s, 6m0s.
func resetIn(d time.Duration) string {
	return (max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// Answer returns the headers of an answer that are known before its cost. attempts is the number of the attempt that answers.
func (r *Report) Answer(to policy.Resolution, attempts int) header.List {
	h := r.appendIDHeaders(make(header.List, 0, 24))
	h = append(h,
		header.Field{Name: "x-bardo-provider", Value: string(to.Provider)},
		header.Field{Name: "x-bardo-model", Value: string(to.Model)},
		header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(attempts)},
		header.Field{Name: "x-bardo-spread", Value: strconv.Itoa(r.SpreadAt(to.Provider))},
	)
	h = r.Announced(r.cacheHeaders(h))
	if r.Hints.Subsystem != "" {
		h = append(h, header.Field{Name: "x-bardo-subsystem", Value: r.Hints.Subsystem})
	}
	h = r.checkHeaders(r.SchemaHeader(h, &to))
	if d := r.Degraded(to); len(d) > 0 {
		h = append(h, header.Field{Name: "x-bardo-degraded", Value: strings.Join(d, ",")})
	}
	return h
}

// Stream returns the headers that begin an event stream.
func (r *Report) Stream(to policy.Resolution, attempts int) header.List {
	h := r.Answer(to, attempts)
	if r.CallerPays(to.Provider) && r.Stored == nil {
		h = append(h, header.Field{Name: "x-bardo-cost", Value: passthrough.CostDirect})
	}
	return append(r.budgetHeader(h),
		header.Field{Name: "content-type", Value: header.EventStream},
		header.Field{Name: "cache-control", Value: "no-cache"},
		header.Field{Name: "x-accel-buffering", Value: "no"},
	)
}

// Headers appends the headers that are known after the answer is settled: cost, usage, balance.
func (s *Summary) Headers(h header.List) header.List {
	cost := header.Field{Name: "x-bardo-cost", Value: passthrough.CostDirect}
	if s.of.Stored != nil || !s.of.CallerPays(s.By.Provider) {
		cost.Value = s.Charged.String()
	}
	h = append(h, cost)
	if s.of.Stored != nil || len(s.Savings) > 0 {
		h = append(h, header.Field{Name: "x-bardo-savings", Value: s.Saved.String()})
	}
	h = s.of.Bill.Payer().Headers(h)
	h = s.of.budgetHeader(h)
	if s.Usage.Reasoning > 0 {
		h = append(h, header.Field{Name: "x-bardo-reasoning-tokens", Value: strconv.FormatInt(s.Usage.Reasoning, 10)})
	}
	return h
}

func remainingTokens(s quota.Standing) header.Field {
	return header.Field{Name: "x-remaining-tokens", Value: strconv.FormatInt(s.RemainingTokens, 10)}
}

// Last returns the end of a stream, with the summary before its terminator if the client's format has comments.
func (s *Summary) Last(terminator []byte) []byte {
	if !wire.TakesComments(s.of.Dialect) {
		return terminator
	}
	return append(sse.AppendComment(nil, "bardo "+string(s.comment())), terminator...)
}

// Trailers returns headers and comment for the end of a driven stream, for clients that read trailers.
func (s *Summary) Trailers() header.List {
	h := s.Headers(nil)
	if s.Standing.TokensPerHour > 0 {
		h = append(h, remainingTokens(s.Standing))
	}
	return s.of.checkHeaders(s.of.SchemaHeader(h, &s.By))
}

// comment returns the JSON of a stream's last comment.
func (s *Summary) comment() []byte {
	u := s.Usage
	b := make([]byte, 0, 384)
	b = append(b, `{"request_id":`...)
	b = jsonx.AppendString(b, s.of.ID)
	b = append(b, `,"provider":`...)
	b = jsonx.AppendString(b, string(s.By.Provider))
	b = append(b, `,"model":`...)
	b = jsonx.AppendString(b, string(s.By.Model))
	b = appendInt(b, `,"attempts":`, int64(len(s.of.Trace.Attempts)))
	b = appendInt(b, `,"input_tokens":`, u.TotalInput())
	b = appendInt(b, `,"cached_tokens":`, u.Cached)
	b = appendInt(b, `,"cache_write_tokens":`, u.CacheWrite+u.CacheWrite1h)
	b = appendInt(b, `,"output_tokens":`, u.Output)
	b = appendInt(b, `,"reasoning_tokens":`, u.Reasoning)
	b = append(b, `,"cost_usd":`...)
	b = append(b, s.Charged.String()...)
	b = append(append(b, `,"savings_usd":`...), s.Saved.String()...)
	b = append(b, `,"balance_usd":`...)
	balance, known := s.of.Bill.Payer().Balance()
	b = append(b, jsonx.OrNull(known, balance.String())...)
	b = append(b, `,"remaining_tokens":`...)
	b = append(b, jsonx.OrNull(s.Standing.TokensPerHour > 0, strconv.FormatInt(s.Standing.RemainingTokens, 10))...)
	if similarity := s.of.Trace.Similarity; similarity > 0 {
		b = strconv.AppendFloat(append(b, `,"similarity":`...), similarity, 'f', 3, 64)
	}
	b = append(append(b, `,"cache":"`...), s.of.Trace.Cache.OrMiss()...)
	if value := s.of.SchemaStatus(&s.By); value != "" {
		b = append(append(b, `","schema":"`...), value...)
	}
	b = append(b, '"')
	if d := s.of.Degraded(s.By); len(d) > 0 { // also what only the answer lacks, unlike X-Bardo-Degraded
		b = jsonx.AppendString(append(b, `,"degraded":`...), strings.Join(d, ","))
	}
	if value := s.of.VerifiedStatus(); value != "" {
		b = jsonx.AppendString(append(b, `,"verified":`...), value)
	}
	if s.of.Attestation != "" {
		b = jsonx.AppendString(append(b, `,"attestation":`...), s.of.Attestation)
	}
	if value := s.of.EscalatedStatus(); value != "" {
		b = jsonx.AppendString(append(b, `,"escalated":`...), value)
	}
	if value := policy.Summary(s.of.Tags, policy.ByFirewall); value != "" {
		b = jsonx.AppendString(append(b, `,"firewall":`...), value)
	}
	if value := policy.Summary(s.of.Tags, policy.ByGuardrail); value != "" {
		b = jsonx.AppendString(append(b, `,"guardrails":`...), value)
	}
	if p, ok := s.of.Bill.Payer().(meter.PerRequest); ok && p.State() != "" {
		b = jsonx.AppendString(append(b, `,"payment":`...), p.State())
	}
	return append(b, '}')
}

func appendInt(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

// budgetHeader appends what is left of the subsystem's budget, if it is limited.
func (r *Report) budgetHeader(h header.List) header.List {
	if b := &r.Bill.Allowance; b.Limited() {
		h = append(h, header.Field{Name: headerBudget, Value: b.Left.String()})
	}
	return h
}

// headerBudget is what is left of today's budget that the request counts against.
const headerBudget = "x-bardo-budget-remaining"

// cacheHeaders append the cache status, the answer's age, and the log of the layers.
func (r *Report) cacheHeaders(h header.List) header.List {
	if r.Stored != nil {
		h = append(h, header.Field{Name: "age", Value: strconv.FormatInt(int64(r.Cache.Age(r.Stored)/time.Second), 10)})
	}
	if r.Trace.Cache != record.CacheUnused && (r.Trace.Cache != record.CacheCoalesced || r.Stored != nil) { // a request that still waits may yet make a call of its own
		h = append(h, header.Field{Name: cache.Header, Value: string(r.Trace.Cache)})
	}
	if r.Trace.Cache == record.CacheSemantic {
		h = append(h, header.Field{Name: "x-bardo-similarity", Value: strconv.FormatFloat(r.Trace.Similarity, 'f', 3, 64)})
	}
	if did := r.pipelineLog(); did != "" {
		h = append(h, header.Field{Name: "x-bardo-pipeline", Value: did})
	}
	return h
}
