package extproc

import (
	"log/slog"
	"net/http"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// healthStub is a Health that is not called.
type healthStub struct{}

func (healthStub) Report(policy.Result)           {}
func (healthStub) State(policy.ProviderID) string { return "healthy" }
func (healthStub) Plan(ids []policy.ProviderID) ([]policy.ProviderID, func()) {
	return ids, func() {}
}

// planned returns an exchange on the native path with two attempts, at the clusters a and b.
func planned(t *testing.T) (*exchange, *storingClient) {
	t.Helper()
	rt := &runtime.Config{
		Dialects:  map[chat.Dialect]wire.Dialect{chat.OpenAI: openai.Dialect{}}, //nolint:exhaustive // one client
		Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"first": {Cluster: "a"}, "second": {Cluster: "b"}}),
	}
	g := New(rt, Deps{Metrics: telemetry.New(telemetry.Build{}), Log: slog.New(slog.DiscardHandler), Limiter: quota.New(quota.Options{}), Health: healthStub{}})
	d := &storingClient{}
	x := g.newExchange(d, stream.Head{})
	t.Cleanup(x.closeGuarded)
	x.Request = &chat.Request{}
	x.native.Plan = []policy.Resolution{{Provider: "first"}, {Provider: "second"}}
	g.exchanges.Add(x.ID, x)
	return x, d
}

// TestD70NoRequestIsWrittenForAnotherClusterThanPlanned: it would go there with a key of another provider.
func TestD70NoRequestIsWrittenForAnotherClusterThanPlanned(t *testing.T) {
	x, _ := planned(t)
	for _, cluster := range []string{"a", "a~retry", "c", ""} {
		if call, err := x.gw.Attempt(&stream.Attempt{Exchange: x.ID, Cluster: cluster, Number: 2}); err == nil || x.native.Unwritten() != nil {
			t.Errorf("%q: written was %+v, %v", cluster, call, err)
		}
	}
}

// TestD70NoAnswerOfAnotherClusterThanPlannedIsRead: by the rules and at the prices of a provider that did not give it.
func TestD70NoAnswerOfAnotherClusterThanPlannedIsRead(t *testing.T) {
	for _, cluster := range []string{"a", "c", ""} {
		x, d := planned(t)
		n := &nativeAnswer{x: x}
		done, err := n.begin(t.Context(), &stream.AnswerHead{Status: http.StatusOK, Cluster: cluster, Details: "via_upstream", Attempts: 2})
		if err != nil || !done || d.got.Status != http.StatusInternalServerError || x.outcome.Current != nil || len(x.bill.Calls()) != 0 {
			t.Errorf("%q: %v, %v, the client got %d %s", cluster, done, err, d.got.Status, d.got.Body)
		}
	}
}
