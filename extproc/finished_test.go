package extproc

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

// over is an exchange that has ended.
func over(feed *event.Feed[record.Finished]) *exchange {
	x := &exchange{
		gw:      &Gateway{Deps: Deps{Metrics: telemetry.New(telemetry.Build{}), Finished: feed}},
		started: time.Now(),
		head:    stream.Head{Method: "POST", Path: "/v1/messages", Header: header.List{{Name: "x-api-key", Value: "bardo_sk_secret"}}},
	}
	x.ID, x.Principal = "req_1", policy.Principal{Account: "acct"}
	x.Request = &chat.Request{Dialect: chat.Anthropic, Model: strings.Repeat("m", 1000), Stream: true}
	return x
}

func TestWhoWatchesSeesHowARequestEndedAndNoneOfIt(t *testing.T) {
	var feed event.Feed[record.Finished]
	w := feed.Watch(1)
	defer w.Close()
	for _, row := range []struct {
		about   string
		end     func(*exchange)
		r       telemetry.Request
		outcome string
		model   policy.ModelID
	}{
		{"an answer", func(x *exchange) { x.settled = &summary{x: x, outcome: record.OK, saved: 9} }, telemetry.Request{Status: 200, Provider: "p", Model: "small", Charged: 7}, "ok", "small"},
		{"a client that left", func(x *exchange) { x.settled = &summary{x: x, outcome: record.Disconnected} }, telemetry.Request{Status: 499, Model: "whatever"}, "left", ""},
		{"a fault before the body", func(x *exchange) { x.Request, x.fault = nil, fault.Newf(fault.InvalidAPIKey, "no") }, telemetry.Request{Status: 401, Code: "invalid_api_key"}, "failed", ""},
	} {
		t.Run(row.about, func(t *testing.T) {
			x := over(&feed)
			row.end(x)
			x.tell(&row.r)
			f := <-w.Events()
			if f.ID != "req_1" || f.Account != "acct" || f.Outcome != row.outcome || f.Model != row.model || f.Status != row.r.Status || f.Code != row.r.Code {
				t.Errorf("got %+v", f)
			}
			if (f.Savings == 9) != (row.outcome == record.OK) || f.Cache != "miss" {
				t.Errorf("saved %s, cache %s", f.Savings, f.Cache)
			}
			if b, err := json.Marshal(f); err != nil || len(b) > 1000 || strings.Contains(string(b), "secret") {
				t.Errorf("%v %s", err, b)
			}
		})
	}
}

func TestLookupsAreNobodysTraffic(t *testing.T) {
	var feed event.Feed[record.Finished]
	w := feed.Watch(1)
	defer w.Close()
	x := over(&feed)
	x.Request, x.operation = nil, telemetry.Lookup
	x.tell(&telemetry.Request{Status: 200})
	if len(w.Events()) != 0 {
		t.Errorf("got %+v", <-w.Events())
	}
}

// While nobody watches, the end of a request costs a look at one word.
func BenchmarkTell(b *testing.B) {
	for name, feed := range map[string]*event.Feed[record.Finished]{"no feed": nil, "nobody watches": {}} {
		b.Run(name, func(b *testing.B) {
			x, r := over(feed), telemetry.Request{Status: 200}
			b.ReportAllocs()
			for b.Loop() {
				x.tell(&r)
			}
		})
	}
	b.Run("one watches", func(b *testing.B) {
		var feed event.Feed[record.Finished]
		w := feed.Watch(64)
		defer w.Close()
		x, r := over(&feed), telemetry.Request{Status: 200}
		b.ReportAllocs()
		for b.Loop() {
			x.tell(&r)
		}
	})
}
