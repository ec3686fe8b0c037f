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

// layerSaving is what one layer saved, in a record.
type layerSaving struct {
	Layer  string
	Tokens int64
	USD    json.Number
}

// savingsRecord is what a record says of savings.
type savingsRecord struct {
	ID      string        `json:"request_id"`
	Savings json.Number   `json:"savings_usd"`
	ByLayer []layerSaving `json:"savings"`
	Task    string
	Regime  string
	Status  string
}

func savingsOf(t *testing.T, g *gateway.Gateway, key string, got gateway.Answer) (r savingsRecord) {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%d %v %s", got.Status, got.Err, got.Body)
	}
	get(t, g, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
	return r
}

// of is a layer's part of a record.
func (r savingsRecord) of(layer string) layerSaving {
	for _, s := range r.ByLayer {
		if s.Layer == layer {
			return s
		}
	}
	return layerSaving{}
}

// savedMicro is a number of dollars in millionths, which may be below zero.
func savedMicro(t *testing.T, n json.Number) int64 {
	t.Helper()
	amount, negative := strings.CutPrefix(string(n), "-")
	m := micro(t, json.Number(amount))
	if negative {
		m = -m
	}
	return m
}

// exact is so many tokens at a price in dollars per billion, with the spread of 20 percent that the tests' gateways have, rounded down to millionths.
func exact(perBillion int64) int64 {
	n := perBillion * 12 / 10
	if n%1000 < 0 {
		return n/1000 - 1
	}
	return n / 1000
}

const cachePrices = "{input: 3, output: 15, cached_input: 0.3, cache_write: 3.75}"

// TestSavingsOfMarksAreWhatTheCacheReportsLessThePremium: the first request loses the premium, those after it save; a client's own marks are its own.
func TestSavingsOfMarksAreWhatTheCacheReportsLessThePremium(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "a", MinCache: 1024})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "a", Format: "anthropic", Fake: p, Models: []gateway.Model{
		{ID: "claude", Price: cachePrices, More: "family: claude, min_cache: 1024, capabilities: [structured_outputs, tools]"},
	}}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	send := func(i int, system, header string) (cacheUse, gateway.Answer) {
		h := []string{"anthropic-version: 2023-06-01", "X-Bardo-Golem-Id: g"}
		if header != "" {
			h = append(h, header)
		}
		return askCached(t, g, gateway.Call{
			Path: "/v1/messages", Key: key, Header: h,
			Body: fmt.Sprintf(`{"model":"claude","max_tokens":100,"system":%s,"messages":[{"role":"user","content":"Check %d."}]}`, system, i),
		})
	}
	var sum int64
	for i := range 3 {
		use, a := send(i, fmt.Sprintf("%q", strategy), "X-Bardo-Subsystem: risk")
		r := savingsOf(t, g, key, a)
		want := exact(int64(use.read)*2700 - int64(use.written)*750)
		if got := savedMicro(t, r.of("l1").USD); got != want || r.of("l1").Tokens != 0 || (i == 0) != (want < 0) {
			t.Errorf("request %d, %+v: l1 saved %d, want %d", i, use, got, want)
		}
		if a.Header.Get("X-Bardo-Savings") != string(r.Savings) || savedMicro(t, r.Savings) != want {
			t.Errorf("request %d: the header says %q, the record %q", i, a.Header.Get("X-Bardo-Savings"), r.Savings)
		}
		sum += want
	}
	own := fmt.Sprintf(`[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}]`, "Own. "+strategy)
	for i := range 2 {
		_, a := send(i, own, "")
		if r := savingsOf(t, g, key, a); len(r.ByLayer) != 0 || a.Header.Get("X-Bardo-Savings") != "" {
			t.Errorf("with the client's own marks: %+v", r)
		}
	}
	checkSums(t, g, key, map[string]int64{"l1": sum})
}

// checkSums compares the sums by layer on the command line, over HTTP and in the metrics with what records said.
func checkSums(t *testing.T, g *gateway.Gateway, key string, want map[string]int64) {
	t.Helper()
	type row struct {
		Name     string
		Requests int
		Tokens   int64       `json:"saved_tokens"`
		USD      json.Number `json:"saved_usd"`
	}
	var total int64
	for _, n := range want {
		total += n
	}
	check := func(where string, rows []row) {
		t.Helper()
		if len(rows) != len(want) {
			t.Errorf("%s: %+v, want %v", where, rows, want)
		}
		for _, r := range rows {
			if savedMicro(t, r.USD) != want[r.Name] || r.Requests == 0 {
				t.Errorf("%s: %+v, want %v", where, r, want)
			}
		}
	}
	var reply struct {
		By   string
		Data []row
	}
	get(t, g, key, "/v1/usage?by=layer", &reply)
	check("over HTTP", reply.Data)
	var rows []row
	if err := json.Unmarshal([]byte(g.Bardo(t, "usage", "--by", "layer", "--format", "json")), &rows); err != nil {
		t.Fatal(err)
	}
	check("on the command line", rows)
	var models struct {
		Data []struct {
			Saved json.Number `json:"saved_usd"`
		}
	}
	get(t, g, key, "/v1/usage", &models)
	var sum int64
	for _, m := range models.Data {
		sum += savedMicro(t, m.Saved)
	}
	if sum != total {
		t.Errorf("by model %d was saved, by layer %d", sum, total)
	}
	m := g.Metrics(t)
	for layer, n := range want {
		label := fmt.Sprintf("layer=%q", layer)
		if got := m.Sum("bardo_layer_saved_micro_usd_total", label) - m.Sum("bardo_layer_lost_micro_usd_total", label); int64(got) != n {
			t.Errorf("metrics of %s: %v, want %d", layer, got, n)
		}
	}
}

// TestSavingsCountWhatHappened: what layers leave out of a request is worth the price that the provider's reported cache use gives it, in tokens that it
// counted; a failed request and a stale answer save nothing, and a stored answer saves what it cost.
func TestSavingsCountWhatHappened(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: []gateway.Model{
		{ID: "m", Price: cachePrices, More: "min_cache: 1024"},
	}}}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	want := map[string]int64{}
	tools := toolList()
	n := 0
	tick := func(u *fake.Usage, stream bool) (savingsRecord, gateway.Answer) {
		t.Helper()
		n++
		p.Behave(fake.Behaviour{Usage: u})
		a := g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Key: key, Header: []string{"X-Bardo-Tick-Type: risk_check", "X-Bardo-Regime: bull"},
			Body: fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"tick %d"}],"tools":%s}`, stream, n, tools),
		})
		return savingsOf(t, g, key, a), a
	}
	plain, a := tick(&fake.Usage{Input: 100_000, Output: 5}, false)
	l4 := plain.of("l4")
	if l4.Tokens < 100 || savedMicro(t, l4.USD) != exact(l4.Tokens*3000) || a.Header.Get("X-Bardo-Savings") != string(plain.Savings) || plain.Task != "risk_check" || plain.Regime != "bull" {
		t.Errorf("without a cache: %+v, header %q", plain, a.Header.Get("X-Bardo-Savings"))
	}
	want["l4"] += savedMicro(t, l4.USD)
	cached, a := tick(&fake.Usage{Input: 10, Cached: 100_000, Output: 5}, true)
	if s := cached.of("l4"); s.Tokens != l4.Tokens || savedMicro(t, s.USD) != exact(s.Tokens*300) {
		t.Errorf("read from the cache: %+v", cached)
	}
	if s := summaryOf(t, a); s.Savings != cached.Savings {
		t.Errorf("the stream says %q, the record %q", s.Savings, cached.Savings)
	}
	want["l4"] += savedMicro(t, cached.of("l4").USD)
	counted, _ := tick(&fake.Usage{Input: 50, Output: 5}, false)
	if s := counted.of("l4"); s.Tokens == 0 || s.Tokens >= l4.Tokens || savedMicro(t, s.USD) != exact(s.Tokens*3000) {
		t.Errorf("by a small count of the provider's: %+v", counted)
	}
	want["l4"] += savedMicro(t, counted.of("l4").USD)
	if none, _ := tick(&fake.Usage{Missing: true, Output: 5}, true); len(none.ByLayer) != 0 {
		t.Errorf("without the provider's count: %+v", none)
	}

	want["l5"] = repeatedResults(t, g, key, p)

	p.Behave(fake.Behaviour{Status: http.StatusBadRequest})
	failed := g.Do(t, gateway.Call{
		Path: "/v1/chat/completions", Key: key, Header: []string{"X-Bardo-Tick-Type: risk_check"}, Body: `{"model":"m","messages":[{"role":"user","content":"fail"}],"tools":` + tools + `}`,
	})
	if failed.Status != http.StatusBadRequest || failed.Header.Get("X-Bardo-Savings") != "" {
		t.Errorf("a failed request: %d %v", failed.Status, failed.Header)
	}
	want["l3"] = storedAnswers(t, g, key, p)
	checkSums(t, g, key, want)
	g.AssertSound(t)
}

// toolList is an agent's tools in OpenAI's format.
func toolList() string {
	var out []string
	for _, name := range agentTools() {
		out = append(out, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":{"type":"object"}}}`, name))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// repeatedResults sends a conversation in which a result is repeated, in the last turn and then in the turns before, and returns what was saved.
func repeatedResults(t *testing.T, g *gateway.Gateway, key string, p *fake.Server) (sum int64) {
	t.Helper()
	result := strings.Repeat("The file is as it was before. ", 700)
	call := func(id, result string) string {
		return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"Read","arguments":"{}"}}]},{"role":"tool","tool_call_id":%q,"content":%q}`, id, id, result)
	}
	talk := `{"role":"user","content":"begin"},` + call("c1", result) + "," + call("c2", result)
	for i, row := range []struct {
		more  string
		usage fake.Usage
		price int64
	}{
		{"", fake.Usage{Input: 50, Cached: 100_000, Output: 5}, 3000}, // it is new: no cache had it
		{`,{"role":"assistant","content":"Well."},{"role":"user","content":"go on"}`, fake.Usage{Input: 50, Cached: 100_000, Output: 5}, 300},
	} {
		talk += row.more
		p.Behave(fake.Behaviour{Usage: &row.usage})
		a := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key, Body: `{"model":"m","messages":[` + talk + `]}`})
		s := savingsOf(t, g, key, a).of("l5")
		if got := savedMicro(t, s.USD); s.Tokens < 5000 || got < exact(s.Tokens*row.price)*99/100 || got > exact(s.Tokens*row.price) {
			t.Errorf("turn %d: %+v, want about %d", i, s, exact(s.Tokens*row.price))
		}
		sum += savedMicro(t, s.USD)
	}
	return sum
}

// storedAnswers asks for one answer three times, the last time with the provider down and the stored answer out of date, and returns what was saved.
func storedAnswers(t *testing.T, g *gateway.Gateway, key string, p *fake.Server) (sum int64) {
	t.Helper()
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 100}})
	ask := func(header ...string) (savingsRecord, gateway.Answer) {
		a := g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Key: key, Header: append([]string{fast}, header...), Body: `{"model":"m","temperature":0,"max_tokens":100,"messages":[{"role":"user","content":"stored?"}]}`,
		})
		return savingsOf(t, g, key, a), a
	}
	ask()
	r, a := ask()
	if s := r.of("l3"); s.Tokens != 1100 || savedMicro(t, s.USD) != exact(1000*3000+100*15000) || a.Header.Get("X-Bardo-Savings") != string(r.Savings) {
		t.Errorf("a stored answer: %+v", r)
	}
	sum = savedMicro(t, r.of("l3").USD)
	p.Behave(fake.Behaviour{Status: http.StatusServiceUnavailable})
	if r, a := ask("cache-control: max-age=0, stale-if-error=600"); a.Header.Get("X-Bardo-Cache") != "stale" || len(r.ByLayer) != 0 || savedMicro(t, r.Savings) != 0 {
		t.Errorf("an answer that stands in for an error: %q %+v", a.Header.Get("X-Bardo-Cache"), r)
	}
	return sum
}

// TestSavingsCountTheRoundsOfALayersTools: what the calls of a layer's own tools cost is taken off what it saved.
func TestSavingsCountTheRoundsOfALayersTools(t *testing.T) {
	t.Parallel()
	g, own, _ := metaLab(t, "")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	own.Queue(twoRounds()...)
	c := metaCall("openai", "m", false, "")
	c.Key = key
	r := savingsOf(t, g, key, g.Do(t, c))
	s := r.of("l4")
	// Beyond the client's own request there are the second prompt, of 1,000 tokens at 1 USD per million, and the first answer, of 100 at 2.
	if want := exact((s.Tokens - 1200) * 1000); s.Tokens < 500 || savedMicro(t, s.USD) != want {
		t.Errorf("%+v, want %d", r, want)
	}
	checkSums(t, g, key, map[string]int64{"l4": savedMicro(t, s.USD)})
}

// TestSavingsOfTheSemanticCacheAreItsOwn.
func TestSavingsOfTheSemanticCacheAreItsOwn(t *testing.T) {
	t.Parallel()
	g, o, _, _ := semantically(t)
	o.Behave(fake.Behaviour{Text: "It is Oslo."})
	mustKnow(t, g, plainly(forms[0], "gpt-x", "What is the population of Oslo?"), "miss")
	got := mustKnow(t, g, plainly(forms[0], "gpt-x", "tell me what the population of Oslo is, please"), "semantic")
	if r := savingsOf(t, g, "", got); len(r.ByLayer) != 1 || r.of("l2").Tokens == 0 || savedMicro(t, r.of("l2").USD) <= 0 || r.of("l2").USD != r.Savings {
		t.Errorf("%+v", r)
	}
}
