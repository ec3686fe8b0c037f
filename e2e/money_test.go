package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// bill is the part of a request's record that is about money. Amounts are compared as they are written.
type bill struct {
	RequestID        string `json:"request_id"`
	Status           string
	Path             string
	Provider         string
	Model            string
	Attempts         int
	InputTokens      int         `json:"input_tokens"`
	CachedTokens     int         `json:"cached_tokens"`
	CacheWriteTokens int         `json:"cache_write_tokens"`
	OutputTokens     int         `json:"output_tokens"`
	ReasoningTokens  int         `json:"reasoning_tokens"`
	UsageEstimated   bool        `json:"usage_estimated"`
	PriceKnown       bool        `json:"price_known"`
	ProviderCost     json.Number `json:"provider_cost_usd"`
	Cost             json.Number `json:"cost_usd"`
	SpreadPct        int         `json:"spread_pct"`
	HTTPStatus       int         `json:"http_status"`
	Subsystem        string
	Pipeline         string `json:"pipeline"`
}

// billOf reads a request's record with the key that made it.
func billOf(t testing.TB, g *gateway.Gateway, key, id string) (b bill) {
	t.Helper()
	if id == "" {
		t.Fatal("the answer has no request id")
	}
	get(t, g, key, "/v1/requests/"+id, &b)
	return b
}

// get reads one of the gateway's own endpoints.
func get(t testing.TB, g *gateway.Gateway, key, path string, into any) {
	t.Helper()
	got := g.Do(t, gateway.Call{Path: path, Key: key})
	if got.Status != http.StatusOK {
		t.Fatalf("%s: %d %s", path, got.Status, got.Body)
	}
	got.JSON(t, into)
}

// funds are a key's money: GET /v1/balance.
type funds struct {
	Balance         *json.Number `json:"balance_usd"`
	Held            json.Number  `json:"held_usd"`
	Tier            string
	RemainingTokens *int64 `json:"remaining_tokens"`
}

func fundsOf(t testing.TB, g *gateway.Gateway, key string) (f funds) {
	t.Helper()
	get(t, g, key, "/v1/balance", &f)
	return f
}

// micro is an amount with six decimals, as the gateway writes them, in millionths.
func micro(t testing.TB, s json.Number) int64 {
	t.Helper()
	whole, frac, ok := strings.Cut(string(s), ".")
	var n int64
	if _, err := fmt.Sscanf(whole+frac, "%d", &n); err != nil || !ok || len(frac) != 6 {
		t.Fatalf("%q is not an amount with six decimals", s)
	}
	return n
}

// balanceOf is a prepaid key's balance in millionths. Nothing may be held: no request is under way.
func balanceOf(t testing.TB, g *gateway.Gateway, key string) int64 {
	t.Helper()
	f := fundsOf(t, g, key)
	if f.Balance == nil || f.Held != "0.000000" {
		t.Fatalf("key has %+v, want a balance and nothing held", f)
	}
	return micro(t, *f.Balance)
}

// lastComment is the summary at the end of a stream, which stands right before the terminator.
type lastComment struct {
	RequestID        string       `json:"request_id"`
	Provider         string       `json:"provider"`
	Model            string       `json:"model"`
	Attempts         int          `json:"attempts"`
	InputTokens      int          `json:"input_tokens"`
	CachedTokens     int          `json:"cached_tokens"`
	CacheWriteTokens int          `json:"cache_write_tokens"`
	OutputTokens     int          `json:"output_tokens"`
	ReasoningTokens  int          `json:"reasoning_tokens"`
	Cost             json.Number  `json:"cost_usd"`
	Savings          json.Number  `json:"savings_usd"`
	Similarity       float64      `json:"similarity"`
	Balance          *json.Number `json:"balance_usd"`
	RemainingTokens  *int64       `json:"remaining_tokens"`
	Cache            string       `json:"cache"`
	Schema           string       `json:"schema"`
	Degraded         string       `json:"degraded"`
}

func summaryOf(t testing.TB, got gateway.Answer) (c lastComment) {
	t.Helper()
	evs := got.Events(t)
	if len(evs) < 2 {
		t.Fatalf("no stream: %s", got.Body)
	}
	text, ok := strings.CutPrefix(evs[len(evs)-2].Comment, "bardo ")
	if !ok {
		t.Fatalf("no summary before the terminator in %s", got.Body)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		t.Fatalf("summary %q: %v", text, err)
	}
	return c
}

type costCase struct {
	name, model               string
	usage                     fake.Usage
	input, cached, write, out int    // as the client is told
	cost, charge              string // the provider's, exact, and the key's
}

var costCases = []costCase{
	{"K-32", "claude-opus-4-5", fake.Usage{Input: 6, CacheWrite5m: 159_217, Output: 2_745}, 159_223, 0, 159_217, 2_745, "1.06376125", "1.276514"},
	{"K-33 a cache write", "claude-sonnet-4-5", fake.Usage{Input: 3, CacheWrite5m: 12_304, Output: 550}, 12_307, 0, 12_304, 550, "0.054399", "0.065279"},
	{"K-33 a cache read", "gemini-of-2025", fake.Usage{Input: 5_005, Cached: 257_955, Output: 1_744}, 262_960, 257_955, 0, 1_744, "0.184918125", "0.221902"},
	{"K-29 usage only in message_delta", "claude-haiku-4-5", fake.Usage{Input: 4_522, CacheWrite5m: 4_511, Output: 5, OnlyAtEnd: true}, 9_033, 0, 4_511, 5, "0.01018575", "0.012223"},
	{"reasoning is a part of the output", "gpt-4o", fake.Usage{Input: 10, Output: 700, Reasoning: 600}, 10, 0, 0, 700, "0.007025", "0.00843"},
}

// TestCostsK29K32K33 charges what the providers' consoles showed, in every form that an answer can have, and with 20 percent
// on top, rounded up once.
func TestCostsK29K32K33(t *testing.T) {
	t.Parallel()
	n := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	o := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	known := func(ids ...string) (ms []gateway.Model) {
		for _, id := range ids {
			ms = append(ms, gateway.Model{ID: id})
		}
		return ms
	}
	// The Sonnet has two candidates, so that its streams take the other path.
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "nn", Fake: n, Format: "anthropic", Models: known("claude-opus-4-5", "claude-sonnet-4-5", "claude-haiku-4-5")},
		{ID: "more", Fake: n, Format: "anthropic", Models: known("claude-sonnet-4-5")},
		{ID: "oo", Fake: o, Models: append(known("gpt-4o"), gateway.Model{ID: "gemini-of-2025", Price: "{input: 1.25, output: 10, cached_input: 0.625}"})},
	}})
	rich := g.CreateKey(t, "--name", "rich", "--balance-usd", "100").Key
	for _, r := range costCases {
		n.BehaveFor(r.model, fake.Behaviour{Usage: &r.usage})
		o.BehaveFor(r.model, fake.Behaviour{Usage: &r.usage})
		for _, client := range []fake.Dialect{fake.OpenAI, fake.Anthropic} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", r.name, client, stream), func(t *testing.T) {
					r.check(t, g, rich, ask{dialect: client, model: r.model, stream: stream})
				})
			}
		}
	}
	g.AssertSound(t)
}

// check sends a request with a key, and compares record, balance, and headers or summary with the row.
func (r *costCase) check(t *testing.T, g *gateway.Gateway, key string, a ask) {
	t.Helper()
	before := balanceOf(t, g, key)
	c := a.call()
	c.Key = key
	got := g.Do(t, c)
	if got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	after := balanceOf(t, g, key)
	b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
	want := bill{
		RequestID: got.Header.Get("X-Request-Id"), Status: "ok", Path: b.Path, Provider: got.Header.Get("X-Bardo-Provider"), Model: r.model,
		Attempts: 1, InputTokens: r.input, CachedTokens: r.cached, CacheWriteTokens: r.write, OutputTokens: r.out,
		ReasoningTokens: b.ReasoningTokens, PriceKnown: true, ProviderCost: json.Number(r.cost), Cost: json.Number(padded(r.charge)), SpreadPct: 20, HTTPStatus: 200,
	}
	if b != want {
		t.Errorf("record\n%+v, want\n%+v", b, want)
	}
	if (b.Path == "driven") != a.stream {
		t.Errorf("served by the %s path", b.Path)
	}
	if charge := micro(t, json.Number(padded(r.charge))); before-after != charge {
		t.Errorf("the balance went down by %d, want %d", before-after, charge)
	}
	if got.Header.Get("X-Bardo-Spread") != "20" {
		t.Errorf("spread %q", got.Header.Get("X-Bardo-Spread"))
	}
	left := fmt.Sprintf("%d.%06d", after/1e6, after%1e6)
	if a.stream {
		checkSummary(t, summaryOf(t, got), &b, left, got.Header.Get("X-Bardo-Degraded"))
		return
	}
	if h := got.Header; h.Get("X-Bardo-Cost") != padded(r.charge) || h.Get("X-Bardo-Balance") != left || h.Get("X-Bardo-Balance-Warning") != "" {
		t.Errorf("headers %v, want cost %s and balance %s", h, r.charge, left)
	}
}

// checkSummary compares the summary at the end of a stream with the request's record.
func checkSummary(t *testing.T, s lastComment, b *bill, left, degraded string) {
	t.Helper()
	if s.Balance == nil || string(*s.Balance) != left {
		t.Errorf("summary's balance %v, want %s", s.Balance, left)
	}
	s.Balance = nil
	if want := (lastComment{
		RequestID: b.RequestID, Provider: b.Provider, Model: b.Model, Attempts: 1, InputTokens: b.InputTokens, CachedTokens: b.CachedTokens,
		CacheWriteTokens: b.CacheWriteTokens, OutputTokens: b.OutputTokens, ReasoningTokens: b.ReasoningTokens, Cost: b.Cost, Savings: "0.000000", Cache: "miss",
		Degraded: degraded,
	}); s != want {
		t.Errorf("summary\n%+v, want\n%+v", s, want)
	}
}

// padded gives an amount its six decimals.
func padded(s string) string {
	_, frac, _ := strings.Cut(s, ".")
	return s + strings.Repeat("0", 6-len(frac))
}

// TestTrailersTellTheCost: a client that asked for trailers learns from them what its stream cost.
func TestTrailersTellTheCost(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "one", Fake: p, Models: models("m", "")}, {ID: "two", Fake: p, Models: models("m", "")}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "0.5").Key
	c := ask{dialect: fake.OpenAI, model: "m", stream: true}.call("te: trailers")
	c.Key = key
	got := g.Do(t, c)
	s := summaryOf(t, got)
	if got.Trailer.Get("X-Bardo-Cost") != string(s.Cost) || got.Trailer.Get("X-Bardo-Balance") != string(*s.Balance) || got.Trailer.Get("X-Bardo-Balance-Warning") == "" {
		t.Errorf("trailers %v, summary %+v", got.Trailer, s)
	}
}

// TestK28HiddenUsage: usage that the client did not ask for is asked for, billed, and not shown.
func TestK28HiddenUsage(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1_000, Cached: 24, Output: 77}})
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "one", Fake: p, Models: append(models("alone", ""), models("backed", "")...)},
		{ID: "two", Fake: p, Models: models("backed", "")},
	}}
	g := gateway.Run(t, o)
	for _, model := range []string{"alone", "backed"} {
		for more, shown := range map[string]bool{"": false, `"stream_options":{"include_usage":false}`: false, `"stream_options":{"include_usage":true}`: true} {
			t.Run(fmt.Sprintf("%s/%s", model, more), func(t *testing.T) {
				a := ask{dialect: fake.OpenAI, model: model, stream: true, more: more}
				got := g.Do(t, a.call())
				if s := text(t, a, got); s != "Hello from the fake provider." {
					t.Errorf("says %q", s)
				}
				if r := lastOf(t, p); !strings.Contains(string(r.Body), `"include_usage":true`) {
					t.Errorf("the provider was not asked: %s", r.Body)
				}
				s := summaryOf(t, got)
				if s.InputTokens != 1_024 || s.CachedTokens != 24 || s.OutputTokens != 77 {
					t.Errorf("summary %+v", s)
				}
				seen := false
				for _, ev := range got.Events(t) {
					var c struct {
						Choices []any
						Usage   *struct {
							Completion int `json:"completion_tokens"`
						}
					}
					if ev.Comment != "" || ev.Data == "[DONE]" {
						continue
					}
					if err := json.Unmarshal([]byte(ev.Data), &c); err != nil {
						t.Fatal(err)
					}
					if len(c.Choices) == 0 && !shown {
						t.Errorf("a chunk that was not asked for: %s", ev.Data)
					}
					seen = seen || (c.Usage != nil && c.Usage.Completion == 77)
				}
				if seen != shown {
					t.Errorf("usage shown: %v, want %v: %s", seen, shown, got.Body)
				}
			})
		}
	}
}

// TestFailedRequestsCostNothing: an error is free, whoever made it, and holds nothing.
func TestFailedRequestsCostNothing(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "one", Fake: p, Format: "anthropic", Models: append(models("alone", ""), models("backed", "")...)},
		{ID: "two", Fake: p, Format: "anthropic", Models: models("backed", "")},
	}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, f := range []struct {
		name string
		b    fake.Behaviour
	}{
		{name: "500", b: fake.Behaviour{Status: 500}},
		{name: "400", b: fake.Behaviour{Status: 400}},
		{name: "401", b: fake.Behaviour{Status: 401}},
		{name: "429", b: fake.Behaviour{Status: 429, RetryAfter: "1"}},
		{name: "reset", b: fake.Behaviour{Break: fake.Break{Kind: fake.Reset}}},
		{name: "cut before the content", b: fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.AfterHeaders}}},
	} {
		for _, model := range []string{"alone", "backed"} {
			for _, stream := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/stream=%v", f.name, model, stream), func(t *testing.T) {
					p.Behave(f.b)
					c := ask{dialect: fake.Anthropic, model: model, stream: stream}.call()
					c.Key = key
					got := g.Do(t, c)
					if got.Status < 400 {
						t.Fatalf("%d %v %s", got.Status, got.Header, got.Body)
					}
					if n := balanceOf(t, g, key); n != 1_000_000 {
						t.Errorf("%d are left", n)
					}
					b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
					if b.Status != "failed" || b.Cost != "0.000000" || b.ProviderCost != "0" || b.HTTPStatus != got.Status || b.OutputTokens != 0 {
						t.Errorf("answered %d, record %+v", got.Status, b)
					}
				})
			}
		}
	}
	g.AssertSound(t)
}

// TestFailoverIsBilledOnce, to the provider that answered, at its price.
func TestFailoverIsBilledOnce(t *testing.T) {
	t.Parallel()
	first, second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}), fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
	first.Behave(fake.Behaviour{Status: 503})
	second.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 100, Output: 10}})
	g := gateway.Run(t, gateway.Options{Config: inOrder, Providers: []gateway.Provider{
		{ID: "dear", Fake: first, Models: []gateway.Model{{ID: "m", Price: "{input: 100, output: 200}"}}},
		{ID: "cheap", Fake: second, Format: "anthropic", Models: []gateway.Model{{ID: "m", Price: "{input: 3, output: 15}"}}},
	}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "10")
	const charge = 540 // (100 x 3 + 10 x 15) x 1.2 millionths
	for i, stream := range []bool{false, true} {
		c := ask{dialect: fake.OpenAI, model: "m", stream: stream}.call()
		c.Key = key.Key
		got := g.Do(t, c)
		b := billOf(t, g, key.Key, got.Header.Get("X-Request-Id"))
		if got.Status != http.StatusOK || b.Provider != "cheap" || b.Attempts != 2 || b.Cost != "0.000540" || b.ProviderCost != "0.00045" {
			t.Errorf("stream=%v: %d, record %+v", stream, got.Status, b)
		}
		if n := balanceOf(t, g, key.Key); n != 10_000_000-int64(i+1)*charge {
			t.Errorf("stream=%v: %d are left", stream, n)
		}
	}
	var use struct {
		Data []struct {
			Name     string
			Requests int
			Cost     json.Number `json:"cost_usd"`
		}
	}
	get(t, g, key.Key, "/v1/usage?by=provider", &use)
	if len(use.Data) != 1 || use.Data[0].Name != "cheap" || use.Data[0].Requests != 2 || use.Data[0].Cost != "0.001080" {
		t.Errorf("usage %+v", use)
	}
	g.AssertSound(t)
}

// TestK34WhatWasDeliveredIsBilled: a client that leaves pays for what it got and no more, and nothing stays held.
func TestK34WhatWasDeliveredIsBilled(t *testing.T) {
	t.Parallel()
	hang := fake.Behaviour{Tokens: 40, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 3}}
	o := gateway.Options{Config: "limits: {rpm: 0}\n"}
	dialects := []fake.Dialect{fake.OpenAI, fake.Anthropic}
	var fakes []*fake.Server
	for _, d := range dialects {
		p := fake.Start(t, fake.Config{Dialect: d})
		p.Behave(hang)
		fakes = append(fakes, p)
		alone, backed := models("alone-"+string(d), ""), models("backed-"+string(d), "")
		o.Providers = append(o.Providers, gateway.Provider{ID: "one-" + string(d), Fake: p, Format: string(d), Models: append(alone, backed...)},
			gateway.Provider{ID: "two-" + string(d), Fake: p, Format: string(d), Models: backed})
	}
	g := gateway.Run(t, o)
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	for i, d := range dialects {
		p := fakes[i]
		for _, path := range []string{"alone", "backed"} {
			t.Run(path+" "+string(d), func(t *testing.T) {
				before := balanceOf(t, g, key)
				p.Forget()
				id := leaveInTheMiddle(t, g, key, ask{dialect: d, model: path + "-" + string(d), stream: true})
				if _, err := p.WaitCancelled(soon(t), 1); err != nil {
					t.Fatal(err)
				}
				b := billOf(t, g, key, id)
				if b.Status != "cancelled" || b.Path != "driven" || b.InputTokens < 1 || b.OutputTokens < 3 || b.OutputTokens > 10 {
					t.Errorf("record %+v", b)
				}
				eventually(t, "the end of its hold", func() bool { return fundsOf(t, g, key).Held == "0.000000" })
				if paid := before - balanceOf(t, g, key); paid != micro(t, b.Cost) || paid == 0 {
					t.Errorf("paid %d, record %+v", paid, b)
				}
			})
		}
	}
	g.AssertSound(t)
}

// leaveInTheMiddle begins a stream, sees its held money, and goes away after the first content. It returns the request's id.
func leaveInTheMiddle(t *testing.T, g *gateway.Gateway, key string, a ask) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := a.call()
	c.Key = key
	res, err := g.Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	r := gateway.NewReader(res.Body)
	for seen := ""; !strings.Contains(seen, "tok2"); {
		ev, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		seen += ev.Data
	}
	if f := fundsOf(t, g, key); micro(t, f.Held) == 0 {
		t.Errorf("nothing is held while a request is under way: %+v", f)
	}
	return res.Header.Get("X-Request-Id")
}

// TestACutStreamIsBilledForWhatItBrought: the provider broke off after content, and the client has it.
func TestACutStreamIsBilledForWhatItBrought(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Tokens: 40, Break: fake.Break{Kind: fake.Reset, At: fake.AfterTokens, Tokens: 3}})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "one", Fake: p, Models: models("m", "")}, {ID: "two", Fake: p, Models: models("m", "")}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	c := ask{dialect: fake.OpenAI, model: "m", stream: true}.call()
	c.Key = key
	got := g.Do(t, c)
	b := billOf(t, g, key, got.Header.Get("X-Request-Id"))
	if b.Status != "cut" || !b.UsageEstimated || b.OutputTokens < 3 || b.OutputTokens > 10 || b.Cost == "0.000000" {
		t.Errorf("record %+v", b)
	}
	if n := balanceOf(t, g, key); n != 10_000_000-micro(t, b.Cost) {
		t.Errorf("%d are left after %s", n, b.Cost)
	}
	g.AssertSound(t)
}

// inputOf is how many input tokens a key has used.
func inputOf(t testing.TB, g *gateway.Gateway, key string) (n int64) {
	t.Helper()
	var use struct{ Data []used }
	get(t, g, key, "/v1/usage", &use)
	for _, u := range use.Data {
		n += int64(u.Input)
	}
	return n
}

// TestD81AClientThatDisconnectsBeforeTheAnswerPaysForItsInput: its provider has it, and may have read it all. The provider's connection is
// closed as well, and what was reserved beyond the charge is free again.
func TestD81AClientThatDisconnectsBeforeTheAnswerPaysForItsInput(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Break: fake.Break{Kind: fake.Hang}})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0}\n", Providers: []gateway.Provider{
		{ID: "one", Fake: p, Models: append(models("alone", ""), models("backed", "")...)}, {ID: "two", Fake: p, Models: models("backed", "")},
	}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	for _, model := range []string{"alone", "backed"} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream=%v", model, stream), func(t *testing.T) {
				p.Forget()
				before, tokens := balanceOf(t, g, key), inputOf(t, g, key)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					res, err := g.Open(ctx, ask{dialect: fake.OpenAI, model: model, stream: stream}.with(key))
					if err == nil {
						err = res.Body.Close()
					}
					ended <- err
				}()
				if _, err := p.WaitGenerations(soon(t), 1); err != nil {
					t.Fatal(err)
				}
				if f := fundsOf(t, g, key); f.Held == "0.000000" {
					t.Error("nothing is held while a request is under way")
				}
				cancel()
				if err := <-ended; err == nil {
					t.Error("there was an answer")
				}
				if _, err := p.WaitCancelled(soon(t), 1); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the end of its hold", func() bool { return fundsOf(t, g, key).Held == "0.000000" })
				paid, input := before-balanceOf(t, g, key), inputOf(t, g, key)-tokens
				if want := (input*12 + 9) / 10; input == 0 || paid != want || len(p.Generations()) != 1 { // $1 per million, and 20 percent
					t.Errorf("%d were taken for %d tokens of input, want %d; %d calls", paid, input, want, len(p.Generations()))
				}
			})
		}
	}
	var use struct{ Data []used }
	eventually(t, "the records", func() bool {
		get(t, g, key, "/v1/usage", &use)
		n := 0
		for _, u := range use.Data {
			n += u.Requests
		}
		return n == 4
	})
	g.AssertSound(t)
}
