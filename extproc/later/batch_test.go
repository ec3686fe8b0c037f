package later_test

import (
	"testing"

	"bardo.money/gateway/extproc/attempt"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/keyring"
	"bardo.money/gateway/extproc/later"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

// batched returns a request with two candidates of equal prices, of which the second one's provider has a batch API at half the price.
func batched() *request.View {
	key := secret.New("k")
	v := &request.View{Config: &runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{
		"a": {Adapter: custom.Adapter{}},
		"b": {
			Adapter: custom.Adapter{}, Cluster: "b", Batches: "openai", BatchPct: 50, Keys: []provider.Secret{key, secret.New("other")},
			Endpoint: provider.Endpoint{Provider: "b", Authority: "b.test", BasePath: "/v1", Key: key},
		},
	})}}
	v.Request = &chat.Request{Op: chat.Generate, MaxInput: 1000, MaxTokens: 10, Choices: 1}
	prices := policy.Prices{Known: true, Input: 2_000_000, Output: 2_000_000}
	v.Order = []policy.Resolution{{Provider: "a", Model: "m", Prices: prices}, {Provider: "b", Model: "n", Prices: prices}}
	v.Found = v.Order
	return v
}

func TestABatchCostsNoMoreThanTheFirstCandidate(t *testing.T) {
	for about, row := range map[string]struct {
		change func(v *request.View)
		want   policy.ProviderID // "": none
	}{
		"half the price":     {func(*request.View) {}, "b"},
		"dearer even so":     {func(v *request.View) { v.Order[1].Prices.Input = 9_000_000 }, ""},
		"no known price":     {func(v *request.View) { v.Order[1].Prices.Known = false }, ""},
		"staked credit":      {func(v *request.View) { v.Order[1].Staked = &policy.Prices{} }, ""},
		"no batch API":       {func(v *request.View) { v.Config.Provider("b").Batches = "" }, ""},
		"the caller's key":   {func(v *request.View) { v.Config.Provider("b").Direct = true }, ""},
		"a stored resource":  {func(v *request.View) { v.NamesStored = true }, ""},
		"nobody is to serve": {func(v *request.View) { v.Order = nil }, ""},
	} {
		v := batched()
		row.change(v)
		got := policy.ProviderID("")
		if to := later.BatchCandidate(v); to != nil {
			got = to.Provider
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", about, got, row.want)
		}
	}
}

func TestACallIsPlannedBelowTheBaseURL(t *testing.T) {
	v := batched()
	for path, want := range map[string]string{"/v1/chat/completions": "/chat/completions", "/v1/chat/completions?beta=1": "", "/v2/chat/completions": ""} {
		call := attempt.Call{Call: &provider.Call{Path: path, Body: []byte("{}"), Header: header.List{{Name: "anthropic-beta", Value: "x"}}}}
		p := later.Planned(v, &v.Order[1], &call, "")
		if want == "" {
			if p != nil {
				t.Errorf("%s: planned is %+v", path, p)
			}
			continue
		}
		if p == nil || p.Path != want || p.Provider != "b" || p.Model != "b/n" || p.Beta != "x" || p.Key != string(keyring.Fingerprint("k")) || string(p.Body) != "{}" || p.Masked {
			t.Fatalf("%s: planned is %+v", path, p)
		}
		if &p.Body[0] == &call.Body[0] {
			t.Error("its body is in the call's memory")
		}
		if other := later.Planned(v, &v.Order[1], &call, "taken"); other.Key != "taken" {
			t.Errorf("the key is %s", other.Key)
		}
	}
}

func TestWhoAnsweredInABatchIsCalledFirst(t *testing.T) {
	for model, want := range map[string]policy.ProviderID{"b/n": "b", "a/m": "a", "c/n": "a", "": "a"} {
		v, run := batched(), &deferred.Run{}
		if model != "" {
			run.Calls = []deferred.Call{{Batch: true, Model: model}}
		}
		l := later.NewRun(t.Context(), run, nil, 1, nil)
		if l.PinBatch(v); len(v.Order) != 2 || v.Order[0].Provider != want {
			t.Errorf("%q: %+v", model, v.Order)
		}
	}
}

func TestABatchIsLookedForWithTheKeyThatItWasSentWith(t *testing.T) {
	rt := batched().Config
	for _, row := range []struct {
		id   policy.ProviderID
		key  string
		want bool
	}{{"b", "k", true}, {"b", "other", true}, {"b", "gone", false}, {"a", "", false}, {"c", "k", false}} {
		got, ok := later.Target(rt, row.id, string(keyring.Fingerprint(row.key)))
		if ok != row.want || ok && (got.Header.Get("authorization") != "Bearer "+row.key || got.Form != "openai" || got.Cluster != "b" || got.BasePath != "/v1") {
			t.Errorf("%s with the key %s: %+v, %v", row.id, row.key, got, ok)
		}
	}
}
