package extproc

import (
	"context"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/request"
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
	x := &exchange{View: request.View{Config: &runtime.Config{Pipeline: pipeline.New(finisher{&by})}}}
	x.initReport(&Gateway{})
	x.bill.Open(&meter.Meter{}, x, "r")
	x.Request, x.Log = &chat.Request{}, []pipeline.Entry{{Layer: "l6"}}
	first := policy.Resolution{Provider: "one", Model: "fast"}
	x.Found = []policy.Resolution{first, {Provider: "two", Model: "fast"}, {Provider: "three", Model: "strong"}}

	x.notifyLayers(&reading.Answer{Report: &x.report, By: x.Found[2]}) // failed over to
	if len(by) != 0 {
		t.Errorf("another model's provider is remembered: %q", by)
	}
	x.charge(&reading.Answer{Report: &x.report, By: x.Found[1]}) // not sure enough, so that
	x.charge(&reading.Answer{Report: &x.report, By: policy.Resolution{Provider: "four", Model: "opinion"}})
	if len(by) != 1 || by[0] != "two" {
		t.Errorf("remembered are %q, want the provider of the first model alone", by)
	}
}
