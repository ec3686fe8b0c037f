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

// embeds asks for embeddings.
func embeds(body string) gateway.Call { return gateway.Call{Path: "/v1/embeddings", Body: body} }

// embedded is an answer of the endpoint.
type embedded struct {
	Object string
	Model  string
	Data   []struct {
		Index     int
		Embedding json.RawMessage
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// TestEmbeddingsPassAsTheyCame: a provider of OpenAI's format gets the client's own bytes, and the client the provider's, whatever form the
// input and the vectors have.
func TestEmbeddingsPassAsTheyCame(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Allow: []string{"input_type", "x_new"}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	const model = `"model" : "text-embedding-3-small"`
	for name, body := range map[string]string{
		"a text":                 `{ "input":"caf\u00e9  <b> \/ é",  ` + model + ` }`,
		"texts":                  `{` + model + `,"input":["a", "b" ,"c"]}`,
		"tokens":                 `{` + model + `,"input":[1212,318, 257,1332]}`,
		"lists of tokens":        `{` + model + `,"input":[[1212,318],[257]],"user":"u"}`,
		"another length":         `{` + model + `,"input":"x","dimensions":256}`,
		"base64":                 `{` + model + `,"input":["x","y"],"encoding_format":"base64"}`,
		"members of its own":     `{"x_new":{"b":1,"a":[1e400,12345678901234567890]},` + model + `,"input":"x","input_type":"query"}`,
		"a 5 MB answer (K-50)":   `{` + model + `,"input":["` + strings.Repeat(`x","`, 249) + `x"]}`,
		"a body of 1 MB (K-50)":  `{` + model + `,"dimensions":2,"input":["` + strings.Repeat(`words and words","`, 60_000) + `x"]}`,
		"what the SDKs send":     `{"input":"x",` + model + `,"encoding_format":"base64"}`,
		"a number for the model": `{"input":"0",` + model + `,"encoding_format":"float"}`,
	} {
		for _, path := range []string{"/v1/embeddings", "/embeddings", "/v1/v1/embeddings/"} {
			c := embeds(body)
			c.Path = path
			got := g.Do(t, c)
			if got.Status != http.StatusOK {
				t.Fatalf("%s: %d %.300s", name, got.Status, got.Body)
			}
			sent := lastOf(t, p)
			if string(sent.Body) != body || sent.Path != "/v1/embeddings" || sent.Key() != p.Key {
				t.Errorf("%s: %s got\n%.300s\nwant\n%.300s", name, sent.Path, sent.Body, body)
			}
			if want := directly(t, p, "/embeddings", body); got.Body != want {
				t.Errorf("%s: the client got\n%.300s\nwant\n%.300s", name, got.Body, want)
			}
			if h := got.Header; h.Get("X-Bardo-Provider") != "openai" || h.Get("X-Bardo-Model") != "text-embedding-3-small" || h.Get("X-Request-Id") == "" ||
				h.Get("X-Bardo-Degraded") != "" || h.Get("Openai-Organization") != "" {
				t.Errorf("%s: headers %v", name, h)
			}
		}
	}
	g.AssertSound(t)
}

// TestEmbeddingsUnderAnAlias: the model's name alone is another on each side, and the gateway's own member is not sent.
func TestEmbeddingsUnderAnAlias(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "own", Fake: p, Models: []gateway.Model{{ID: "vectors", Upstream: "bge-m3", Price: "{input: 1, output: 0}", More: "capabilities: [embeddings]"}}},
	}})
	got := g.Do(t, embeds(`{ "model": "vectors", "bardo":{"subsystem":"dream"}, "input" : ["a"]}`))
	if sent := string(lastOf(t, p).Body); sent != `{ "model": "bge-m3", "input" : ["a"]}` {
		t.Errorf("the provider got %s", sent)
	}
	var e embedded
	got.JSON(t, &e)
	if got.Status != http.StatusOK || e.Model != "vectors" || len(e.Data) != 1 || e.Usage.Prompt != 1 {
		t.Errorf("%d %.300s", got.Status, got.Body)
	}
}

// TestEmbeddingsArePaidByTheToken: by the catalog's price for what the provider counted, with a record and within the key's balance; a
// batch is longer than any one window, and none of it is cut off the bill.
func TestEmbeddingsArePaidByTheToken(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	batch := `"input":["` + strings.Repeat("a", 400_000) + `","` + strings.Repeat("b", 400_000) + `"],"dimensions":2`
	for _, row := range []struct {
		model string
		usage fake.Usage
		cost  int64 // in millionths
		bill  bill
	}{
		{"text-embedding-3-small", fake.Usage{Input: 100_000}, 2_000, bill{InputTokens: 100_000}},
		{"text-embedding-3-large", fake.Usage{Input: 100_000}, 13_000, bill{InputTokens: 100_000}},
		{"text-embedding-ada-002", fake.Usage{Input: 100_001}, 10_001, bill{InputTokens: 100_001}},
		{"text-embedding-3-small", fake.Usage{Missing: true}, 4_572, bill{InputTokens: 228_581, UsageEstimated: true}},
		{"text-embedding-3-small", fake.Usage{Input: 1 << 40}, 8_001, bill{InputTokens: 400_045}}, // more than the bytes can be
	} {
		key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
		p.Behave(fake.Behaviour{Usage: &row.usage})
		c := embeds(`{"model":"` + row.model + `",` + batch + `}`)
		c.Key = key
		got := g.Do(t, c)
		if got.Status != http.StatusOK {
			t.Fatalf("%+v: %d %s", row, got.Status, got.Body)
		}
		b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
		if paid := 1_000_000 - balanceOf(t, g, key); paid != row.cost || b.InputTokens != row.bill.InputTokens || b.OutputTokens != 0 ||
			b.UsageEstimated != row.bill.UsageEstimated || b.Status != "ok" || b.Provider != "openai" || b.Model != row.model || !b.PriceKnown {
			t.Errorf("%+v: paid %d, record %+v", row, paid, b)
		}
		if h := got.Header.Get("X-Bardo-Cost"); h != fmt.Sprintf("0.%06d", row.cost) {
			t.Errorf("%+v: the cost is %q", row, h)
		}
	}
	if n := g.Metrics(t).Sum("gen_ai_client_token_usage_sum", `gen_ai_operation_name="embeddings"`, `gen_ai_token_type="input"`); n < 100_000 {
		t.Errorf("%g tokens of embeddings are counted", n)
	}
	g.AssertSound(t)
}

// TestEmbeddingsReserveTheirWorstCase (D-84): a token for two bytes of text, and one for each number of a list of
// tokens, also beyond the window of the model, which is each text's own.
func TestEmbeddingsReserveTheirWorstCase(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 100, output: 0}", More: "capabilities: [embeddings], context: 512"}}},
	}})
	numbers := strings.TrimSuffix(strings.Repeat("100257,", 8_000), ",")
	for name, row := range map[string]struct {
		input string
		want  int
	}{
		"a word for less than half its bytes": {`"` + strings.Repeat("a", 16_000) + `"`, http.StatusOK},
		"a longer one":                        {`"` + strings.Repeat("a", 22_000) + `"`, http.StatusPaymentRequired},
		"tokens":                              {"[" + numbers + "]", http.StatusOK},
		"more of them":                        {"[" + numbers + ",7" + strings.Repeat(",100257", 2_500) + "]", http.StatusPaymentRequired},
		"many lists of one":                   {"[[7]" + strings.Repeat(",[7]", 4_000) + "]", http.StatusPaymentRequired},
	} {
		p.Forget()
		c := embeds(`{"model":"m","input":` + row.input + `}`)
		c.Key = g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key // ten thousand tokens
		got := g.Do(t, c)
		if got.Status != row.want || (len(p.Generations()) == 0) != (row.want != http.StatusOK) {
			t.Errorf("%s: %d %.200s", name, got.Status, got.Body)
		}
	}
}

// TestEmbeddingsFailOver: to another provider that lists the same model, and to no other model.
func TestEmbeddingsFailOver(t *testing.T) {
	t.Parallel()
	a, b := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "a"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "b"})
	own := func(id, price string) []gateway.Model {
		return []gateway.Model{{ID: id, Price: "{input: " + price + ", output: 0}", More: "capabilities: [embeddings]"}}
	}
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "a", Fake: a, Models: own("bge", "1")}, {ID: "b", Fake: b, Models: append(own("bge", "2"), own("e5", "1")...)},
	}})
	for _, status := range []int{401, 429, 500, 503} {
		a.Behave(fake.Behaviour{Status: status})
		got := g.Do(t, embeds(`{"model":"bge","input":"x","dimensions":2}`))
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "b" {
			t.Errorf("%d: %d by %s: %s", status, got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
		}
	}
	b.Behave(fake.Behaviour{Status: 400, Message: "'dimensions' is not supported by this model.", ErrorCode: "unsupported"})
	got := g.Do(t, embeds(`{"model":"e5","input":"x","dimensions":2}`))
	mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusBadRequest, "unsupported")
	if !strings.Contains(got.Body, "'dimensions' is not supported") {
		t.Errorf("the provider's words are lost: %s", got.Body)
	}
	b.Behave(fake.Behaviour{Status: 500})
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, embeds(`{"model":"e5","input":"x"}`)), http.StatusBadGateway, "upstream_error")
	g.AssertSound(t)
}

// TestEmbeddingsThatNobodyMakes: what is refused, in OpenAI's format, before any provider is asked.
func TestEmbeddingsThatNobodyMakes(t *testing.T) {
	t.Parallel()
	o, n := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "openai", Fake: o},
		{ID: "anthropic", Fake: n},
		{ID: "mine", Fake: n, Format: "anthropic", Models: []gateway.Model{{ID: "vec", Price: "{input: 1, output: 1}", More: "capabilities: [embeddings]"}}},
	}})
	for _, row := range []struct {
		path, body, code, says string
		status                 int
	}{
		{"/v1/embeddings", `{"model":"text-embedding-9","input":"x"}`, "model_not_found", "text-embedding-9", 404},
		{"/v1/embeddings", `{"model":"gpt-4o","input":"x"}`, "invalid_request", "makes no embeddings: GET /v1/models shows which have the capability embeddings", 400},
		{"/v1/embeddings", `{"model":"claude-sonnet-4-5","input":"x"}`, "invalid_request", "makes no embeddings", 400},
		{"/v1/embeddings", `{"model":"vec","input":"x"}`, "invalid_request", "makes no embeddings", 400},
		{"/v1/embeddings", `{"model":"auto","input":"x"}`, "invalid_request", "a model that the request names", 400},
		{"/v1/embeddings", `{"input":"x"}`, "invalid_request", "model is required", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small"}`, "invalid_request", "input is required", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":[]}`, "invalid_request", "input must not be empty", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":""}`, "invalid_request", "input must not be empty", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":7}`, "invalid_request", "input must be a string or an array", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","input":"x","input":"y"}`, "invalid_request", "given twice", 400},
		{"/v1/embeddings", `{"model":"text-embedding-3-small","Model":"gpt-4o","input":"y"}`, "invalid_request", "Model", 400},
		{"/v1/embeddings", `{"model":`, "invalid_request", "not valid JSON", 400},
		{"/v1/chat/completions", `{"model":"text-embedding-3-small","messages":[{"role":"user","content":"x"}]}`, "invalid_request", "/v1/embeddings", 400},
	} {
		got := g.Do(t, gateway.Call{Path: row.path, Body: row.body})
		mustFail(t, ask{dialect: fake.OpenAI}, got, row.status, row.code)
		if !strings.Contains(got.Body, row.says) {
			t.Errorf("%s: %s, want %q", row.body, got.Body, row.says)
		}
	}
	c := embeds(`{"model":"text-embedding-3-small","input":"x"}`)
	c.NoKey = true
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, c), http.StatusUnauthorized, "invalid_api_key")
	if len(o.Generations())+len(n.Generations()) != 0 {
		t.Error("a provider was asked")
	}
	auto := g.Do(t, ask{dialect: fake.OpenAI, model: "auto"}.call())
	if strings.Contains(auto.Header.Get("X-Bardo-Model"), "embedding") {
		t.Errorf("a conversation went to %s", auto.Header.Get("X-Bardo-Model"))
	}
	g.AssertSound(t)
}

// TestEmbeddingsAreHeldToTheLimitsOfTheirKey: the rate, and what it may spend in a day.
func TestEmbeddingsAreHeldToTheLimitsOfTheirKey(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 2}", Providers: []gateway.Provider{{ID: "openai", Fake: p}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	c := embeds(`{"model":"text-embedding-3-small","input":"x","dimensions":2}`)
	c.Key = key
	for i, want := range []int{200, 200, 429} {
		if got := g.Do(t, c); got.Status != want {
			t.Errorf("request %d: %d %s", i, got.Status, got.Body)
		}
	}
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 20_000}})
	c = embeds(`{"model":"text-embedding-3-small","input":"` + strings.Repeat("word ", 8_000) + `","dimensions":2}`)
	c.Key = g.CreateKey(t, "--name", "day", "--limit-usd-day", "0.0006").Key // for one of two, each of $0.0004 with a spread
	if got := g.Do(t, c); got.Status != http.StatusOK {
		t.Errorf("within the day's limit: %d %s", got.Status, got.Body)
	}
	mustFail(t, ask{dialect: fake.OpenAI}, g.Do(t, c), http.StatusTooManyRequests, "budget_exceeded")
}

// TestD87EmbeddingsAndPromptsAskForNothingUnpriced: what costs more than tokens is refused at these endpoints as at the others, in any spelling,
// and by a user's own key it passes.
func TestD87EmbeddingsAndPromptsAskForNothingUnpriced(t *testing.T) {
	t.Parallel()
	l := runPricedLab(t, "")
	for _, row := range []struct{ path, body, param string }{
		{"/v1/completions", `"model":"openrouter/openai/gpt-5","prompt":"x","models":["openai/gpt-5-pro"]`, "models"},
		{"/v1/completions", `"model":"openrouter/openai/gpt-5","prompt":"x","plugins":[{"id":"web"}]`, "plugins"},
		{"/v1/completions", `"model":"mine/plain","prompt":"x","service_tier":"priority"`, "service_tier"},
		{"/v1/completions", `"model":"mine/plain","prompt":"x","background":true`, "background"},
		{"/v1/embeddings", `"model":"openrouter/qwen/vectors","input":"x","models":["dear"]`, "models"},
		{"/v1/embeddings", `"model":"openrouter/qwen/vectors","input":"x","plugins":[{"id":"web"}]`, "plugins"},
		{"/v1/embeddings", `"model":"openrouter/qwen/vectors","input":"x","Plugins":[{"id":"web"}]`, "Plugins"},
		{"/v1/embeddings", `"model":"openai/text-embedding-3-small","input":"x","service_tier":"scale"`, "service_tier"},
	} {
		got := l.Do(t, gateway.Call{Path: row.path, Body: "{" + row.body + "}", Key: l.rich})
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, `"param":"`+row.param+`"`) || l.asked() != 0 {
			t.Errorf("%s: %d %s; the providers were asked %d times", row.body, got.Status, got.Body, l.asked())
		}
	}
	got := l.Do(t, gateway.Call{Path: "/v1/embeddings", Body: `{"model":"direct/openai/text-embedding-3-small","input":"x","background":true}`, Key: l.rich})
	if sent, _ := l.at["openai"].Last(); got.Status != http.StatusOK || !strings.Contains(string(sent.Body), `"background":true`) {
		t.Errorf("by a user's own key: %d %s", got.Status, got.Body)
	}
}

// TestEmbeddingsWithAUsersOwnKey: pass to their vendor and cost nothing here.
func TestEmbeddingsWithAUsersOwnKey(t *testing.T) {
	t.Parallel()
	o := runOwnVendors(t, quick)
	poor := o.CreateKey(t, "--name", "poor", "--balance-usd", "0.000001")
	c := embeds(`{"model":"direct/openai/text-embedding-3-large","input":["` + strings.Repeat("word ", 1000) + `"],"dimensions":2}`)
	c.Key = poor.Key
	got := o.Do(t, c)
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Cost") != "direct" || got.Header.Get("X-Bardo-Provider") != "direct/openai" {
		t.Fatalf("%d %v %s", got.Status, got.Header, got.Body)
	}
	if sent, ok := o.ownOpenAI.Last(); !ok || sent.Model != "text-embedding-3-large" || sent.Key() != o.ownOpenAI.Key {
		t.Errorf("the vendor got %s", sent.Body)
	}
	if b := billOf(t, o.Gateway, poor.Key, got.Header.Get("X-Request-Id")); b.Cost != "0.000000" || b.InputTokens == 0 {
		t.Errorf("record %+v", b)
	}
}
