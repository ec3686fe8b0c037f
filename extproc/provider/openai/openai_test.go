package openai_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/openai"
	wire "bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/catalog/catalogtest"
)

// known returns a resolution with the catalog's reasoning control of a model.
func known(model string) policy.Resolution {
	m := models().Unlisted("openai", model)
	return policy.Resolution{Upstream: model, Control: m.Thinking.Control, Efforts: m.Thinking.Efforts}
}

var models = sync.OnceValue(func() *catalog.Catalog { return catalog.New(catalogtest.Embedded()) })

func TestACall(t *testing.T) {
	rows := []struct {
		name, upstream, body string
		key                  string
		header, want         string
	}{
		{"a key", "gpt-4o", `{"model":"gpt-4o","messages":[{}]}`, "k", "authorization Bearer k", `{"model":"gpt-4o","messages":[{}]}`},
		{"no key", "gpt-4o", `{"model":"gpt-4o","messages":[{}]}`, "", "", `{"model":"gpt-4o","messages":[{}]}`},
		{"max_tokens stays (K-94)", "gpt-4o", `{"model":"gpt-4o","max_tokens":5,"messages":[{}]}`, "", "", `{"model":"gpt-4o","max_tokens":5,"messages":[{}]}`},
		{"a model that reasons wants it renamed (K-94)", "gpt-5-mini", `{"model":"m","max_tokens":5,"messages":[{}]}`, "", "", `{"model":"gpt-5-mini","messages":[{}],"max_completion_tokens":5}`},
		{"without an upstream name, the model's own", "", `{"model":"x/m","messages":[{}]}`, "", "", `{"model":"m","messages":[{}]}`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			req, err := wire.Dialect{}.Decode(chat.Generate, nil, "beta=true", []byte(r.body))
			if err != nil {
				t.Fatal(err)
			}
			to := known(r.upstream)
			to.Model = "m"
			call, err := openai.Adapter{}.Encode(nil, req, to, provider.Endpoint{BasePath: "/v1", Key: secret.New(r.key)})
			if err != nil {
				t.Fatal(err)
			}
			var header []string
			for _, f := range call.Header {
				header = append(header, f.Name+" "+f.Value)
			}
			if call.Path != "/v1/chat/completions" || strings.Join(header, ",") != r.header || string(call.Body) != r.want {
				t.Errorf("%s %v %s", call.Path, header, call.Body)
			}
		})
	}
}

var hi = []chat.Message{{Role: chat.RoleUser, Parts: []chat.Part{{Kind: chat.PartText, Text: "hi"}}}}

func TestAtMostFourStopSequencesAreSent(t *testing.T) {
	conv := chat.Conversation{Messages: hi, Params: chat.Params{Stop: []string{"a", "b", "c", "d", "e"}}}
	req := &chat.Request{Dialect: chat.Anthropic, MaxTokens: 5, Conv: &conv}
	call, err := openai.Adapter{}.Encode(nil, req, policy.Resolution{Upstream: "gpt-4o"}, provider.Endpoint{})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(call.Body), `"stop":["a","b","c","d"]`) || strings.Join(call.Degraded, ",") != "stop_sequences" {
		t.Errorf("%s %v", call.Body, call.Degraded)
	}
}

func TestEffortGoesOnlyToModelsThatReason(t *testing.T) {
	for model, want := range map[string]bool{"o3-mini": true, "gpt-5": true, "gpt-4o": false} {
		conv := chat.Conversation{Messages: hi, Params: chat.Params{Effort: "low"}}
		req := &chat.Request{Dialect: chat.Anthropic, MaxTokens: 5, Conv: &conv}
		call, err := openai.Adapter{}.Encode(nil, req, known(model), provider.Endpoint{})
		if err != nil {
			t.Fatal(err)
		}
		sent := strings.Contains(string(call.Body), `"reasoning_effort":"low"`)
		degraded := strings.Join(call.Degraded, ",") == "effort"
		if sent != want || degraded == want || !strings.Contains(string(call.Body), `"max_completion_tokens":5`) {
			t.Errorf("%s: %s %v", model, call.Body, call.Degraded)
		}
	}
}

func TestK19EffortsAreThoseOfTheModel(t *testing.T) {
	rows := []struct{ model, effort, want, degraded string }{
		{"o3", "low", `"reasoning_effort":"low"`, ""},
		{"o3", "minimal", `"reasoning_effort":"low"`, "effort"},
		{"o4-mini", "xhigh", `"reasoning_effort":"high"`, "effort"},
		{"gpt-5-mini", "minimal", `"reasoning_effort":"minimal"`, ""},
		{"gpt-5-mini", "none", `"reasoning_effort":"minimal"`, "effort"},
		{"gpt-5-pro", "low", `"reasoning_effort":"high"`, "effort"},
		{"gpt-5-codex", "ultra", ``, "effort"},
		{"gpt-5.2", "xhigh", `"reasoning_effort":"xhigh"`, ""},
		{"gpt-5.2", "max", `"reasoning_effort":"xhigh"`, "effort"},
		{"gpt-5.1", "max", `"reasoning_effort":"high"`, "effort"},
		{"gpt-5-chat-latest", "low", ``, "effort"},
	}
	for _, r := range rows {
		conv := chat.Conversation{Messages: hi, Params: chat.Params{Effort: r.effort}}
		req := &chat.Request{Dialect: chat.Anthropic, Conv: &conv}
		call, err := openai.Adapter{}.Encode(nil, req, known(r.model), provider.Endpoint{})
		if err != nil {
			t.Fatal(err)
		}
		sent := strings.Contains(string(call.Body), `"reasoning_effort"`)
		if !strings.Contains(string(call.Body), r.want) || sent != (r.want != "") || strings.Join(call.Degraded, ",") != r.degraded {
			t.Errorf("%s, %s: %s %v", r.model, r.effort, call.Body, call.Degraded)
		}
	}
}

func TestModelsThatReasonTakeNoSampling(t *testing.T) {
	for model, want := range map[string]string{"gpt-5": "temperature,frequency_penalty,stop_sequences", "gpt-4o": ""} {
		conv := chat.Conversation{Messages: hi, Params: chat.Params{
			Temperature: "0.3", TopP: "1.0", FrequencyPenalty: "0.5", PresencePenalty: "0", Stop: []string{"END"},
		}}
		req := &chat.Request{Dialect: chat.Anthropic, Conv: &conv}
		call, err := openai.Adapter{}.Encode(nil, req, known(model), provider.Endpoint{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(call.Degraded, ","); got != want || strings.Contains(string(call.Body), "temperature") == (want != "") {
			t.Errorf("%s: %s %v", model, call.Body, call.Degraded)
		}
	}
}

func TestD24SamplingOfTheSameDialectGoesWhereTheModelRefusesIt(t *testing.T) {
	const body = `{"model":"m","temperature":0.3,"top_p":1.0,"presence_penalty":0, "frequency_penalty":0.5,"stop":"END","messages":[{}]}`
	for _, r := range []struct {
		to             policy.Resolution
		want, degraded string
	}{
		{policy.Resolution{Upstream: "m"}, body, ""},
		{policy.Resolution{Upstream: "m", FixedSampling: true}, `{"model":"m","top_p":1.0,"presence_penalty":0,"stop":"END","messages":[{}]}`, "temperature,frequency_penalty"},
	} {
		req, err := wire.Dialect{}.Decode(chat.Generate, nil, "", []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		call, err := openai.Adapter{}.Encode(nil, req, r.to, provider.Endpoint{})
		if err != nil || string(call.Body) != r.want || strings.Join(call.Degraded, ",") != r.degraded {
			t.Errorf("%+v: %v\n%s %v", r.to, err, call.Body, call.Degraded)
		}
	}
}

func TestTokensCannotBeCounted(t *testing.T) {
	_, err := openai.Adapter{}.Encode(nil, &chat.Request{Op: chat.CountTokens, Dialect: chat.Anthropic}, policy.Resolution{}, provider.Endpoint{})
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != fault.InvalidRequest {
		t.Errorf("got %v", err)
	}
}
