package google_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/google"
	"bardo.money/gateway/extproc/provider/providertest"
	wire "bardo.money/gateway/extproc/wire/gemini"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

func TestConformance(t *testing.T) { providertest.Run(t, google.Adapter{}) }

var endpoint = provider.Endpoint{Authority: "api.example", BasePath: "/v1beta", Key: secret.New("k")}

const body = `{"contents":[{"parts":[{"text":"hi"}]}]}`

func TestACall(t *testing.T) {
	for _, row := range []struct {
		about, from, query string
		op                 chat.Op
		upstream           string
		path               string
	}{
		{"an answer", "/v1beta/models/m:generateContent", "", chat.Generate, "", "/v1beta/models/m:generateContent"},
		{"another name", "/v1beta/models/m:generateContent", "", chat.Generate, "models/x", "/v1beta/models/x:generateContent"},
		{"a stream", "/v1beta/models/m:streamGenerateContent", "alt=sse", chat.Generate, "", "/v1beta/models/m:streamGenerateContent?alt=sse"},
		{"a stream as an array is asked for whole", "/v1beta/models/m:streamGenerateContent", "", chat.Generate, "", "/v1beta/models/m:generateContent"},
		{"a count", "/v1beta/models/m:countTokens", "", chat.CountTokens, "", "/v1beta/models/m:countTokens"},
		{"a name with a slash", "/v1beta/models/a/b%20c:generateContent", "", chat.Generate, "", "/v1beta/models/a/b%20c:generateContent"},
	} {
		t.Run(row.about, func(t *testing.T) {
			req, err := wire.Dialect{}.ForPath(row.from, row.query).Decode(row.op, nil, row.query, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			call, err := google.Adapter{}.Encode(nil, req, policy.Resolution{Model: policy.ModelID(req.Model), Upstream: row.upstream}, endpoint)
			if err != nil {
				t.Fatal(err)
			}
			if call.Path != row.path || string(call.Body) != body || call.Header.Get("x-goog-api-key") != "k" {
				t.Errorf("got %s %v %s", call.Path, call.Header, call.Body)
			}
		})
	}
}

// TestK16RefusedSignaturesAreLeftOut: signatures in the history that the API refuses are replaced by the documented placeholder, and all
// other bytes stay.
func TestK16RefusedSignaturesAreLeftOut(t *testing.T) {
	const body = `{ "contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"text":"Hm.","thought":true,"thoughtSignature":"YQ=="},` +
		`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"Yg=="},{"functionCall":{"name":"f"}}]},{"role":"model","parts":[{"functionCall":{"name":"g"}}]}],"x":1 }`
	const want = `{ "contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[` +
		`{"functionCall":{"name":"f","args":{}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"f"}}]},{"role":"model","parts":[{"thoughtSignature":"skip_thought_signature_validator","functionCall":{"name":"g"}}]}],"x":1 }`
	req, err := wire.Dialect{}.ForPath("/v1beta/models/m:generateContent", "").Decode(chat.Generate, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	refusal := &chat.ProviderError{Status: 400, Message: "Corrupted thought signature."}
	amended, ok := google.Adapter{}.Amend(req, policy.Resolution{Model: "m"}, endpoint, refusal)
	if !ok {
		t.Fatal("it is not asked again")
	}
	if _, repeated := (google.Adapter{}).Amend(req, amended, endpoint, refusal); repeated {
		t.Error("it is asked a third time")
	}
	call, err := google.Adapter{}.Encode(nil, req, amended, endpoint)
	if err != nil || string(call.Body) != want || len(call.Degraded) != 1 {
		t.Errorf("%v, degraded %v\n%s\nwant\n%s", err, call.Degraded, call.Body, want)
	}
}

// TestAModelThatAlwaysThinksIsGivenItsLowestBudget: it refuses a budget of 0.
func TestAModelThatAlwaysThinksIsGivenItsLowestBudget(t *testing.T) {
	for _, row := range []struct {
		thinks policy.ThinkingDefault
		want   string
	}{
		{policy.ThinksAlways, `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":128}}}`},
		{policy.ThinksByDefault, `{"contents":[{"role":"user","parts":[{"text":"hi"}]}],"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`},
	} {
		req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}],"reasoning_effort":"none"}`))
		if err != nil {
			t.Fatal(err)
		}
		call, err := google.Adapter{}.Encode(nil, req, policy.Resolution{Model: "m", Control: policy.ControlBudget, Thinks: row.thinks}, endpoint)
		if err != nil || string(call.Body) != row.want || (len(call.Degraded) > 0) != (row.thinks == policy.ThinksAlways) {
			t.Errorf("%q: %s %v %v", row.thinks, call.Body, call.Degraded, err)
		}
	}
}
