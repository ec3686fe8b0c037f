package extproc

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/internal/sse"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// lowBalance is the balance below which answers carry a warning.
const lowBalance = policy.USD

// idHeaders name the request, in each dialect's habit, say how its caller stands, and what of it was not understood: every answer has
// them.
func (x *exchange) idHeaders() header.List {
	h := make(header.List, 0, 9)
	h = append(h, header.Field{Name: "x-request-id", Value: x.ID}, header.Field{Name: "request-id", Value: x.ID})
	return x.warning(x.limitHeaders(h))
}

// limitHeaders say in OpenAI's form what is left of the limits that the request counts against. Where there is no limit, there is no
// header.
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

// resetIn is a duration as OpenAI writes it: 120ms, 1s, 6m0s.
func resetIn(d time.Duration) string {
	return (max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond).String()
}

// answerHeaders are known before an answer's cost is.
func (x *exchange) answerHeaders(to policy.Resolution) header.List {
	h := make(header.List, 0, 20)
	h = append(h, x.idHeaders()...)
	h = append(h,
		header.Field{Name: "x-bardo-provider", Value: string(to.Provider)},
		header.Field{Name: "x-bardo-model", Value: string(to.Model)},
		header.Field{Name: "x-bardo-attempts", Value: strconv.Itoa(x.attemptNumber())},
		header.Field{Name: "x-bardo-spread", Value: strconv.Itoa(x.spreadAt(to.Provider))},
	)
	h = x.cacheHeaders(h)
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
	if x.settled != nil || x.stored != nil || x.current != nil && x.current.counted {
		return len(x.attempts)
	}
	return len(x.attempts) + 1
}

// streamHeaders begin an event stream.
func (x *exchange) streamHeaders(to policy.Resolution) header.List {
	h := x.answerHeaders(to)
	if x.bill.Standing().TokensPerHour > 0 {
		h = append(h, remainingTokens(x.bill.Standing()))
	}
	if x.direct(to.Provider) && x.stored == nil {
		h = append(h, header.Field{Name: "x-bardo-cost", Value: costDirect})
	}
	return append(x.budgetHeader(h),
		header.Field{Name: "content-type", Value: header.EventStream},
		header.Field{Name: "cache-control", Value: "no-cache"},
		header.Field{Name: "x-accel-buffering", Value: "no"},
	)
}

// degraded is what this request could not have from its provider and, once the answer is complete, what of it the client's
// format could not say. Each is named once.
func (x *exchange) degraded(to policy.Resolution) []string {
	var out wire.Losses
	lose := func(names []string) {
		for _, n := range names {
			out.Lose(headerWord(n))
		}
	}
	lose(to.Degraded)
	if x.Request != nil {
		lose(x.Request.Lost)
	}
	if word := x.bill.Allowance.Degraded; word != "" {
		out.Lose(word)
	}
	if x.stored != nil {
		lose(x.stored.Degraded)
	} else {
		lose(x.lostAt(to.Provider))
	}
	lose(x.unsaid)
	if o := x.opinions; o != nil && o.owed && o.skipped != "" {
		out.Lose(string(policy.CrossVerify))
	}
	if x.found != nil && x.found.defaulted {
		out.Lose(lostDefault)
	}
	return out.Lost()
}

// headerWord makes a name fit for a list in a header: it may be a client's own word, and one that Envoy does not take, or that
// makes the headers too long, costs the whole answer.
func headerWord(name string) string {
	const most = 64
	fits := func(c byte) bool { return c > ' ' && c < 0x7f && c != ',' }
	if len(name) <= most && !slices.ContainsFunc([]byte(name), func(c byte) bool { return !fits(c) }) {
		return name
	}
	b := []byte(name[:min(len(name), most)])
	for i, c := range b {
		if !fits(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

// headers are what is known once an answer is paid for.
func (s *summary) headers() header.List {
	h := header.List{{Name: "x-bardo-cost", Value: s.Charged.String()}}
	if s.x.stored == nil && s.x.direct(s.to.Provider) {
		h[0].Value = costDirect
	}
	if s.x.stored != nil {
		h = append(h, header.Field{Name: "x-bardo-savings", Value: s.saved.String()})
	}
	if s.prepaid {
		h = append(h, header.Field{Name: "x-bardo-balance", Value: s.balance.String()})
		if s.balance < lowBalance {
			h = append(h, header.Field{Name: "x-bardo-balance-warning", Value: "balance below $1.00"})
		}
	}
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

// last is the end of a stream, with the summary before its terminator, if the client reads comments.
func (s *summary) last(terminator []byte) []byte {
	if _, plain := s.x.dialect.(wire.Plain); plain {
		return terminator
	}
	return append(sse.AppendComment(nil, "bardo "+string(s.comment())), terminator...)
}

// trailers say the same at the end of a driven stream.
func (s *summary) trailers() header.List {
	return s.x.checkHeaders(s.x.schemaHeader(s.headers(), &s.to))
}

// comment is the JSON of a stream's last comment.
func (s *summary) comment() []byte {
	u := s.Usage
	b := make([]byte, 0, 384)
	b = append(b, `{"request_id":`...)
	b = jsonx.AppendString(b, s.x.ID)
	b = append(b, `,"provider":`...)
	b = jsonx.AppendString(b, string(s.to.Provider))
	b = append(b, `,"model":`...)
	b = jsonx.AppendString(b, string(s.to.Model))
	b = appendInt(b, `,"attempts":`, int64(len(s.x.attempts)))
	b = appendInt(b, `,"input_tokens":`, u.TotalInput())
	b = appendInt(b, `,"cached_tokens":`, u.Cached)
	b = appendInt(b, `,"cache_write_tokens":`, u.CacheWrite+u.CacheWrite1h)
	b = appendInt(b, `,"output_tokens":`, u.Output)
	b = appendInt(b, `,"reasoning_tokens":`, u.Reasoning)
	b = append(b, `,"cost_usd":`...)
	b = append(b, s.Charged.String()...)
	b = append(append(b, `,"savings_usd":`...), s.saved.String()...)
	b = append(b, `,"balance_usd":`...)
	b = append(b, jsonx.OrNull(s.prepaid, s.balance.String())...)
	b = append(b, `,"remaining_tokens":`...)
	b = append(b, jsonx.OrNull(s.standing.TokensPerHour > 0, strconv.FormatInt(s.standing.RemainingTokens, 10))...)
	b = append(append(b, `,"cache":"`...), s.x.known.orMiss()...)
	if word := s.x.schemaWord(&s.to); word != "" {
		b = append(append(b, `","schema":"`...), word...)
	}
	b = append(b, '"')
	if word := s.x.verifiedWord(); word != "" {
		b = jsonx.AppendString(append(b, `,"verified":`...), word)
	}
	if word := s.x.escalatedWord(); word != "" {
		b = jsonx.AppendString(append(b, `,"escalated":`...), word)
	}
	return append(b, '}')
}

func appendInt(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

// pathName says which path served the request.
func (x *exchange) pathName() string {
	if x.stored != nil {
		return "cache"
	}
	if x.Request != nil && x.Request.Op == chat.Generate && x.driven() {
		return "driven"
	}
	return "native"
}
