package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestAPrepaidRequestWithoutALimitGetsOne: the answer is as long as is reserved, in every format, and X-Bardo-Degraded says so; a key
// without a balance, and a client's own limit, change nothing.
func TestAPrepaidRequestWithoutALimitGetsOne(t *testing.T) {
	t.Parallel()
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	gm := fake.Start(t, fake.Config{Dialect: fake.Gemini})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "o", Fake: o, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}"}, {ID: "short", Price: "{input: 1, output: 10}", More: "max_output: 1000"}}},
		{ID: "gm", Fake: gm, Format: "gemini", Models: []gateway.Model{{ID: "gem", Price: "{input: 1, output: 10}"}}},
	}})
	prepaid := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	for _, row := range []struct {
		model, key, more string
		p                *fake.Server
		want, degraded   string
	}{
		{"m", prepaid, "", o, `"max_tokens":4096`, "max_tokens"},
		{"gem", prepaid, "", gm, `"maxOutputTokens":4096`, "max_tokens"},
		{"m", prepaid, `"max_tokens":77`, o, `"max_tokens":77`, ""},
		{"short", prepaid, "", o, "", ""},
		{"m", "", "", o, "", ""},
	} {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: fake.OpenAI, model: row.model, stream: stream, more: row.more}
			c := a.call()
			if row.key != "" {
				c = a.with(row.key)
			}
			got := g.Do(t, c)
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Degraded") != row.degraded {
				t.Errorf("%+v: %d, degraded %q", row, got.Status, got.Header.Get("X-Bardo-Degraded"))
			}
			sent, _ := row.p.Last()
			if body := string(sent.Body); !strings.Contains(body, row.want) || row.want == "" && strings.Contains(strings.ToLower(body), "tokens\"") {
				t.Errorf("%+v: the provider got %s", row, body)
			}
		}
	}
	g.AssertSound(t)
}

// TestManyAtOnceCostNoMoreThanTheirKeyHas: twenty requests of a key with 30 cents, each with a text that is one long word and without a
// limit of its own, to a model that writes as much as it may. What the provider is owed stays within the balance.
func TestManyAtOnceCostNoMoreThanTheirKeyHas(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	// Every token of the reserve is used: a token for two bytes of text, and all of the output.
	const word = 20_000
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: word / 2, Output: 4096}})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 3, output: 15}"}}},
	}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "0.30").Key
	c := ask{dialect: fake.OpenAI, model: "m", say: strings.Repeat("a", word)}.with(key)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { g.Do(t, c) })
	}
	all.Wait()
	const cost = word/2*3 + 4096*15 // in millionths
	if n := len(p.Generations()); n == 0 || n*cost > 300_000 {
		t.Errorf("the provider is owed %d times %d millionths by a key with 300000", n, cost)
	}
	if left := balanceOf(t, g, key); left < 0 {
		t.Errorf("%d are left", left)
	}
	g.AssertSound(t)
}

// TestWhatCountsForAlmostNothingIsReserved: a request whose parts an estimate takes for little is refused by a key that could not pay for
// what they may cost.
func TestWhatCountsForAlmostNothingIsReserved(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 1}"}}},
	}})
	for name, body := range map[string]string{
		"a long word":           `"messages":[{"role":"user","content":"` + strings.Repeat("a", 60_000) + `"}]`,
		"numbers":               `"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":[` + strings.Repeat("7,", 30_000) + `7]}}}]`,
		"addresses":             `"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"image_url","image_url":{"url":"https://a/b"}},`, 4) + `{"type":"text","text":"x"}]}]`,
		"a huge limit":          `"messages":[{"role":"user","content":"x"}],"max_completion_tokens":2000000000`,
		"a huge limit for many": `"messages":[{"role":"user","content":"x"}],"n":128,"max_completion_tokens":2000000000`,
		"a huge limit with a schema": `"messages":[{"role":"user","content":"x"}],"max_completion_tokens":2000000000,"reasoning_effort":"high",` +
			`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}`,
	} {
		key := g.CreateKey(t, "--name", "k", "--balance-usd", "0.02").Key
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Body: `{"model":"m","max_tokens":10,` + body + `}`, Key: key})
		if got.Status != http.StatusPaymentRequired || len(p.Generations()) != 0 {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
}
