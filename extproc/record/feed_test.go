package record

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// started returns what a request says of itself to those who watch.
func started() Finished {
	return Finished{ID: "req_1", Account: "acct", Dialect: chat.Anthropic, RequestedModel: "m", Stream: true}
}

func TestWhoWatchesSeesHowARequestEnded(t *testing.T) {
	var feed event.Feed[Finished]
	w := feed.Watch(1)
	defer w.Close()
	for _, row := range []struct {
		about   string
		trace   Trace
		r       telemetry.Request
		outcome string
		model   policy.ModelID
	}{
		{"an answer", Trace{Settled: &Settlement{Outcome: OK, Saved: 9}}, telemetry.Request{Status: 200, Provider: "p", Model: "small", Charged: 7}, "ok", "small"},
		{"a client that disconnected", Trace{Settled: &Settlement{Outcome: Disconnected}}, telemetry.Request{Status: 499, Model: "whatever"}, "left", ""},
		{"an answer that nobody pays for", Trace{Unbilled: &End{Outcome: OK}}, telemetry.Request{Status: 200, Provider: "p", Model: "m"}, "ok", "m"},
		{"a fault before the body", Trace{Fault: fault.Newf(fault.InvalidAPIKey, "no")}, telemetry.Request{Status: 401, Code: "invalid_api_key"}, "failed", ""},
		{"nothing", Trace{}, telemetry.Request{Status: 499}, "left", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			row.trace.Publish(&feed, &row.r, time.Now(), started)
			f := <-w.Events()
			if f.ID != "req_1" || f.Account != "acct" || f.Outcome != row.outcome || f.Model != row.model || f.Status != row.r.Status || f.Code != row.r.Code {
				t.Errorf("got %+v", f)
			}
			if (f.Savings == 9) != (row.trace.Settled != nil && row.outcome == OK) || f.Cost != policy.Micro(row.r.Charged) || f.Cache != "miss" {
				t.Errorf("saved %s, cost %s, cache %s", f.Savings, f.Cost, f.Cache)
			}
			if b, err := json.Marshal(f); err != nil || !strings.Contains(string(b), `"attempt_log":[]`) {
				t.Errorf("%v %s", err, b)
			}
		})
	}
}

func TestLookupsAreNobodysTraffic(t *testing.T) {
	var feed event.Feed[Finished]
	w := feed.Watch(1)
	defer w.Close()
	trace := Trace{Operation: telemetry.Lookup}
	trace.Publish(&feed, &telemetry.Request{Status: 200}, time.Now(), started)
	if len(w.Events()) != 0 {
		t.Errorf("got %+v", <-w.Events())
	}
}

// Without a subscriber, the end of a request costs one atomic load.
func BenchmarkPublish(b *testing.B) {
	for name, feed := range map[string]*event.Feed[Finished]{"no feed": nil, "nobody watches": {}} {
		b.Run(name, func(b *testing.B) {
			var trace Trace
			r := telemetry.Request{Status: 200}
			b.ReportAllocs()
			for b.Loop() {
				trace.Publish(feed, &r, time.Time{}, started)
			}
		})
	}
	b.Run("one watches", func(b *testing.B) {
		var feed event.Feed[Finished]
		w := feed.Watch(64)
		defer w.Close()
		var trace Trace
		r := telemetry.Request{Status: 200}
		b.ReportAllocs()
		for b.Loop() {
			trace.Publish(&feed, &r, time.Time{}, started)
		}
	})
}
