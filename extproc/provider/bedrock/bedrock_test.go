package bedrock_test

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/provider/bedrock"
	"bardo.money/gateway/extproc/provider/providertest"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
)

var update = flag.Bool("update", false, "update the golden files")

func TestConformance(t *testing.T) {
	providertest.Run(t, bedrock.Adapter{}, providertest.OfFamily(bedrock.Adapter{}, "claude"))
}

func TestRequests(t *testing.T) {
	providertest.Golden(t, *update, bedrock.Adapter{},
		providertest.Model{Name: "claude", To: policy.Resolution{Upstream: "anthropic.claude-opus-4-8", MaxOutput: 64_000}},
		providertest.Model{Name: "gpt-oss", To: policy.Resolution{Upstream: "openai.gpt-oss-120b"}},
	)
}

// TestACallIsSigned for the service of its host and for its region, and has no other credential. A session token is sent too.
func TestACallIsSigned(t *testing.T) {
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ host, key, model, scope, token string }{
		{"bedrock-mantle.us-east-1.api.aws", "AKID secret", "openai.gpt-oss-120b", "us-east-1/bedrock-mantle/aws4_request", ""},
		{"bedrock-mantle.us-east-1.api.aws", "AKID secret token", "anthropic.claude-opus-4-8", "us-east-1/bedrock-mantle/aws4_request", "token"},
		{"vpce-0a1b.bedrock-mantle.us-east-1.vpce.amazonaws.com", "AKID secret", "openai.gpt-oss-120b", "us-east-1/bedrock-mantle/aws4_request", ""},
		{"vpce-0a1b.bedrock-runtime.us-east-1.vpce.amazonaws.com", "AKID secret", "openai.gpt-oss-120b", "us-east-1/bedrock/aws4_request", ""},
		{"bedrock-runtime.us-east-1.amazonaws.com", "AKID secret", "anthropic.claude-opus-4-8", "us-east-1/bedrock/aws4_request", ""},
	} {
		at := provider.Endpoint{Authority: row.host, Region: "us-east-1", Key: secret.New(row.key)}
		call, err := bedrock.Adapter{}.Encode(nil, req, policy.Resolution{Upstream: row.model}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*provider.Call{call, bedrock.Adapter{}.Ping(at)} {
			got := c.Header.Get("authorization")
			if !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKID/") || !strings.Contains(got, "/"+row.scope+",") || c.Header.Get("x-amz-security-token") != row.token {
				t.Errorf("%s: signed by %q", row.host, got)
			}
			for _, f := range c.Header {
				if !slices.Contains(provider.RemovedHeaders, f.Name) {
					t.Errorf("%s would reach the provider of the next attempt", f.Name)
				}
			}
			if c.Header.Has("x-api-key") || strings.Contains(got, "secret") {
				t.Errorf("%s: another credential is sent: %v", row.host, c.Header)
			}
		}
	}
}

// TestAnAPIKeyIsABearerToken, in both formats.
func TestAnAPIKeyIsABearerToken(t *testing.T) {
	req, err := openai.Dialect{}.Decode(chat.Generate, nil, "", []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for model, path := range map[string]string{"anthropic.claude-opus-4-8": "/anthropic/v1/messages", "qwen.qwen3-coder": "/openai/v1/chat/completions"} {
		call, err := bedrock.Adapter{}.Encode(nil, req, policy.Resolution{Upstream: model}, provider.Endpoint{Key: secret.New("ABSKkey")})
		if err != nil {
			t.Fatal(err)
		}
		if call.Path != path || call.Header.Get("authorization") != "Bearer ABSKkey" || call.Header.Has("x-api-key") {
			t.Errorf("%s: %s with %v", model, call.Path, call.Header)
		}
	}
}
