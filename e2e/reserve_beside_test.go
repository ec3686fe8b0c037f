package e2e

import (
	"net/http"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestD50CallsBesideTheFirstAreReserved: a key that can pay for one call of its model, and not for those that may follow it, gets none where
// they may follow: another one about a wrong form, a second opinion, a better tier. What a request holds shows that it is all of them.
func TestD50CallsBesideTheFirstAreReserved(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	other := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "other"})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: []gateway.Model{{
			ID: "small", Price: "{input: 0.001, output: 10}", More: "quality: low, family: small, reasoning: none, capabilities: [tools, structured_outputs, low_effort]",
		}}},
		{ID: "other", Fake: other, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 0.001, output: 100}"}}},
	}})
	const limit = `"max_tokens":1000` // one call of small costs at most a cent and a little, one of the other ten, and at tier T2 175
	decided := decision("observe", 0.9, false)
	form := shaper("openai").schema("answer", `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`)
	for _, row := range []struct {
		about, balance, more string
		header               []string
		json                 string
		want                 int
	}{
		{"a form may be asked for again", "0.015", form, nil, `{"a":"b"}`, http.StatusPaymentRequired},
		{"and again is all", "0.03", form, nil, `{"a":"b"}`, http.StatusOK},
		{"without a form", "0.015", "", nil, "", http.StatusOK},
		{"a second opinion", "0.1", "", []string{"X-Bardo-Verify: true"}, "", http.StatusPaymentRequired},
		{"a second opinion that can be paid", "0.2", "", []string{"X-Bardo-Verify: true"}, "", http.StatusOK},
		{"nobody asks for one", "0.1", "", nil, "", http.StatusOK},
		{"a better tier", "0.3", "", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto"}, decided, http.StatusPaymentRequired},
		{"a better tier that is asked again", "2.5", "", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto"}, decided, http.StatusPaymentRequired},
		{"a better tier that can be paid", "4", "", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: auto"}, decided, http.StatusOK},
		{"it may not have one", "0.3", "", []string{"X-Bardo-Subsystem: heartbeat_t1", "X-Bardo-Escalate: off"}, decided, http.StatusOK},
	} {
		for _, stream := range []bool{false, true} {
			for _, s := range []*fake.Server{first, other} {
				s.Forget()
				s.Behave(fake.Behaviour{JSON: row.json, Usage: &fake.Usage{Input: 10, Output: 10}})
			}
			more := limit
			if row.more != "" {
				more += "," + row.more
			}
			c := ask{dialect: fake.OpenAI, model: "small", stream: stream, more: more}.call(row.header...)
			c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", row.balance).Key
			got, want := g.Do(t, c), row.want
			if stream && row.more != "" { // the client has it as it comes, and nobody asks again
				want = http.StatusOK
			}
			if got.Status != want {
				t.Errorf("%s, stream=%v: %d %s", row.about, stream, got.Status, got.Body)
			}
			if n := len(first.Generations()) + len(other.Generations()); (n == 0) != (want == http.StatusPaymentRequired) {
				t.Errorf("%s, stream=%v: %d calls", row.about, stream, n)
			}
		}
	}
	g.AssertSound(t)
}
