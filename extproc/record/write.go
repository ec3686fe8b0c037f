package record

import (
	"encoding/json"
	"strconv"
	"time"

	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// JSON returns the record as encoding/json would encode it. Every request has one, so it is encoded by hand: a third of the time, one allocation. The
// error is about members that few requests have.
func (r *Request) JSON() ([]byte, error) {
	w := writer{b: append(make([]byte, 0, usualRecord), '{')}
	w.request(r)
	w.attempts(r.AttemptLog)
	w.list("degraded", r.Degraded)
	w.usage(r)
	w.money(r)
	w.text("schema", r.Schema, true)
	if r.Verification != nil {
		w.rare("verification", r.Verification)
	}
	if r.Escalation != nil {
		w.rare("escalation", r.Escalation)
	}
	if r.Hedge != nil {
		w.rare("hedge", r.Hedge)
	}
	if len(r.Decisions) > 0 {
		w.rare("decisions", r.Decisions)
	}
	if r.Policies != (policy.Guards{}) {
		w.rare("policies", r.Policies)
	}
	if r.Budget != nil {
		w.rare("budget", r.Budget)
	}
	if r.BudgetDecision != nil {
		w.rare("budget_decision", r.BudgetDecision)
	}
	w.text("attestation", r.Attestation, true)
	w.text("cache", r.Cache, false)
	w.text("cache_entry", r.CacheEntry, true)
	if r.Similarity != 0 {
		w.b = strconv.AppendFloat(w.name("similarity"), r.Similarity, 'f', -1, 64)
	}
	w.b = r.SavingsUSD.AppendTo(w.name("savings_usd"))
	w.savings(r.Savings)
	w.text("pipeline", r.Pipeline, true)
	if len(r.SideCalls) > 0 {
		w.rare("side_calls", r.SideCalls)
	}
	w.number("latency_ms", r.LatencyMS, false)
	w.number("first_token_ms", r.FirstTokenMS, true)
	return append(w.b, '}'), w.err
}

// usualRecord is the length of most records, in bytes.
const usualRecord = 3 << 9

// writer appends the members of an object.
type writer struct {
	b   []byte
	err error
}

// name begins a member.
func (w *writer) name(n string) []byte {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), n...), '"', ':')
	return w.b
}

func (w *writer) text(n, value string, omitEmpty bool) {
	if value != "" || !omitEmpty {
		w.b = jsonx.AppendString(w.name(n), value)
	}
}

func (w *writer) number(n string, value int64, omitEmpty bool) {
	if value != 0 || !omitEmpty {
		w.b = strconv.AppendInt(w.name(n), value, 10)
	}
}

func (w *writer) flag(n string, value bool) { w.b = strconv.AppendBool(w.name(n), value) }

// rare writes a member that few records have.
func (w *writer) rare(n string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		w.err = err
		b = []byte("null")
	}
	w.b = append(w.name(n), b...)
}

func (w *writer) request(r *Request) {
	w.text("request_id", r.RequestID, false)
	w.b = append(r.CreatedAt.AppendFormat(append(w.name("created_at"), '"'), time.RFC3339Nano), '"')
	w.text("status", r.Status, false)
	w.text("error", r.Error, true)
	w.text("error_message", r.ErrorMessage, true)
	w.number("http_status", int64(r.HTTPStatus), false)
	w.text("dialect", string(r.Dialect), false)
	w.flag("stream", r.Stream)
	w.text("path", r.Path, false)
	w.text("requested_model", r.RequestedModel, false)
	w.text("provider", string(r.Provider), true)
	w.text("model", string(r.Model), true)
	w.text("subsystem", r.Subsystem, true)
	w.text("task", r.Task, true)
	w.text("regime", r.Regime, true)
	w.text("security_class", r.SecurityClass, true)
	w.text("privacy_tier", r.PrivacyTier, true)
	w.number("attempts", int64(r.Attempts), false)
}

func (w *writer) attempts(log []Attempt) {
	w.b = w.name("attempt_log")
	if log == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '[')
	for i := range log {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, '{')
		w.attempt(&log[i])
		w.b = append(w.b, '}')
	}
	w.b = append(w.b, ']')
}

func (w *writer) attempt(a *Attempt) {
	w.text("provider", string(a.Provider), false)
	w.text("model", string(a.Model), false)
	w.text("outcome", a.Outcome, false)
	w.text("reason", a.Reason, true)
	w.text("next", a.Next, true)
	w.text("next_reason", a.NextWhy, true)
	w.text("side", a.Side, true)
}

func (w *writer) savings(all []policy.Saving) {
	for i := range all {
		if i == 0 {
			w.b = append(w.name("savings"), "[{"...)
		} else {
			w.b = append(w.b, ",{"...)
		}
		w.text("layer", all[i].Layer, false)
		w.number("tokens", all[i].Tokens, false)
		w.b = append(all[i].Amount.AppendTo(w.name("usd")), '}')
	}
	if len(all) > 0 {
		w.b = append(w.b, ']')
	}
}

func (w *writer) list(n string, values []string) {
	w.b = w.name(n)
	if values == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '[')
	for i, v := range values {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.b = jsonx.AppendString(w.b, v)
	}
	w.b = append(w.b, ']')
}

func (w *writer) usage(r *Request) {
	w.number("input_tokens", r.InputTokens, false)
	w.number("cached_tokens", r.CachedTokens, false)
	w.number("cache_write_tokens", r.CacheWriteTokens, false)
	w.number("output_tokens", r.OutputTokens, false)
	w.number("reasoning_tokens", r.ReasoningTokens, false)
	w.flag("usage_estimated", r.UsageEstimated)
}

func (w *writer) money(r *Request) {
	w.flag("price_known", r.PriceKnown)
	w.text("service_tier", r.ServiceTier, true)
	w.b = r.ProviderCostUSD.AppendTo(w.name("provider_cost_usd"))
	w.b = r.CostUSD.AppendTo(w.name("cost_usd"))
	w.number("spread_pct", int64(r.SpreadPct), false)
	w.invoice(r.Invoice)
}

func (w *writer) invoice(lines []Line) {
	for i := range lines {
		if i == 0 {
			w.b = append(w.name("invoice"), "[{"...)
		} else {
			w.b = append(w.b, ",{"...)
		}
		w.line(&lines[i])
		w.b = append(w.b, '}')
	}
	if len(lines) > 0 {
		w.b = append(w.b, ']')
	}
}

func (w *writer) line(l *Line) {
	w.text("provider", string(l.Provider), false)
	w.text("model", string(l.Model), false)
	w.text("layer", l.Layer, true)
	w.text("kind", l.Kind, false)
	w.number("count", l.Count, true)
	if l.Price != 0 {
		w.b = l.Price.AppendTo(w.name("usd_per_million"))
	}
	w.b = l.CostUSD.AppendTo(w.name("cost_usd"))
	w.text("price_source", l.Source, true)
	if !l.Updated.IsZero() {
		w.b = append(l.Updated.AppendFormat(append(w.name("price_updated"), '"'), time.RFC3339Nano), '"')
	}
	w.text("price_hours", l.Hours, true)
}
