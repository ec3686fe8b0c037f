package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/fake/sigv4"
	"bardo.money/gateway/e2e/gateway"
)

const bedrockModels = "models: [{id: claude-opus-4-8, upstream_id: anthropic.claude-opus-4-8}, {id: gpt-oss-120b, upstream_id: openai.gpt-oss-120b}]"

// TestB13BedrockIsCalledWithSignedRequests: with AWS credentials, from the file and from the environment, each call is signed, streamed or not, from
// clients of each format, and also those that Envoy repeats. Each model is called in the format that Bedrock has for it.
func TestB13BedrockIsCalledWithSignedRequests(t *testing.T) {
	t.Parallel()
	key := sigv4.Key{ID: "AKIDEXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", Token: "IQoJb3JpZ2luX2VjEXAMPLE//token==", Region: "eu-west-1", Service: "bedrock-mantle"}
	s := fake.Start(t, fake.Config{Vendor: fake.Bedrock, AWS: &key})
	inFile := fmt.Sprintf("region: eu-west-1, access_key_id: %q, secret_access_key: %q, session_token: %q", key.ID, key.Secret, key.Token)
	environment := []string{"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=" + key.ID, "AWS_SECRET_ACCESS_KEY=" + key.Secret, "AWS_SESSION_TOKEN=" + key.Token}
	for name, o := range map[string]gateway.Options{
		"file":        {Config: quick + fmt.Sprintf("providers:\n  bedrock: {base_url: %q, %s, %s}\n", s.URL, inFile, bedrockModels)},
		"environment": {Config: quick + fmt.Sprintf("providers:\n  bedrock: {base_url: %q, %s}\n", s.URL, bedrockModels), Env: environment},
	} {
		g := gateway.Run(t, o)
		for model, path := range map[string]string{
			"claude-opus-4-8": "/anthropic/v1/messages", "gpt-oss-120b": "/openai/v1/chat/completions",
			"bedrock/anthropic.claude-new": "/anthropic/v1/messages", "bedrock/qwen.qwen3": "/openai/v1/chat/completions",
		} {
			for _, d := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
				for _, stream := range []bool{false, true} {
					a := ask{dialect: d, model: model, stream: stream}
					if got := g.Do(t, a.call()); got.Status != http.StatusOK || text(t, a, got) != "Hello from the fake provider." {
						t.Fatalf("%s, %s from %s: %d %s", name, model, d, got.Status, got.Body)
					}
					if r := lastOf(t, s); r.Path != path || r.Header.Get("X-Api-Key") != "" || r.Header.Get("X-Amz-Security-Token") != key.Token {
						t.Errorf("%s, %s from %s: it was called at %s with %v", name, model, d, r.Path, r.Header)
					}
				}
			}
		}
		s.Queue(fake.Behaviour{Status: http.StatusServiceUnavailable})
		if got := g.Do(t, ask{dialect: fake.OpenAI, model: "gpt-oss-120b"}.call()); got.Status != http.StatusOK {
			t.Errorf("%s, repeated: %d %s", name, got.Status, got.Body)
		}
		if out := g.Bardo(t, "doctor"); !strings.Contains(out, "bedrock") { // it asks for the list of models, which is signed as well
			t.Errorf("%s: bardo doctor: %s", name, out)
		}
		g.AssertSound(t)
	}
}

// TestB13ARefusedSignatureShowsNoCredential: AWS quotes what it expected to be signed, with the session token.
func TestB13ARefusedSignatureShowsNoCredential(t *testing.T) {
	t.Parallel()
	right := sigv4.Key{ID: "AKIDEXAMPLE", Secret: "another-secret-access-key", Token: "IQoJb3JpZ2luX2VjEXAMPLE//token==", Region: "eu-west-1", Service: "bedrock-mantle"}
	s := fake.Start(t, fake.Config{Vendor: fake.Bedrock, AWS: &right})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(
		"providers:\n  bedrock: {base_url: %q, region: eu-west-1, access_key_id: %q, secret_access_key: %q, session_token: %q, %s}\n",
		s.URL, right.ID, "wrong-secret-access-key", right.Token, bedrockModels)})
	got := g.Do(t, ask{dialect: fake.OpenAI, model: "gpt-oss-120b"}.call())
	if got.Status < 500 || lastOf(t, s).Status != http.StatusForbidden {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	for _, secret := range []string{right.Token, "wrong-secret-access-key"} {
		if strings.Contains(got.Body, secret) || strings.Contains(g.Log(), secret) {
			t.Errorf("%q is shown:\n%s\n%s", secret, got.Body, g.Log())
		}
	}
	g.AssertSound(t)
}

// TestB13SignaturesReachNoOtherProvider: Envoy's next attempt, at another provider, has no header of the failed one.
func TestB13SignaturesReachNoOtherProvider(t *testing.T) {
	t.Parallel()
	key := sigv4.Key{ID: "AKIDEXAMPLE", Secret: "another-secret-access-key", Token: "IQoJb3JpZ2luX2VjEXAMPLE//token==", Region: "eu-west-1", Service: "bedrock-mantle"}
	s, other := fake.Start(t, fake.Config{Vendor: fake.Bedrock, AWS: &key}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf(
		"providers:\n  order: [bedrock, other]\n  bedrock: {base_url: %q, region: eu-west-1, access_key_id: %q, secret_access_key: %q, session_token: %q, %s}\n  custom: [{id: other, endpoints: [%q], api_key: %q, models: [{id: gpt-oss-120b}]}]\n",
		s.URL, key.ID, key.Secret, key.Token, bedrockModels, other.URL, other.Key)})
	for _, stream := range []bool{false, true} {
		s.Queue(fake.Behaviour{Status: http.StatusServiceUnavailable}, fake.Behaviour{Status: http.StatusServiceUnavailable}, fake.Behaviour{Status: http.StatusServiceUnavailable})
		a := ask{dialect: fake.OpenAI, model: "gpt-oss-120b", stream: stream}
		if got := g.Do(t, a.call()); got.Status != http.StatusOK || lastOf(t, s).Header.Get("X-Amz-Security-Token") != key.Token {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		r := lastOf(t, other)
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Amz-") {
				t.Errorf("the other provider got %s", name)
			}
		}
		if r.Header.Get("Authorization") != "Bearer "+other.Key {
			t.Errorf("the other provider got %v", r.Header)
		}
	}
	g.AssertSound(t)
}

// TestBedrockTakesAKey as a bearer token.
func TestBedrockTakesAKey(t *testing.T) {
	t.Parallel()
	s := fake.Start(t, fake.Config{Vendor: fake.Bedrock})
	g := gateway.Run(t, gateway.Options{Config: quick + fmt.Sprintf("providers:\n  bedrock: {base_url: %q, region: us-east-1, %s}\n", s.URL, bedrockModels), Env: []string{"AWS_BEARER_TOKEN_BEDROCK=" + s.Key}})
	for _, model := range []string{"claude-opus-4-8", "gpt-oss-120b"} {
		a := ask{dialect: fake.Anthropic, model: model, stream: true}
		if got := g.Do(t, a.call()); got.Status != http.StatusOK || text(t, a, got) != "Hello from the fake provider." {
			t.Fatalf("%s: %d %s", model, got.Status, got.Body)
		}
		if r := lastOf(t, s); r.Header.Get("Authorization") != "Bearer "+s.Key {
			t.Errorf("%s: it was called with %v", model, r.Header)
		}
	}
	g.AssertSound(t)
}
