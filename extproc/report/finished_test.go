package report_test

import (
	"testing"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

func TestTheRecordNamesWhoAnsweredOrWasTriedLast(t *testing.T) {
	a, b := policy.Resolution{Provider: "a", Model: "m", Upstream: "up"}, policy.Resolution{Provider: "b", Model: "m"}
	for _, row := range []struct {
		about    string
		order    []policy.Resolution
		tried    []record.Attempt
		answered *policy.Resolution
		want     policy.Resolution
	}{
		{"an answer", []policy.Resolution{a, b}, []record.Attempt{{Provider: "a", Model: "m"}}, &b, b},
		{"none", []policy.Resolution{a, b}, []record.Attempt{{Provider: "b", Model: "m"}, {Provider: "a", Model: "m"}}, nil, a},
		{"before any call", []policy.Resolution{b, a}, nil, nil, b},
		{"another one was tried than is in the order", []policy.Resolution{a}, []record.Attempt{{Provider: "c", Model: "n"}}, nil, policy.Resolution{Provider: "c", Model: "n"}},
		{"before an order", nil, []record.Attempt{{Provider: "a", Model: "m"}}, nil, policy.Resolution{}},
	} {
		v := &request.View{}
		v.Order = row.order
		r := report.Report{View: v, Trace: &record.Trace{Attempts: row.tried}, Bill: &meter.Bill{}}
		if got := r.By(row.answered); got.Provider != row.want.Provider || got.Model != row.want.Model || got.Upstream != row.want.Upstream {
			t.Errorf("%s: %+v", row.about, got)
		}
	}
}

func TestAFinishedRequestSaysWhatItWas(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	v := &request.View{Started: time.Unix(100, 0)}
	v.ID, v.Principal.Account, v.Hints.Subsystem, v.Header = "req_1", "key", "risk", header.List{{Name: record.TraceParent, Value: parent}}
	v.Log = []pipeline.Entry{{Layer: "l3", Note: "miss", Began: v.Started.Add(time.Second), Took: time.Millisecond, Saved: 7}}
	r := report.Report{View: v}
	if f := r.Finished(); f.RequestedModel != "" || f.Stream {
		t.Errorf("unread, it is %+v", f)
	}
	v.Request = &chat.Request{Dialect: chat.Anthropic, Stream: true, Model: "mine"}
	f := r.Finished()
	if f.ID != "req_1" || f.Account != "key" || f.Subsystem != "risk" || f.Parent != parent || f.Dialect != chat.Anthropic || !f.Stream || f.RequestedModel != "mine" {
		t.Errorf("it is %+v", f)
	}
	if len(f.Layers) != 1 || f.Layers[0] != (record.LayerRun{Layer: "l3", Note: "miss", Saved: 7, Interval: record.Interval{From: time.Second, Took: time.Millisecond}}) {
		t.Errorf("its layers are %+v", f.Layers)
	}
}
