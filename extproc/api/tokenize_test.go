package api

import (
	"strings"
	"testing"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// tokenize answers a body.
func tokenize(t testing.TB, body string) (string, *fault.Fault) {
	t.Helper()
	r, err := (&Server{}).Tokenize(t.Context(), &Caller{Head: &stream.Head{}, Catalog: resolve.New(catalog.New(), nil), Body: []byte(body)})
	if err != nil {
		return "", fault.From(err)
	}
	return string(r.Body), nil
}

// TestB01TokenizeGivesTheTokensOfAPrompt. The ids are those of tiktoken.
func TestB01TokenizeGivesTheTokensOfAPrompt(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"gpt-4o","prompt":"Hello world"}`:                                       `{"count":2,"tokens":[13225,2375]}`,
		`{"model":"openai/gpt-5-mini","prompt":"Hello world","add_special_tokens":false}`: `{"count":2,"tokens":[13225,2375]}`,
		`{"model":"o3","prompt":"Hello world","return_token_strs":true}`:                  `{"count":2,"tokens":[13225,2375],"token_strs":["Hello","Ġworld"]}`,
		`{"model":"o3","prompt":"","return_token_strs":null}`:                             `{"count":0,"tokens":[]}`,
		`{"model":"gpt-oss-20b","prompt":"<|endoftext|>"}`:                                `{"count":7,"tokens":[27,91,419,1440,919,91,29]}`,
	} {
		if got, f := tokenize(t, body); f != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", body, got, f, want)
		}
	}
}

func TestB01TokenizeRefusesWhatItDoesNotKnow(t *testing.T) {
	for body, want := range map[string]struct {
		kind        fault.Kind
		param, text string
	}{
		`{"model":"claude-opus-4-6","prompt":"x"}`:                   {fault.ModelNotFound, "model", "gpt-4o…, chatgpt-4o…"},
		`{"model":"gpt-6","prompt":"x"}`:                             {fault.ModelNotFound, "model", "are not known here"},
		`{"model":"gpt-4o","messages":[]}`:                           {fault.InvalidRequest, "messages", "/v1/responses/input_tokens"},
		`{"model":"gpt-4o","content":"x"}`:                           {fault.InvalidRequest, "content", "expected model, prompt"},
		`{"model":"gpt-4o"}`:                                         {fault.InvalidRequest, "prompt", "missing"},
		`{"prompt":"x"}`:                                             {fault.InvalidRequest, "model", "missing"},
		`{"model":"gpt-4o","prompt":["x"]}`:                          {fault.InvalidRequest, "prompt", "expected a text"},
		`{"model":null,"prompt":"x"}`:                                {fault.InvalidRequest, "model", "expected a text"},
		`{"model":"gpt-4o","prompt":"x","add_special_tokens":"yes"}`: {fault.InvalidRequest, "add_special_tokens", "expected true or false"},
		`{"model":"gpt-4o","prompt":"x","return_token_strs":1}`:      {fault.InvalidRequest, "return_token_strs", "expected true or false"},
		`{"model":"gpt-4o","prompt":"x","prompt":"y"}`:               {fault.InvalidRequest, "", "prompt"},
		`[]`:        {fault.InvalidRequest, "", "expected a JSON object"},
		`{"model":`: {fault.InvalidRequest, "", ""},
	} {
		if got, f := tokenize(t, body); f == nil || f.Kind != want.kind || f.Param != want.param || !strings.Contains(f.Public, want.text) {
			t.Errorf("%s: %s, %+v, want %+v", body, got, f, want)
		}
	}
}

// TestTheBytesOfTokensAreAllDifferent, printable, and not white space.
func TestTheBytesOfTokensAreAllDifferent(t *testing.T) {
	seen := map[rune]bool{}
	for i := range 256 {
		r := []rune(printable(string([]byte{byte(i)})))
		if len(r) != 1 || seen[r[0]] || r[0] <= ' ' {
			t.Errorf("byte %d is %q", i, r)
		}
		seen[r[0]] = true
	}
}

// FuzzTokenize: any body is answered or refused, and the answer has the prompt's tokens.
func FuzzTokenize(f *testing.F) {
	f.Add(`{"model":"gpt-4o","prompt":"Hello world","return_token_strs":true}`)
	f.Add(`{"model":"gpt-4o","messages":[{}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		if got, fault := tokenize(t, body); fault == nil && !strings.HasPrefix(got, `{"count":`) {
			t.Errorf("%q: %s", body, got)
		}
	})
}
