package profile_test

import (
	"bytes"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	anthropicprovider "bardo.money/gateway/extproc/provider/anthropic"
	"bardo.money/gateway/extproc/provider/bankr"
	"bardo.money/gateway/extproc/provider/blockrun"
	openaiprovider "bardo.money/gateway/extproc/provider/openai"
	"bardo.money/gateway/extproc/provider/openrouter"
	"bardo.money/gateway/extproc/provider/venice"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/anthropic"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/profile"
)

// places are models at providers, of every way that they are told about a profile.
var places = []struct {
	name, model, upstream string
	adapter               provider.Adapter
	fake                  fake.Config
}{
	{"anthropic", "claude-sonnet-4-5", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}},
	{"anthropic-adaptive", "claude-opus-4-6", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}},
	{"anthropic-fixed", "claude-opus-4-8", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}},
	{"anthropic-plain", "claude-3-5-haiku-20241022", "", anthropicprovider.Adapter{}, fake.Config{Dialect: fake.Anthropic}},
	{"openai", "gpt-4.1", "", openaiprovider.Adapter{}, fake.Config{Dialect: fake.OpenAI}},
	{"openai-reasoning", "gpt-5.1", "", openaiprovider.Adapter{}, fake.Config{Dialect: fake.OpenAI}},
	{"openai-fixed", "gpt-5", "", openaiprovider.Adapter{}, fake.Config{Dialect: fake.OpenAI}},
	{"venice", "deepseek-reasoner", "deepseek-r1-671b", venice.Adapter{}, fake.Config{Vendor: fake.Venice}},
	{"venice-claude", "claude-opus-4-6", "", venice.Adapter{}, fake.Config{Vendor: fake.Venice}},
	{"bankr", "gpt-5.1", "", bankr.Adapter{}, fake.Config{Vendor: fake.Bankr}},
	{"bankr-claude", "claude-sonnet-4-5", "", bankr.Adapter{}, fake.Config{Vendor: fake.Bankr}},
	{"openrouter", "deepseek-v4-pro", "deepseek/deepseek-v4-pro", openrouter.Adapter{}, fake.Config{Vendor: fake.OpenRouter}},
	{"openrouter-claude", "claude-sonnet-4-5", "anthropic/claude-sonnet-4.5", openrouter.Adapter{}, fake.Config{Vendor: fake.OpenRouter}},
	{"blockrun", "gpt-5.1", "openai/gpt-5.1", blockrun.Adapter{}, fake.Config{Vendor: fake.BlockRun}},
	{"blockrun-claude", "claude-opus-4-6", "", blockrun.Adapter{}, fake.Config{Vendor: fake.BlockRun}},
	{"blockrun-qwen", "qwen3-32b", "qwen/qwen3-32b", blockrun.Adapter{}, fake.Config{Vendor: fake.BlockRun}},
}

// clients are those of both dialects, and what they send: with a system prompt and a tool, and without a word about how to answer.
var clients = []struct {
	dialect wire.Dialect
	body    string
}{
	{openai.Dialect{}, `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}],` +
		`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}}],"max_completion_tokens":4000}`},
	{anthropic.Dialect{}, `{"model":"m","max_tokens":4000,"system":"Be brief.","messages":[{"role":"user","content":"hi"}],` +
		`"tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`},
}

// TestEveryPartIsTakenByEveryProvider: what each row of the table becomes is legal by the provider's own rules, for clients that send
// tools and a system prompt.
func TestEveryPartIsTakenByEveryProvider(t *testing.T) {
	p, _ := profile.New(profile.Settings{WebSearch: true, SealTestaments: true, AttestDreams: true})
	for _, at := range places {
		t.Run(at.name, func(t *testing.T) {
			s := fake.Start(t, at.fake)
			to := resolution(t, at.name, at.model, at.upstream)
			for _, part := range profile.Names() {
				h := policy.Hints{Subsystem: part, GolemID: "7"}
				in := intent.Of(part)
				d := p.Build(&h, &in, time.Unix(0, 0))
				for _, c := range clients {
					r := decode(t, c.dialect, c.body)
					plain := call(t, at.adapter, r, to, s)
					r.Profile = d.Profile
					with := call(t, at.adapter, r, to, s)
					read(t, s, with)
					if bytes.Equal(with.Body, plain.Body) && len(with.Degraded) == len(plain.Degraded) {
						t.Errorf("%s says nothing to %s: %s", part, at.name, with.Body)
					}
				}
			}
		})
	}
}

// embedded is the catalog that every gateway has.
var embedded = sync.OnceValue(func() *catalog.Catalog { return catalog.New(catalogtest.Embedded()) })

// resolution is a model as the catalog knows it.
func resolution(t *testing.T, at, id, upstream string) policy.Resolution {
	t.Helper()
	m := embedded().At(policy.ProviderID(at), config.Model{ID: id})
	if m.Family == "" {
		t.Fatalf("the catalog does not know %s", id)
	}
	if upstream == "" {
		upstream = id
	}
	to := policy.Resolution{
		Provider: policy.ProviderID(at), Model: m.ID, Upstream: upstream, MaxOutput: m.MaxOutput, Context: m.Context, Family: m.Family,
		Reasoning: m.Reasoning, Efforts: m.Thinking.Efforts, Control: m.Thinking.Control, FixedSampling: m.FixedSampling,
		AdaptiveThinking:  slices.Contains(m.Capabilities, policy.AdaptiveThinking),
		StructuredOutputs: slices.Contains(m.Capabilities, policy.StructuredOutputs),
		Features:          m.Capabilities,
	}
	if at == "venice" {
		to.Features = append(slices.Clip(to.Features), policy.TEEAttested)
	}
	return to
}

func decode(t *testing.T, d wire.Dialect, body string) *chat.Request {
	t.Helper()
	r, err := d.Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func call(t *testing.T, a provider.Adapter, r *chat.Request, to policy.Resolution, s *fake.Server) *provider.Call {
	t.Helper()
	c, err := a.Encode(nil, r, to, provider.Endpoint{Provider: to.Provider, BasePath: "/v1", Key: secret.New(s.Key)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// read has the provider read a request.
func read(t *testing.T, s *fake.Server, c *provider.Call) {
	t.Helper()
	if status, why := answer(t, s, c); status != http.StatusOK {
		t.Errorf("the provider refuses it: %d %s\n%s", status, why, c.Body)
	}
}
