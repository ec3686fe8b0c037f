package extproc

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

// idHeaders are the headers of every answer: the request's id, in each dialect's header, the caller's limits, and hints that were not understood.
func (x *exchange) idHeaders() header.List { return x.appendIDHeaders(make(header.List, 0, 9)) }

func (x *exchange) appendIDHeaders(h header.List) header.List {
	h = append(h, header.Field{Name: "x-request-id", Value: x.ID}, header.Field{Name: "request-id", Value: x.ID})
	return x.WarningHeader(x.limitHeaders(h))
}

// limitHeaders are what is left of the limits that the request counts against, as OpenAI's x-ratelimit headers. A limit that is not set has none.
func (x *exchange) limitHeaders(h header.List) header.List {
	s := x.bill.Standing()
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
		)
	}
	return h
}

// resetIn is a duration in OpenAI's format: 120ms, 1s, 6m0s.
func resetIn(d time.Duration) string {
	return (max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// answerHeaders are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	h := x.appendIDHeaders(make(header.List, 0, 24))
	h = append(h,
		header.Field{Name: "x-bardo-provider", Value: string(to.Provider)},
		header.Field{Name: "x-bardo-model", Value: string(to.Model)},
		header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(x.attemptNumber())},
		header.Field{Name: "x-bardo-spread", Value: strconv.Itoa(x.SpreadAt(to.Provider))},
	)
	h = x.Announced(x.cacheHeaders(h))
	if x.Hints.Subsystem != "" {
		h = append(h, header.Field{Name: "x-bardo-subsystem", Value: x.Hints.Subsystem})
	}
	h = x.checkHeaders(x.schemaHeader(h, &to))
	if d := x.degraded(to); len(d) > 0 {
		h = append(h, header.Field{Name: "x-bardo-degraded", Value: strings.Join(d, ",")})
	}
	return h
}

// attemptNumber counts the attempts up to the one that answers.
func (x *exchange) attemptNumber() int {
	if x.trace.Settled != nil || x.stored != nil || x.current != nil && x.current.counted {
		return len(x.trace.Attempts)
	}
	return len(x.trace.Attempts) + 1
}

// streamHeaders begin an event stream.
func (x *exchange) streamHeaders(to policy.Resolution) header.List {
	h := x.answerHeaders(to)
	if x.bill.Standing().TokensPerHour > 0 {
		h = append(h, remainingTokens(x.bill.Standing()))
	}
	if x.CallerPays(to.Provider) && x.stored == nil {
		h = append(h, header.Field{Name: "x-bardo-cost", Value: passthrough.CostDirect})
	}
	return append(x.budgetHeader(h),
		header.Field{Name: "content-type", Value: header.EventStream},
		header.Field{Name: "cache-control", Value: "no-cache"},
		header.Field{Name: "x-accel-buffering", Value: "no"},
	)
}

// headers appends what is known once the answer is settled: cost, usage, balance.
func (s *summary) headers(h header.List) header.List {
	cost := header.Field{Name: "x-bardo-cost", Value: passthrough.CostDirect}
	if s.x.stored != nil || !s.x.CallerPays(s.By.Provider) {
		cost.Value = s.Charged.String()
	}
	h = append(h, cost)
	if s.x.stored != nil || len(s.Savings) > 0 {
		h = append(h, header.Field{Name: "x-bardo-savings", Value: s.Saved.String()})
	}
	h = s.x.bill.Payer().Headers(h)
	if s.standing.TokensPerHour > 0 {
		h = append(h, remainingTokens(s.standing))
	}
	h = s.x.budgetHeader(h)
	if s.Usage.Reasoning > 0 {
		h = append(h, header.Field{Name: "x-bardo-reasoning-tokens", Value: strconv.FormatInt(s.Usage.Reasoning, 10)})
	}
	return h
}

func remainingTokens(s quota.Standing) header.Field {
	return header.Field{Name: "x-remaining-tokens", Value: strconv.FormatInt(s.RemainingTokens, 10)}
}

// last is the end of a stream, with the summary before its terminator, if the client's format has comments.
func (s *summary) last(terminator []byte) []byte {
	if !wire.TakesComments(s.x.Dialect) {
		return terminator
	}
	return append(sse.AppendComment(nil, "bardo "+string(s.comment())), terminator...)
}

// trailers are headers and comment at the end of a driven stream, for clients that read trailers.
func (s *summary) trailers() header.List {
	return s.x.checkHeaders(s.x.schemaHeader(s.headers(nil), &s.By))
}

// comment is the JSON of a stream's last comment.
func (s *summary) comment() []byte {
	u := s.Usage
	b := make([]byte, 0, 384)
	b = append(b, `{"request_id":`...)
	b = jsonx.AppendString(b, s.x.ID)
	b = append(b, `,"provider":`...)
	b = jsonx.AppendString(b, string(s.By.Provider))
	b = append(b, `,"model":`...)
	b = jsonx.AppendString(b, string(s.By.Model))
	b = appendInt(b, `,"attempts":`, int64(len(s.x.trace.Attempts)))
	b = appendInt(b, `,"input_tokens":`, u.TotalInput())
	b = appendInt(b, `,"cached_tokens":`, u.Cached)
	b = appendInt(b, `,"cache_write_tokens":`, u.CacheWrite+u.CacheWrite1h)
	b = appendInt(b, `,"output_tokens":`, u.Output)
	b = appendInt(b, `,"reasoning_tokens":`, u.Reasoning)
	b = append(b, `,"cost_usd":`...)
	b = append(b, s.Charged.String()...)
	b = append(append(b, `,"savings_usd":`...), s.Saved.String()...)
	b = append(b, `,"balance_usd":`...)
	balance, known := s.x.bill.Payer().Balance()
	b = append(b, jsonx.OrNull(known, balance.String())...)
	b = append(b, `,"remaining_tokens":`...)
	b = append(b, jsonx.OrNull(s.standing.TokensPerHour > 0, strconv.FormatInt(s.standing.RemainingTokens, 10))...)
	if similarity := s.x.trace.Similarity; similarity > 0 {
		b = strconv.AppendFloat(append(b, `,"similarity":`...), similarity, 'f', 3, 64)
	}
	b = append(append(b, `,"cache":"`...), s.x.trace.Cache.OrMiss()...)
	if word := s.x.schemaStatus(&s.By); word != "" {
		b = append(append(b, `","schema":"`...), word...)
	}
	b = append(b, '"')
	if word := s.x.verifiedStatus(); word != "" {
		b = jsonx.AppendString(append(b, `,"verified":`...), word)
	}
	if word := s.x.escalatedStatus(); word != "" {
		b = jsonx.AppendString(append(b, `,"escalated":`...), word)
	}
	if word := policy.Summary(s.x.Tags, policy.ByFirewall); word != "" {
		b = jsonx.AppendString(append(b, `,"firewall":`...), word)
	}
	if word := policy.Summary(s.x.Tags, policy.ByGuardrail); word != "" {
		b = jsonx.AppendString(append(b, `,"guardrails":`...), word)
	}
	if p, ok := s.x.bill.Payer().(meter.PerRequest); ok && p.State() != "" {
		b = jsonx.AppendString(append(b, `,"payment":`...), p.State())
	}
	return append(b, '}')
}

func appendInt(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

// budgetHeader appends what is left of the subsystem's budget, where that is limited.
func (x *exchange) budgetHeader(h header.List) header.List {
	if b := &x.bill.Allowance; b.Limited() {
		h = append(h, header.Field{Name: headerBudget, Value: b.Left.String()})
	}
	return h
}

// headerBudget is what is left today of the budget that the request uses.
const headerBudget = "x-bardo-budget-remaining"

// cacheHeaders append the cache status, an answer's age, and the log of the layers.
func (x *exchange) cacheHeaders(h header.List) header.List {
	if x.stored != nil {
		h = append(h, header.Field{Name: "age", Value: strconv.FormatInt(int64(x.Cache.Age(x.stored)/time.Second), 10)})
	}
	if x.trace.Cache != record.CacheUnused && (x.trace.Cache != record.CacheCoalesced || x.stored != nil) { // a request that still waits may have to make a call of its own
		h = append(h, header.Field{Name: cache.Header, Value: string(x.trace.Cache)})
	}
	if x.trace.Cache == record.CacheSemantic {
		h = append(h, header.Field{Name: "x-bardo-similarity", Value: strconv.FormatFloat(x.trace.Similarity, 'f', 3, 64)})
	}
	if did := x.pipelineLog(); did != "" {
		h = append(h, header.Field{Name: "x-bardo-pipeline", Value: did})
	}
	return h
}
