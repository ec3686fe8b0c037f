package outcome

import (
	"context"
	"testing"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/conversation"
	"bardo.money/gateway/extproc/effects"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/report"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/rounds"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/policy"
)

// finisher is a layer that records the providers of answers.
type finisher struct{ by *[]policy.ProviderID }

func (finisher) Name() string                                      { return "l6" }
func (finisher) Profiles() []string                                { return nil }
func (finisher) Request(context.Context, *pipeline.Exchange) error { return nil }
func (f finisher) Finish(_ *pipeline.Exchange, by policy.ProviderID, _ keyring.ID) {
	*f.by = append(*f.by, by)
}

// TestWhoeverAnsweredFirstIsRemembered: a conversation is warm where the first candidate's model answered, even if another model's answer replaces
// it; answers of other models make nothing warm.
func TestWhoeverAnsweredFirstIsRemembered(t *testing.T) {
	var by []policy.ProviderID
	v := &request.View{Config: &runtime.Config{Pipeline: pipeline.New(finisher{&by})}}
	v.Request, v.Log = &chat.Request{}, []pipeline.Entry{{Layer: "l6"}}
	r := &report.Report{View: v, Trace: &record.Trace{}, Bill: &meter.Bill{}, Calls: &attempt.Writer{}}
	r.Bill.Open(&meter.Meter{}, v, "r")
	x := &Outcome{Report: r, Sinks: &Sinks{Conversations: conversation.New()}, Effects: &effects.Effects{Report: r}, Rounds: &rounds.State{}}
	first := policy.Resolution{Provider: "one", Model: "fast"}
	x.Found = []policy.Resolution{first, {Provider: "two", Model: "fast"}, {Provider: "three", Model: "strong"}}

	x.notifyLayers(&reading.Answer{Report: r, By: x.Found[2]}) // failed over to
	if len(by) != 0 {
		t.Errorf("another model's provider is remembered: %q", by)
	}
	x.Charge(&reading.Answer{Report: r, By: x.Found[1]}) // not sure enough, so that
	x.Charge(&reading.Answer{Report: r, By: policy.Resolution{Provider: "four", Model: "opinion"}})
	if len(by) != 1 || by[0] != "two" {
		t.Errorf("remembered are %q, want the provider of the first model alone", by)
	}
}
