package runtime_test

import (
	"maps"
	"slices"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// TestAProviderThatIsNotThereServesNothing, for each way to look it up, and none of its fields is a nil pointer.
func TestAProviderThatIsNotThereServesNothing(t *testing.T) {
	there := &runtime.Provider{Adapter: custom.Adapter{}}
	configs := map[string]runtime.Config{
		"no provider at all": {},
		"another one":        {Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"p": there})},
		"nil under its id":   {Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"lost": nil})},
	}
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","background":true,"messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	to := &policy.Resolution{Provider: "lost", Model: "m", Upstream: "m"}
	for about, rt := range configs {
		p, ok := rt.Find("lost")
		if ok || p != rt.Provider("lost") {
			t.Errorf("%s: it was found", about)
		}
		if call, err := p.Adapter.Encode(nil, req, *to, p.Endpoint); err == nil {
			t.Errorf("%s: a request was written: %+v", about, call)
		}
		p.Ring.Inherit(p.Ring)
		decoded := p.Adapter.NewDecoder(req, *to, p.Endpoint, 200, header.List{}).Decode([]byte(`{"choices":[]}`), true)
		if len(decoded) > 0 || p.Adapter.Name() != "" || p.Adapter.Ping(p.Endpoint).Path != "" || p.Adapter.Dialect(*to, p.Endpoint, chat.OpenAI) != "" {
			t.Errorf("%s: its adapter does something", about)
		}
		if left, refused := rt.Priced(req, []policy.Resolution{*to}, func(policy.ProviderID) bool { return false }); len(left) != 1 || len(refused) > 0 {
			t.Errorf("%s: %d are left and %d refused", about, len(left), len(refused))
		}
		if u, why := rt.UnsupportedContent(req, to), rt.UnservedReason(req, to); u != nil || why != "" {
			t.Errorf("%s: something is said of it: %v, %q", about, u, why)
		}
	}
}

func TestAProviderIsFoundByItsID(t *testing.T) {
	a, b := &runtime.Provider{Cluster: "a"}, &runtime.Provider{Adapter: custom.Adapter{}, Endpoint: provider.Endpoint{Provider: "b"}}
	rt := runtime.Config{Providers: runtime.ProvidersOf(map[policy.ProviderID]*runtime.Provider{"a": a, "b": b})}
	if p, ok := rt.Find("a"); !ok || p != a || rt.Provider("b") != b {
		t.Errorf("%+v, %v", p, ok)
	}
	if ids := slices.Sorted(maps.Keys(maps.Collect(rt.Providers.All()))); !slices.Equal(ids, []policy.ProviderID{"a", "b"}) {
		t.Errorf("all are %v", ids)
	}
}
