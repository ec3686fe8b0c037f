package extproc

import (
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/policy"
)

// metered is an exchange as its bill sees it.
type metered exchange

var _ meter.Request = (*metered)(nil)

// Terms implements meter.Request.
func (m *metered) Terms(to *policy.Resolution) meter.Terms {
	x := (*exchange)(m)
	return meter.Terms{Direct: x.direct(to.Provider), Tier: x.tierAt(to), Thinks: x.mayReason(to)}
}

// InputTokens implements meter.Request.
func (m *metered) InputTokens() int64 { return m.Request.InputTokens }

// unknownWindow is the window of a model that nobody described, in tokens: larger than any today.
const unknownWindow = 4 << 20

// MostTokens implements meter.Request (D-87).
func (m *metered) MostTokens(to *policy.Resolution) int64 {
	if m.Request.Op == chat.Embed { // a window holds one text, of which there may be many
		return m.Request.MostInput
	}
	window := int64((*exchange)(m).windowOf(to))
	if window == 0 {
		window = unknownWindow
	}
	output := window
	switch {
	case m.Request.MaxTokens > 0:
		output = policy.AddTokens(int64(m.Request.MaxTokens), int64((*exchange)(m).raised([]policy.Resolution{*to})))
	case to.MaxOutput > 0:
		output = int64(to.MaxOutput)
	}
	if (*exchange)(m).verbatim() {
		window = m.Request.MostInput
	}
	most := policy.AddTokens(window, policy.TimesTokens(output, int64(max(m.Request.Choices, 1))))
	if wire.Compacts(&m.Request.Doc) {
		most = policy.TimesTokens(most, 2)
	}
	return most
}

// mayReason reports whether a candidate may reason before it answers this request.
func (x *exchange) mayReason(to *policy.Resolution) bool {
	switch {
	case to.Reasoning == "none":
		return false
	case to.Thinks == policy.ThinksAlways || to.Control == policy.ControlAlways:
		return true
	case x.Request == nil:
		return false
	}
	return !x.Request.ThinkingOff() && (x.Request.Thinking || to.Thinks == policy.ThinksUnlessTold)
}

// terms are those of a call whose answer was billed.
func (x *exchange) terms(to *policy.Resolution) meter.Terms { return (*metered)(x).Terms(to) }

// attemptWord is how the request's record calls a paid call whose answer the client did not get.
func attemptWord(outcome string) string {
	if outcome == record.Invalid {
		return "schema"
	}
	return record.OK
}

// charge puts a call whose answer the client does not get on the bill, once.
func (x *exchange) charge(a *answer) {
	if a.counted {
		return
	}
	x.owe(a, a.total())
	x.remember(a)
}

// owe puts what an answer took on the bill.
func (x *exchange) owe(a *answer, u chat.Usage) {
	a.counted = true
	if !a.beside {
		x.bill.Over()
	}
	if x.bill.Add(&a.res, u) {
		x.tellCapped(&a.res, &u)
	}
}

// owed is what a request took in all: the calls on the bill, and that of an answer which is not there.
func (x *exchange) owed(a *answer) meter.Total {
	if a.counted {
		return x.bill.Total()
	}
	u := a.total()
	return x.bill.With(&a.res, &u)
}

// remember tells the layers who gave an answer, whether the client gets it or not: the conversation's beginning is warm there. Only the
// model that comes first counts, since it is asked first again: another one answers where the first fails, is not sure enough, or is not
// trusted alone.
func (x *exchange) remember(a *answer) {
	x.stay(&a.res)
	if len(x.Found) > 0 && a.res.Model == x.Found[0].Model {
		x.rt.Pipeline.Finish(&x.Exchange, a.res.Provider, x.lastKey(a.res.Provider).id())
	}
}

// shownUsage has the reports of usage among an answer's events speak of all calls: the client reads what it pays for. The provider's own
// bytes are of the last call alone.
func shownUsage(events []chat.Event, all chat.Usage) {
	last := -1
	for i := range events {
		if events[i].Kind != chat.UsageInfo {
			continue
		}
		u := &events[i].Usage
		u.Input, u.Cached, u.CacheWrite, u.CacheWrite1h = all.Input, all.Cached, all.CacheWrite, all.CacheWrite1h
		events[i].Text, last = nil, i
	}
	if last >= 0 {
		all.Final = true
		events[last].Usage = all
	}
}

// eventCapped tells that a provider reported more usage than a call can have.
const eventCapped = "inference:usage_capped"

type usageCapped struct {
	RequestID string            `json:"request_id"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Input     int64             `json:"reported_input_tokens"`
	Output    int64             `json:"reported_output_tokens"`
	Cost      policy.Pico       `json:"reported_cost_usd"`
	Most      int64             `json:"most_tokens"`
}

// tellCapped raises the alarm: the provider is wrong, or what is configured of the model.
func (x *exchange) tellCapped(to *policy.Resolution, u *chat.Usage) {
	most := (*metered)(x).MostTokens(to)
	x.gw.Metrics.UsageCapped(string(to.Provider))
	x.gw.Log.Warn("a provider reported more usage than a call can have; what is beyond is not charged", "request", x.ID, "provider", string(to.Provider),
		"model", string(to.Model), "input_tokens", u.TotalInput(), "output_tokens", u.Output, "most", most)
	if x.gw.Events.On() {
		x.gw.Events.Emit(eventCapped, x.Principal.Account, usageCapped{x.ID, to.Provider, to.Model, u.TotalInput(), u.Output, u.Cost, most})
	}
}
