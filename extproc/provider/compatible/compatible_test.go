package compatible_test

import (
	"flag"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/compatible"
	"bardo.money/gateway/extproc/provider/providertest"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

var all = []compatible.Adapter{
	compatible.Mistral, compatible.XAI, compatible.Groq, compatible.Together, compatible.Fireworks, compatible.Cerebras, compatible.DeepInfra,
	compatible.Perplexity, compatible.Ollama, compatible.Azure,
}

func TestConformance(t *testing.T) {
	for _, a := range all {
		providertest.Run(t, a)
	}
}

// upstream maps models to their names at the providers.
var upstream = map[string]string{
	"mistral": "mistral-large-latest", "xai": "grok-4.3", "groq": "openai/gpt-oss-120b", "together": "deepseek-ai/DeepSeek-V3.1",
	"fireworks": "accounts/fireworks/models/gpt-oss-120b", "cerebras": "gpt-oss-120b", "deepinfra": "deepseek-ai/DeepSeek-V3.1",
	"perplexity": "perplexity/sonar", "ollama": "gpt-oss:20b", "azure": "my deployment",
}

func TestRequests(t *testing.T) {
	for _, a := range all {
		at := provider.Endpoint{Responses: a.Kind().Responses, APIVersion: a.Kind().APIVersion}
		providertest.Golden(t, *update, a, providertest.Model{Name: a.Name(), To: policy.Resolution{Upstream: upstream[a.Name()]}, At: at})
	}
	reasons := policy.Resolution{Upstream: "grok-4.3", Control: policy.ControlEffort, Efforts: []string{"none", "low", "medium", "high"}}
	providertest.Golden(t, *update, compatible.XAI, providertest.Model{Name: "xai-reasoning", To: reasons})
}

// TestRefusedMembersAreLeftOut: members that a provider refuses are removed from requests of the same format and named; all other bytes
// stay.
func TestRefusedMembersAreLeftOut(t *testing.T) {
	const body = `{"model":"m", "messages":[{"role":"user","content":"hi"}],"seed":7,"presence_penalty":0.5,"logit_bias":{"5":1},"user":"u","temperature": 0.30}`
	for name, want := range map[string][2]string{
		"groq":     {`{"model":"openai/gpt-oss-120b", "messages":[{"role":"user","content":"hi"}],"seed":7,"presence_penalty":0.5,"user":"u","temperature": 0.30}`, "logit_bias"},
		"cerebras": {`{"model":"gpt-oss-120b", "messages":[{"role":"user","content":"hi"}],"seed":7,"user":"u","temperature": 0.30}`, "presence_penalty,logit_bias"},
		"mistral":  {`{"model":"mistral-large-latest", "messages":[{"role":"user","content":"hi"}],"presence_penalty":0.5,"temperature": 0.30,"random_seed":7}`, "logit_bias,user"},
		"together": {`{"model":"deepseek-ai/DeepSeek-V3.1", "messages":[{"role":"user","content":"hi"}],"seed":7,"presence_penalty":0.5,"logit_bias":{"5":1},"user":"u","temperature": 0.30}`, ""},
	} {
		for _, a := range all {
			if a.Name() != name {
				continue
			}
			req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			call, err := a.Encode(nil, req, policy.Resolution{Upstream: upstream[name]}, provider.Endpoint{})
			if err != nil || string(call.Body) != want[0] || strings.Join(call.Degraded, ",") != want[1] {
				t.Errorf("%s: %v\n%s\n%v", name, err, call.Body, call.Degraded)
			}
		}
	}
}

// TestMistralIsNotAskedForUsage: it refuses stream_options with 422, and reports the usage of streams anyway, so nothing is lost.
func TestMistralIsNotAskedForUsage(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`,
	} {
		req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		call, err := compatible.Mistral.Encode(nil, req, policy.Resolution{Upstream: "m"}, provider.Endpoint{})
		if err != nil || strings.Contains(string(call.Body), "stream_options") || len(call.Degraded) > 0 {
			t.Errorf("%s became %s, without %v, %v", body, call.Body, call.Degraded, err)
		}
	}
}

// TestReasoningOfTheHistoryIsSent: in the member that the provider reads, unless it refused it.
func TestReasoningOfTheHistoryIsSent(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"assistant","reasoning":"4","reasoning_details":[],"content":"4."},{"role":"user","content":"hi"}]}`
	for _, a := range []compatible.Adapter{compatible.Groq, compatible.Cerebras, compatible.Mistral} {
		for _, without := range []bool{false, true} {
			req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			to := policy.Resolution{Upstream: "m"}
			to.Without.Thinking = without
			call, err := a.Encode(nil, req, to, provider.Endpoint{})
			reads := a.Name() != "mistral" && !without
			if err != nil || strings.Contains(string(call.Body), `"reasoning":"4"`) != reads || strings.Contains(string(call.Body), "reasoning_details") {
				t.Errorf("%s, without thinking %t: %v, %s", a.Name(), without, err, call.Body)
			}
		}
	}
}

// A resource's newer API has neither deployments nor versions in its paths.
func TestAzureAddresses(t *testing.T) {
	for base, want := range map[string]string{
		"":           "/openai/deployments/my%20deployment/chat/completions?api-version=v",
		"/openai/v1": "/openai/v1/chat/completions",
	} {
		req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		call, err := compatible.Azure.Encode(nil, req, policy.Resolution{Upstream: "my deployment"}, provider.Endpoint{BasePath: base, APIVersion: "v"})
		if err != nil || call.Path != want {
			t.Errorf("%s: %v, %v", base, call, err)
		}
	}
}
