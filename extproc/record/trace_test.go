package record

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

var small = policy.Resolution{Provider: "p", Model: "small", Prices: policy.Prices{Known: true}}

func TestVerdicts(t *testing.T) {
	for _, row := range []struct {
		about  string
		trace  Trace
		status int
		code   string
	}{
		{"a fault comes first", Trace{Fault: fault.Newf(fault.InvalidAPIKey, "no"), Settled: &Settlement{Outcome: OK}}, 401, "invalid_api_key"},
		{"an answer of the gateway's own", Trace{Unbilled: &End{Status: 404, Code: "not_found"}}, 404, "not_found"},
		{"an answer", Trace{Settled: &Settlement{Outcome: OK}}, 200, ""},
		{"half of one", Trace{Settled: &Settlement{Outcome: Cancelled}}, 200, ""},
		{"a client that disconnected", Trace{Settled: &Settlement{Outcome: Disconnected}}, StatusClientClosed, CodeClientClosed},
		{"nothing", Trace{}, StatusClientClosed, CodeClientClosed},
	} {
		if status, code := row.trace.Verdict(); status != row.status || code != row.code {
			t.Errorf("%s: %d %q", row.about, status, code)
		}
	}
}

// TestARecordHasEachAttemptWithWhyItEndedAndWhatWasDoneThen, and what the request cost.
func TestARecordHasEachAttemptWithWhyItEndedAndWhatWasDoneThen(t *testing.T) {
	var trace Trace
	trace.StartFirstAttempt(time.Now(), 0)
	m := telemetry.New(telemetry.Build{})
	trace.AddAttempt(m, &small, telemetry.Failed, "status_500", "the provider failed", true)
	trace.SetDecision("next_candidate", "another candidate may do better")
	trace.AddAttempt(m, &small, telemetry.Served, OK, "", true)
	trace.Settled = &Settlement{Outcome: OK, By: small, Usage: chat.Usage{Input: 3, Cached: 2, CacheWrite: 1, CacheWrite1h: 1, Output: 5}, Cost: 8, Charged: 9, Saved: 4}
	r := Request{RequestID: "req_1"}
	trace.Fill(&r, time.Now())
	if r.Attempts != 2 || r.AttemptLog[0].NextWhy == "" || r.AttemptLog[1].Outcome != OK || r.Cache != "miss" || r.HTTPStatus != http.StatusOK {
		t.Errorf("record %+v", r)
	}
	if r.InputTokens != 7 || r.CachedTokens != 2 || r.CacheWriteTokens != 2 || r.OutputTokens != 5 || r.CostUSD != 9 || r.ProviderCostUSD != 8 || r.SavingsUSD != 4 || !r.PriceKnown {
		t.Errorf("amounts of %+v", r)
	}
	b, err := json.Marshal(r.AttemptLog)
	want := `[{"provider":"p","model":"small","outcome":"status_500","reason":"the provider failed","next":"next_candidate","next_reason":"another candidate may do better"},` +
		`{"provider":"p","model":"small","outcome":"ok"}]`
	if err != nil || string(b) != want {
		t.Errorf("%v %s", err, b)
	}
}

// TestARequestThatNobodyAnsweredIsOfItsLastAttempt in the event stream and the log; side calls do not count.
func TestARequestThatNobodyAnsweredIsOfItsLastAttempt(t *testing.T) {
	for _, row := range []struct {
		about string
		trace Trace
		r     telemetry.Request
		want  string
	}{
		{"two were called", Trace{Attempts: []Attempt{{Provider: "a", Model: "m"}, {Provider: "b", Model: "n"}, {Provider: "c", Side: "l5"}}}, telemetry.Request{Model: "asked"}, "b n"},
		{"the one that answered", Trace{Attempts: []Attempt{{Provider: "a", Model: "m"}}}, telemetry.Request{Provider: "p", Model: "m"}, "p m"},
		{"nobody", Trace{}, telemetry.Request{Model: "asked"}, " asked"},
		{"nobody but for a layer", Trace{Attempts: []Attempt{{Provider: "c", Side: "l5"}}}, telemetry.Request{Model: "asked"}, " asked"},
	} {
		var f Finished
		row.trace.finish(&f, &row.r, time.Now())
		provider, model := row.trace.LastCalled(&row.r)
		if provider+" "+model != row.want || string(f.Provider) != provider || f.Model != "" && row.r.Provider == "" {
			t.Errorf("%s: %q %q, who watches sees %q %q", row.about, provider, model, f.Provider, f.Model)
		}
	}
}

// TestARecordHasTheSentenceOfAFaultThatHasNothingOfTheRequest, and of no other one.
func TestARecordHasTheSentenceOfAFaultThatHasNothingOfTheRequest(t *testing.T) {
	const why = "why"
	for _, row := range []struct {
		about string
		fault fault.Fault
		want  string
	}{
		{"of routing", fault.Fault{Kind: fault.NoProvider, Public: why}, why},
		{"of a constraint", fault.Fault{Kind: fault.InvalidRequest, Public: why, Plain: true}, why},
		{"about the request's content", fault.Fault{Kind: fault.InvalidRequest, Public: why}, ""},
		{"that may quote", fault.Fault{Kind: fault.InvalidRequest, Public: why, Plain: true, Quiet: true}, ""},
	} {
		var r Request
		trace := Trace{Fault: &row.fault}
		trace.Fill(&r, time.Now())
		if r.Error != string(row.fault.Kind) || r.ErrorMessage != row.want {
			t.Errorf("a fault %s: the record has %q %q, want %q", row.about, r.Error, r.ErrorMessage, row.want)
		}
	}
}

// TestATimelineSaysWhenEachAttemptWas: an attempt that ended before it was recorded has its own end, at which the next one begins.
func TestATimelineSaysWhenEachAttemptWas(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	var trace Trace
	m := telemetry.New(telemetry.Build{})
	trace.AttemptStarted, trace.AttemptEnded = began.Add(time.Second), began.Add(3*time.Second)
	trace.AddAttempt(m, &small, telemetry.Failed, "status_500", "", true)
	trace.AddAttempt(m, &small, telemetry.Served, OK, "", true)
	trace.Attempts = append(trace.Attempts, Attempt{Provider: "p"})
	var l Timeline
	l.finish(&trace, began, time.Minute)
	if l.Attempts[0] != (Interval{From: time.Second, Took: 2 * time.Second}) || l.Attempts[1].From != 3*time.Second || l.Attempts[1].Took < 57*time.Second || l.Attempts[2] != (Interval{}) {
		t.Errorf("%+v", l.Attempts)
	}
}

func TestAStoredAnswerCountsNoTokens(t *testing.T) {
	for _, row := range []struct {
		settled Settlement
		called  bool
		want    int64
		by      string
	}{
		{Settlement{Outcome: OK, By: small, Usage: chat.Usage{Output: 5}, Stored: true}, false, 0, "p"},
		{Settlement{Outcome: OK, By: small, Usage: chat.Usage{Output: 5}}, true, 5, "p"},
		{Settlement{Outcome: Disconnected, By: small, Usage: chat.Usage{Output: 5}}, false, 0, ""},
		{Settlement{Outcome: Cancelled, By: small, Usage: chat.Usage{Output: 5}}, true, 5, "p"},
	} {
		trace, r := Trace{Settled: &row.settled}, telemetry.Request{}
		trace.Measure(&r, time.Now(), row.called)
		if r.Tokens.Output != row.want || r.Provider != row.by {
			t.Errorf("%+v: %d tokens of %q", row.settled, r.Tokens.Output, r.Provider)
		}
	}
}
