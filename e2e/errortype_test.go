package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAProvidersWordsForTheCallersMistakeSurvive: type, parameter and code of a 4xx reach a client of the same format as the provider
// said them, streamed or not, and whether or not the gateway checks the answer itself; a client of another format gets the code, under its
// own format's type.
func TestAProvidersWordsForTheCallersMistakeSurvive(t *testing.T) {
	t.Parallel()
	f := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: f}}})
	const schema = `,"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":true,"schema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"],"additionalProperties":false}}}`
	for _, row := range []struct {
		status            int
		kind, param, code string
	}{
		{http.StatusNotFound, "invalid_request_error", "", "model_not_found"},
		{http.StatusBadRequest, "invalid_request_error", "messages", "string_above_max_length"},
		{http.StatusBadRequest, "image_generation_user_error", "", "moderation_blocked"},
		{http.StatusUnprocessableEntity, "invalid_request_error", "max_tokens", "integer_below_min_value"},
	} {
		f.Behave(fake.Behaviour{Raw: &fake.Raw{Status: row.status, Header: []string{"content-type: application/json"}, Body: fmt.Sprintf(
			`{"error":{"message":"No such luck.","type":%q,"param":%s,"code":%q}}`, row.kind, orNull(row.param), row.code)}})
		for _, stream := range []bool{false, true} {
			for _, form := range []string{"", schema} {
				got := g.Chat(t, fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"hi"}]%s}`, stream, form))
				checkErrorOf(t, got, row.status, row.kind, row.param, row.code)
			}
		}
		got := g.Do(t, gateway.Call{Path: "/v1/responses", Body: `{"model":"m","input":"hi"}`})
		checkErrorOf(t, got, row.status, row.kind, row.param, row.code)
		got = g.Messages(t, `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
		want := "invalid_request_error"
		if row.status == http.StatusNotFound {
			want = "not_found_error"
		}
		checkErrorOf(t, got, row.status, want, "", row.code)
	}
}

func orNull(s string) string {
	if s == "" {
		return "null"
	}
	b, _ := json.Marshal(s)
	return string(b)
}

func checkErrorOf(t *testing.T, got gateway.Answer, status int, kind, param, code string) {
	t.Helper()
	var body struct {
		Error struct{ Type, Param, Code, Message string }
	}
	got.JSON(t, &body)
	e := body.Error
	if got.Status != status || e.Type != kind || e.Param != param || e.Code != code || e.Message != "No such luck." {
		t.Errorf("got %d %s, want %d %s %s %s", got.Status, got.Body, status, kind, param, code)
	}
}

// TestAPromptThatIsTooLongIsNamedAsClientsKnowIt: clients compact their conversation by OpenAI's code, or by Anthropic's message.
func TestAPromptThatIsTooLongIsNamedAsClientsKnowIt(t *testing.T) {
	t.Parallel()
	chat, claude := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "one", Fake: chat, Models: []gateway.Model{{ID: "gpt"}}}, {ID: "two", Fake: claude, Format: "anthropic", Models: []gateway.Model{{ID: "claude"}}},
	}})
	chat.Behave(fake.Behaviour{Status: http.StatusBadRequest, Message: "This model's maximum context length is 8192 tokens.", ErrorCode: "context_length_exceeded"})
	claude.Behave(fake.Behaviour{Status: http.StatusBadRequest, Message: "prompt is too long: 208310 tokens > 200000 maximum"})
	for model, said := range map[string]string{
		"gpt": "prompt is too long: This model's maximum context length is 8192 tokens.", "claude": "prompt is too long: 208310 tokens > 200000 maximum",
	} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: fake.OpenAI, model: model, stream: stream}
			mustFail(t, a, g.Do(t, a.call()), http.StatusBadRequest, "context_length_exceeded")
			a.dialect = fake.Anthropic
			got := g.Do(t, a.call())
			mustFail(t, a, got, http.StatusBadRequest, "context_length_exceeded")
			if !strings.Contains(got.Body, `"message":"`+said+`"`) {
				t.Errorf("%s: %s", model, got.Body)
			}
		}
	}
	g.AssertSound(t)
}
