package resolve_test

import (
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// refusals writes refusals as "provider: reason".
func refusals(rs []resolve.Refusal) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = string(r.Provider) + ": " + r.Reason
	}
	return strings.Join(out, "; ")
}

func TestExplainNamesWhoDoesNotServeAndWhy(t *testing.T) {
	const few = `
providers:
  anthropic: {api_key: b}
  custom:
    - {id: vllm, endpoints: [http://localhost:1/v1], models: [{id: llama-4}]}
    - {id: any, endpoints: [http://localhost:2/v1]}
`
	r := configured(t, few)
	for _, row := range []struct{ about, model, provider, order, refused string }{
		{
			"a model that one lists", "llama-4", "", "vllm",
			`anthropic: it does not list the model, and takes it only when asked for: anthropic/llama-4; any: it takes only models that no other provider lists`,
		},
		{
			"near names at each provider", "llama-5", "", "any",
			`anthropic: it does not list the model, and takes it only when asked for: anthropic/llama-5; vllm: the model "llama-5" does not exist at vllm; did you mean llama-4?`,
		},
		{"one provider is asked for", "vllm/llama-4", "", "vllm", "anthropic: the request asks for vllm alone; any: the request asks for vllm alone"},
		{
			"the one that is asked for does not have it", "vllm/llama-5", "", "",
			`anthropic: the request asks for vllm alone; vllm: the model "llama-5" does not exist at vllm; did you mean llama-4?; any: the request asks for vllm alone`,
		},
		{
			"its vendor is not enabled", "gpt-4o", "", "any",
			`anthropic: the model "gpt-4o" does not exist at anthropic; vllm: the model "gpt-4o" does not exist at vllm; openai: it serves this model, and is not configured: set OPENAI_API_KEY, or providers.openai in the configuration`,
		},
		{
			"a provider that is not configured is asked for", "gpt-4o", "openai", "",
			"anthropic: the request asks for openai alone; vllm: the request asks for openai alone; any: the request asks for openai alone",
		},
	} {
		t.Run(row.about, func(t *testing.T) {
			e := r.Explain(&policy.Intent{Model: row.model, Provider: policy.ProviderID(row.provider)})
			var order []string
			for _, c := range e.Order {
				order = append(order, string(c.Provider))
			}
			if got := strings.Join(order, " "); got != row.order || (e.Err == nil) != (row.order != "") {
				t.Errorf("order %q and error %v, want %q", got, e.Err, row.order)
			}
			if got := refusals(e.Refused); got != row.refused {
				t.Errorf("refused\n\t%s\nwant\n\t%s", got, row.refused)
			}
		})
	}
}

func TestExplainSaysWhatACandidateHasAndWhyItIsAsked(t *testing.T) {
	r := configured(t, `
providers:
  openai: {api_key: a}
  custom:
    - {id: mine, private: true, endpoints: [http://localhost:1/v1], models: [{id: gpt-4o, capabilities: [tools]}]}
    - {id: any, endpoints: [http://localhost:2/v1]}
`)
	for _, row := range []struct {
		about, model, why string
		has               []policy.Feature
	}{
		{"the catalog's features", "openai/gpt-4o", "the request asks for it", []policy.Feature{"tools", "vision", "structured_outputs", "prompt_caching", "predicted_outputs"}},
		{"what the operator said", "mine/gpt-4o", "the request asks for it", []policy.Feature{"tools", "privacy", "no_log"}},
		{"a listing", "gpt-4o", "it lists the model", []policy.Feature{"tools", "vision", "structured_outputs", "prompt_caching", "predicted_outputs"}},
		{"nobody's model", "whatever", "it takes any model that nobody lists", nil},
		{"a name with a vendor's prefix", "gpt-99", "its vendor, by the model's name", nil},
	} {
		t.Run(row.about, func(t *testing.T) {
			e := r.Explain(&policy.Intent{Model: row.model})
			if e.Err != nil {
				t.Fatal(e.Err)
			}
			if c := e.Order[0]; c.Why != row.why || !slices.Equal(c.Features, row.has) {
				t.Errorf("got %q %q, want %q %q", c.Why, c.Features, row.why, row.has)
			}
		})
	}
}

// Every enabled provider is either in the order or refused, once, and the order is that of Resolve.
func FuzzExplain(f *testing.F) {
	r := configured(f, both)
	f.Add("gpt-4o", "openai")
	f.Add("vllm/gpt-4o", "")
	f.Add("openai/gpt-oss-20b", "")
	f.Add("/", "any")
	f.Fuzz(func(t *testing.T, model, provider string) {
		if model == "" {
			return // the gateway chooses
		}
		e := r.WithRules(resolve.Rules{Strategy: resolve.Ordered}).Explain(&policy.Intent{Model: model, Provider: policy.ProviderID(provider)})
		order, err := r.Resolve(model, provider)
		if (err == nil) != (e.Err == nil) || len(order) != len(e.Order) {
			t.Fatalf("resolved %q, %v; explained %+v", said(order), err, e)
		}
		seen := map[policy.ProviderID]int{}
		for i, c := range e.Order {
			if seen[c.Provider]++; c.Provider != order[i].Provider {
				t.Fatalf("resolved %q; explained %+v", said(order), e)
			}
		}
		for _, no := range e.Refused {
			if seen[no.Provider]++; no.Reason == "" {
				t.Fatalf("%s is refused without a reason", no.Provider)
			}
		}
		for _, id := range []policy.ProviderID{"openai", "anthropic", "vllm", "any"} {
			if seen[id] != 1 {
				t.Fatalf("%q at %q: %s stands %d times in %+v", model, provider, id, seen[id], e)
			}
		}
	})
}
