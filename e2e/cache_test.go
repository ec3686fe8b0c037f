package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// forms are the four ways to ask.
var forms = []ask{
	{dialect: fake.OpenAI}, {dialect: fake.OpenAI, stream: true}, {dialect: fake.Anthropic}, {dialect: fake.Anthropic, stream: true},
}

func (a ask) form() string { return fmt.Sprintf("%s stream=%v", a.dialect, a.stream) }

// about is a question that may be answered from the cache, in one of the forms. Both dialects can say all of it.
func (a ask) about(model, question string) ask {
	a.model, a.say, a.more = model, question, `"temperature":0`
	if a.dialect == fake.OpenAI {
		a.more += `,"max_tokens":100` // Anthropic's form always has it
	}
	return a
}

// fast turns the pacing of stored answers off.
const fast = "x-bardo-replay: fast"

// known is what the cache knew of a request, as its answer's header says. A stream's summary must say the same.
func known(t testing.TB, a ask, got gateway.Answer) string {
	t.Helper()
	if got.Status != http.StatusOK || got.Err != nil {
		t.Fatalf("%s: %d %v %s", a.form(), got.Status, got.Err, got.Body)
	}
	k := got.Header.Get("X-Bardo-Cache")
	if a.stream {
		told := k
		if told == "" { // the request has nothing to do with the cache
			told = "miss"
		}
		if s := summaryOf(t, got); s.Cache != told {
			t.Errorf("%s: the header says %q, the summary %q", a.form(), k, s.Cache)
		}
	}
	return k
}

// asked asks and returns the answer and what the cache knew.
func asked(t testing.TB, g *gateway.Gateway, a ask, header ...string) (gateway.Answer, string) {
	t.Helper()
	got := g.Do(t, a.call(append([]string{fast}, header...)...))
	return got, known(t, a, got)
}

// mustKnow fails the test if the cache knew something else.
func mustKnow(t testing.TB, g *gateway.Gateway, a ask, want string, header ...string) gateway.Answer {
	t.Helper()
	got, k := asked(t, g, a, header...)
	if k != want {
		t.Errorf("%s %v: the cache says %q, want %q", a.form(), header, k, want)
	}
	return got
}

// cached is a gateway with a provider of each dialect; each model name comes alone, and backed by a second candidate.
func cached(t *testing.T) (g *gateway.Gateway, o, n *fake.Server, opt gateway.Options) {
	t.Helper()
	return cachedBy(t, quick)
}

func cachedBy(t *testing.T, config string) (g *gateway.Gateway, o, n *fake.Server, opt gateway.Options) {
	t.Helper()
	o, n = fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "o"}), fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "n"})
	opt = gateway.Options{Config: config, Providers: []gateway.Provider{
		{ID: "o", Fake: o, Models: append(models("gpt-x", "upstream-gpt"), models("gpt-two", "")...)},
		{ID: "n", Fake: n, Format: "anthropic", Models: append(models("claude-x", ""), models("claude-two", "")...)},
		{ID: "o2", Fake: o, Models: models("gpt-two", "")},
		{ID: "n2", Fake: n, Format: "anthropic", Models: models("claude-two", "")},
	}}
	return gateway.Run(t, opt), o, n, opt
}

var cachedModels = []string{"gpt-x", "gpt-two", "claude-x", "claude-two"}

// comments are the gateway's own lines in a stream.
var comments = regexp.MustCompile(`(?m)^:.*\n`)

// contents are the kinds of answers: what they say, and what must be found in each form of them.
var contents = []struct {
	name string
	b    fake.Behaviour
	want []string
}{
	{"text", fake.Behaviour{Text: "Parcels arrive at nine, says the hätte."}, nil},
	{"a tool call", fake.Behaviour{Text: "I look.", ToolCalls: []fake.ToolCall{{Name: "look", Args: `{"at":7,"b":"x"}`, Pieces: 4}, {Name: "wait"}}}, []string{"look", "wait", `at\":7`}},
	{"thoughts", fake.Behaviour{Text: "Nine.", Thoughts: []fake.Thought{{Text: "it was nine yesterday"}}}, []string{"yesterday"}},
	{"the limit", fake.Behaviour{Text: "Parcels arr", Stop: "LENGTH"}, nil},
}

// TestK63K64EveryFormFindsTheAnswer asks a question in one form, and then in all: the answer is the same, from the store, and in the
// form that was asked for; in the form that it came in, it is the same to the byte.
func TestK63K64EveryFormFindsTheAnswer(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	for _, model := range cachedModels {
		for _, c := range contents {
			b := c.b
			p, length := o, "length"
			if strings.HasPrefix(model, "claude") {
				p, length = n, "max_tokens"
			}
			if b.Stop != "" {
				b.Stop = length
			}
			p.BehaveFor(upstreamName(model), b)
			for _, first := range forms {
				t.Run(fmt.Sprintf("%s/%s/%s", model, c.name, first.form()), func(t *testing.T) {
					question := fmt.Sprintf("%s, first asked as %s", c.name, first.form())
					first := first.about(model, question)
					p.Forget()
					fresh := mustKnow(t, g, first, "miss")
					for _, again := range forms {
						again := again.about(model, question)
						got := mustKnow(t, g, again, "hash")
						if s := text(t, again, got); s != b.Text {
							t.Errorf("%s: says %q", again.form(), s)
						}
						for _, w := range c.want {
							if !strings.Contains(unsplit(got.Body), w) && !strings.Contains(got.Body, strings.ReplaceAll(w, `\`, "")) {
								t.Errorf("%s: no %s in %s", again.form(), w, got.Body)
							}
						}
						if b.Stop != "" && !strings.Contains(got.Body, `"length"`) && !strings.Contains(got.Body, `"max_tokens"`) {
							t.Errorf("%s: it does not say why it stopped: %s", again.form(), got.Body)
						}
						if again == first && p == providerOf(first.dialect, o, n) && comments.ReplaceAllString(got.Body, "") != comments.ReplaceAllString(fresh.Body, "") {
							t.Errorf("not the same bytes:\n%s\n%s", fresh.Body, got.Body)
						}
						checkHit(t, got, again.stream)
					}
					if n := len(p.Generations()); n != 1 {
						t.Errorf("the provider was asked %d times", n)
					}
				})
			}
		}
	}
}

// upstreamName is what the provider of cached calls a model.
func upstreamName(model string) string {
	if model == "gpt-x" {
		return "upstream-gpt"
	}
	return model
}

func providerOf(d fake.Dialect, o, n *fake.Server) *fake.Server {
	if d == fake.OpenAI {
		return o
	}
	return n
}

// pieces joins what a stream says of a tool's arguments.
var pieces = regexp.MustCompile(`"(?:arguments|partial_json)":"((?:[^"\\]|\\.)*)"`)

func unsplit(body string) string {
	var b strings.Builder
	for _, m := range pieces.FindAllStringSubmatch(body, -1) {
		b.WriteString(m[1])
	}
	return body + b.String()
}

// checkHit: a stored answer says that it is one, what it saved and how old it is, and was nobody's attempt. A lookup that takes long on a busy machine is marked late, and used.
func checkHit(t *testing.T, got gateway.Answer, stream bool) {
	t.Helper()
	if got.Header.Get("X-Bardo-Attempts") != "0" || got.Header.Get("X-Bardo-Provider") == "" || got.Header.Get("X-Bardo-Model") == "" {
		t.Errorf("headers %v", got.Header)
	}
	if age, err := strconv.Atoi(got.Header.Get("Age")); err != nil || age > 60 {
		t.Errorf("age %q", got.Header.Get("Age"))
	}
	if !regexp.MustCompile(`^l3;dur=\d+\.\d\d(;late)?$`).MatchString(got.Header.Get("X-Bardo-Pipeline")) {
		t.Errorf("pipeline %q", got.Header.Get("X-Bardo-Pipeline"))
	}
	if !stream && (got.Header.Get("X-Bardo-Cost") != "0.000000" || got.Header.Get("X-Bardo-Savings") == "" || got.Header.Get("X-Bardo-Savings") == "0.000000") {
		t.Errorf("cost %q, savings %q", got.Header.Get("X-Bardo-Cost"), got.Header.Get("X-Bardo-Savings"))
	}
	if stream && got.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("headers of a stream %v", got.Header)
	}
}

// TestK63HundredOfHundred: after the first, the same request is answered from the store every time, whoever of the provider's
// dialects it has, and however its JSON is written.
func TestK63HundredOfHundred(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	for _, model := range cachedModels {
		mustKnow(t, g, forms[0].about(model, "a hundred times"), "miss")
		for i := range 25 {
			for _, a := range forms {
				a := a.about(model, "a hundred times")
				c := a.call(fast)
				c.Body = strings.Replace(c.Body, `"temperature":0`, `"temperature":`+strings.Repeat(" ", i)+`0.`+strings.Repeat("0", i+1), 1)
				if k := known(t, a, g.Do(t, c)); k != "hash" {
					t.Fatalf("%s, round %d: the cache says %q", a.form(), i, k)
				}
			}
		}
	}
	if a, b := len(o.Generations()), len(n.Generations()); a != 2 || b != 2 {
		t.Errorf("the providers were asked %d and %d times, want once for each model", a, b)
	}
}

// TestK64SeveralChoices: n answers are stored and come back as n answers, streamed or not.
func TestK64SeveralChoices(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	for _, first := range forms[:2] {
		want := "miss"
		for _, again := range []ask{first, forms[0], forms[1]} {
			again := again.about("gpt-x", "several, first as "+first.form())
			again.more += `,"n":3`
			got := mustKnow(t, g, again, want)
			for i := range 3 {
				if !strings.Contains(strings.ReplaceAll(got.Body, " ", ""), fmt.Sprintf(`"index":%d,`, i)) {
					t.Errorf("no choice %d in %s", i, got.Body)
				}
			}
			want = "hash"
		}
		one := first.about("gpt-x", "several, first as "+first.form())
		mustKnow(t, g, one, "miss")
	}
	if n := len(o.Generations()); n != 4 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// TestD32WhoIsAnsweredFromTheStore: a temperature that is known and low, or who asks for it.
func TestD32WhoIsAnsweredFromTheStore(t *testing.T) {
	t.Parallel()
	g, _, _, _ := cached(t)
	rows := []struct {
		name, more, header string
		second             string // what the cache says the second time
	}{
		{"no temperature", `"top_p":0.5`, "", ""},
		{"a high temperature", `"temperature":0.31`, "", ""},
		{"the highest low temperature", `"temperature":0.3`, "", "hash"},
		{"a low temperature beside thinking, which may not take effect", `"temperature":0,"reasoning_effort":"low"`, "", ""},
		{"thinking, on request", `"reasoning_effort":"low"`, "x-bardo-cache: force", "hash"},
		{"on request", `"temperature":1`, "x-bardo-cache: force", "hash"},
		{"RFC 9111 has no word for it", `"temperature":1`, "cache-control: force", ""},
		{"not on request", `"temperature":0`, "x-bardo-cache: off", ""},
	}
	for _, r := range rows {
		for _, stream := range []bool{false, true} {
			a := ask{dialect: fake.OpenAI, model: "gpt-x", stream: stream, more: r.more, say: fmt.Sprintf("%s %v", r.name, stream)}
			var header []string
			if r.header != "" {
				header = []string{r.header}
			}
			first := r.second
			if first == "hash" {
				first = "miss"
			}
			mustKnow(t, g, a, first, header...)
			mustKnow(t, g, a, r.second, header...)
		}
	}
	for _, h := range []string{"x-bardo-cache: maybe", "x-bardo-cache: max-age=soon", "x-bardo-replay: slow"} {
		for _, a := range forms {
			a := a.about("gpt-x", "hi")
			got := g.Do(t, a.call(h))
			mustFail(t, a, got, http.StatusBadRequest, "invalid_request")
			if name, value, _ := strings.Cut(h, ": "); !strings.Contains(strings.ToLower(got.Body), name) || !strings.Contains(got.Body, value) {
				t.Errorf("the error does not name %s: %s", h, got.Body)
			}
		}
	}
}

// TestRequestsControlTheCache: in our own header, and in that of RFC 9111.
func TestRequestsControlTheCache(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	for _, name := range []string{"x-bardo-cache", "cache-control"} {
		a := forms[1].about("gpt-x", "control by "+name)
		mustKnow(t, g, a, "miss", name+": no-store")
		mustKnow(t, g, a, "miss") // nothing was stored
		mustKnow(t, g, a, "hash", name+": no-store")
		o.Forget()
		mustKnow(t, g, a, "miss", name+": no-cache")
		mustKnow(t, g, a, "hash", name+": max-age=60")
		if n := len(o.Generations()); n != 1 {
			t.Errorf("the provider was asked %d times", n)
		}
		eventually(t, "an answer older than a second", func() bool {
			got, k := asked(t, g, a)
			age, _ := strconv.Atoi(got.Header.Get("Age"))
			return k == "hash" && age >= 2
		})
		mustKnow(t, g, a, "miss", name+": max-age=1")
		mustKnow(t, g, a, "hash", name+": max-age=1") // the new one
	}
}

// TestK60TwoKeysNeverShare, in any form, and callers without a key are nobody's.
func TestK60TwoKeysNeverShare(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	other := g.CreateKey(t, "--name", "other").Key
	for _, a := range forms {
		a := a.about("gpt-x", "whose is it? "+a.form())
		mustKnow(t, g, a, "miss")
		c := a.call(fast)
		c.Key = other
		if k := known(t, a, g.Do(t, c)); k != "miss" {
			t.Errorf("%s: the other key gets %q", a.form(), k)
		}
		if k := known(t, a, g.Do(t, c)); k != "hash" {
			t.Errorf("%s: the other key gets %q the second time", a.form(), k)
		}
		mustKnow(t, g, a, "hash")
	}
	if n := len(o.Generations()); n != 8 {
		t.Errorf("the provider was asked %d times, want once for each key and question", n)
	}
	var l listing
	get(t, g, other, "/v1/cache", &l)
	if l.Entries != 4 {
		t.Errorf("the other key has %d entries", l.Entries)
	}
}

// listing is GET /v1/cache.
type listing struct {
	Entries      int
	Bytes        int64
	Hits, Misses int
	Saved        json.Number `json:"saved_usd"`
	Data         []struct {
		ID, Model, Provider string
		CreatedAt           time.Time `json:"created_at"`
		ExpiresAt           time.Time `json:"expires_at"`
		Stale               bool
		Bytes               int64
		Hits                int
		InputTokens         int `json:"input_tokens"`
		OutputTokens        int `json:"output_tokens"`
	}
}

// TestCallersSeeAndDeleteWhatIsStored, and no content shows.
func TestCallersSeeAndDeleteWhatIsStored(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	o.Behave(fake.Behaviour{Text: "the secret answer", Usage: &fake.Usage{Input: 1000, Output: 500}})
	secret, other := forms[0].about("gpt-x", "the secret question"), forms[1].about("claude-x", "another question")
	mustKnow(t, g, secret, "miss")
	saved := mustKnow(t, g, secret, "hash").Header.Get("X-Bardo-Savings")
	mustKnow(t, g, other, "miss")
	got := g.Do(t, gateway.Call{Path: "/v1/cache"})
	var l listing
	got.JSON(t, &l)
	if strings.Contains(got.Body, "secret") || l.Entries != 2 || l.Hits != 1 || l.Misses != 2 || string(l.Saved) != saved || l.Bytes <= 0 || len(l.Data) != 2 {
		t.Fatalf("listing %s", got.Body)
	}
	e := l.Data[1] // the one that was used before the last
	if e.Model != "gpt-x" || e.Provider != "o" || e.Hits != 1 || e.InputTokens != 1000 || e.OutputTokens != 500 || e.Stale ||
		e.ExpiresAt.Sub(e.CreatedAt) != 300*time.Second || e.Bytes <= 0 || len(e.ID) != 16 {
		t.Errorf("entry %+v", e)
	}
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache/0123456789abcdef"}); got.Status != http.StatusNotFound {
		t.Errorf("an entry that there is not: %d %s", got.Status, got.Body)
	}
	reader := g.CreateKey(t, "--name", "reader", "--read-only").Key
	if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/cache", Key: reader}); got.Status != http.StatusForbidden {
		t.Errorf("a key that may only read deletes: %d %s", got.Status, got.Body)
	}
	if got := g.Do(t, gateway.Call{Path: "/v1/cache", NoKey: true}); got.Status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", got.Status, got.Body)
	}
	for _, slip := range []string{"/v1/cache?modell=claude-x", "/v1/cache?model=", "/v1/cache?model=a&model=b", "/v1/cache/" + e.ID + "?model=gpt-x"} {
		if got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: slip}); got.Status != http.StatusBadRequest {
			t.Errorf("DELETE %s: %d %s", slip, got.Status, got.Body)
		}
	}
	deleted := func(path string, want int) {
		t.Helper()
		var d struct{ Deleted int }
		got := g.Do(t, gateway.Call{Method: http.MethodDelete, Path: path})
		if got.JSON(t, &d); got.Status != http.StatusOK || d.Deleted != want {
			t.Errorf("DELETE %s: %d %s, want %d deleted", path, got.Status, got.Body, want)
		}
	}
	deleted("/v1/cache?model=gpt-y", 0)
	deleted("/v1/cache/"+e.ID, 1)
	mustKnow(t, g, secret, "miss")
	mustKnow(t, g, other, "hash")
	deleted("/v1/cache?model=claude-x", 1)
	mustKnow(t, g, secret, "hash")
	deleted("/v1/cache", 1)
	mustKnow(t, g, secret, "miss")
	m := g.Metrics(t)
	if n := m.Sum("bardo_cache_entries"); n != 1 {
		t.Errorf("%v entries are counted", n)
	}
	if hits, misses := m.Sum("bardo_cache_requests_total", `result="hash"`), m.Sum("bardo_cache_requests_total", `result="miss"`); hits != 3 || misses != 4 {
		t.Errorf("%v hits and %v misses are counted", hits, misses)
	}
}

// TestAHitCostsNothing: no money is set aside or taken, the saving is told, and records and sums show the request.
func TestAHitCostsNothing(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	o.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 500}})
	k := g.CreateKey(t, "--name", "k", "--balance-usd", "0.01", "--rpm", "100")
	for i, a := range forms {
		a := a.about([]string{"gpt-x", "gpt-two"}[i%2], "what does it cost? "+a.form())
		c := a.call(fast)
		c.Key = k.Key
		before := balanceOf(t, g, k.Key)
		if got := g.Do(t, c); known(t, a, got) != "miss" {
			t.Fatalf("%s: %v", a.form(), got.Header)
		}
		left := balanceOf(t, g, k.Key)
		if cost := before - left; cost != 2400 { // 1,000 tokens at 1 USD, 500 at 2 USD a million, and 20 percent
			t.Errorf("%s: the first cost %d", a.form(), cost)
		}
		checkHitIsFree(t, g, a, c, left)
	}
	if n := balanceOf(t, g, k.Key); n != 10_000-4*2400 {
		t.Errorf("%d are left", n)
	}
	eventually(t, "the hits as requests without tokens", func() bool { // hits are written behind
		requests, output := countedUsage(t, g, k.Key)
		return requests == 8 && output == 4*500
	})
	// What is left pays for no further call, but for what is stored.
	poor := forms[0].about("gpt-x", "one more")
	c := poor.call()
	c.Key = k.Key
	c.Body = strings.Replace(c.Body, `"max_tokens":100`, `"max_tokens":100000`, 1)
	mustFail(t, poor, g.Do(t, c), http.StatusPaymentRequired, "insufficient_balance")
	g.AssertSound(t)
}

// checkHitIsFree sends a request whose answer is stored: its headers or its summary, its record and the balance say that it cost nothing. left is the
// balance before.
func checkHitIsFree(t *testing.T, g *gateway.Gateway, a ask, c gateway.Call, left int64) {
	t.Helper()
	got := g.Do(t, c)
	if known(t, a, got) != "hash" {
		t.Fatalf("%s: %v", a.form(), got.Header)
	}
	if now := balanceOf(t, g, c.Key); now != left {
		t.Errorf("%s: the hit cost %d", a.form(), left-now)
	}
	id := got.Header.Get("X-Request-Id")
	b := billOf(t, g, c.Key, id)
	if b.Cost != "0.000000" || b.ProviderCost != "0" || b.Attempts != 0 || b.Path != "cache" || b.Status != "ok" || b.OutputTokens != 500 {
		t.Errorf("%s: record %+v", a.form(), b)
	}
	var r struct {
		Cache    string
		Savings  json.Number `json:"savings_usd"`
		Pipeline string
	}
	get(t, g, c.Key, "/v1/requests/"+id, &r)
	if r.Cache != "hash" || r.Savings != "0.002400" || !strings.HasPrefix(r.Pipeline, "l3;") {
		t.Errorf("%s: record %+v", a.form(), r)
	}
	money := fmt.Sprintf("%d.%06d", left/1e6, left%1e6)
	if !a.stream {
		if h := got.Header; h.Get("X-Bardo-Balance") != money || h.Get("X-Bardo-Savings") != "0.002400" {
			t.Errorf("headers %v, want balance %s", h, money)
		}
		return
	}
	if s := summaryOf(t, got); s.Cost != "0.000000" || s.Savings != "0.002400" || s.Balance == nil || string(*s.Balance) != money || s.OutputTokens != 500 || s.Attempts != 0 {
		t.Errorf("summary %+v, want balance %s", s, money)
	}
}

// countedUsage is how many requests GET /v1/usage counts for a key, and their tokens of output.
func countedUsage(t *testing.T, g *gateway.Gateway, key string) (requests, output int) {
	t.Helper()
	var usage struct {
		Data []struct {
			Requests     int
			OutputTokens int `json:"output_tokens"`
		}
	}
	get(t, g, key, "/v1/usage", &usage)
	for _, d := range usage.Data {
		requests += d.Requests
		output += d.OutputTokens
	}
	return requests, output
}

// TestAHitCountsForTheRateAndNotForTheAllowance.
func TestAHitCountsForTheRateAndNotForTheAllowance(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 4, tokens_per_hour: 100000}\n", Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	a := forms[0].about("m", "how often?")
	left := mustKnow(t, g, a, "miss").Header.Get("X-Remaining-Tokens")
	for range 3 {
		if got := mustKnow(t, g, a, "hash"); got.Header.Get("X-Remaining-Tokens") != left || left == "" {
			t.Errorf("%s tokens remain, then %s", left, got.Header.Get("X-Remaining-Tokens"))
		}
	}
	mustFail(t, a, g.Do(t, a.call()), http.StatusTooManyRequests, "rate_limit_exceeded")
}

// TestAHitNeedsNoProvider: the providers may be gone altogether.
func TestAHitNeedsNoProvider(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	for _, model := range cachedModels {
		mustKnow(t, g, forms[0].about(model, "before"), "miss")
	}
	o.Stop()
	n.Stop()
	for _, model := range cachedModels {
		for _, a := range forms {
			a := a.about(model, "before")
			if s := text(t, a, mustKnow(t, g, a, "hash")); s != "Hello from the fake provider." {
				t.Errorf("%s: says %q", a.form(), s)
			}
		}
	}
}

// TestIncompleteAnswersAreNotStored, and neither are refusals.
func TestIncompleteAnswersAreNotStored(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	cut := fake.Behaviour{Tokens: 6, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens, Tokens: 3}}
	for name, b := range map[string]map[fake.Dialect]fake.Behaviour{
		"cut":                 {fake.OpenAI: cut, fake.Anthropic: cut},                                                                                                                                                                       //nolint:exhaustive // Gemini is tested apart
		"an error in between": {fake.OpenAI: {Tokens: 6, Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 3}}, fake.Anthropic: {Tokens: 6, Break: fake.Break{Kind: fake.ErrorEvent, At: fake.AfterTokens, Tokens: 3}}}, //nolint:exhaustive // Gemini is tested apart
		"refused":             {fake.OpenAI: {Stop: "content_filter"}, fake.Anthropic: {Stop: "refusal"}},                                                                                                                                    //nolint:exhaustive // Gemini is tested apart
		"a bad request":       {fake.OpenAI: {Status: 400}, fake.Anthropic: {Status: 400}},                                                                                                                                                   //nolint:exhaustive // Gemini is tested apart
	} {
		o.Behave(b[fake.OpenAI])
		n.Behave(b[fake.Anthropic])
		for _, model := range cachedModels {
			for _, a := range forms {
				g.Do(t, a.about(model, name+a.form()).call(fast)) // whatever it says
			}
		}
		var l listing
		get(t, g, g.Key, "/v1/cache", &l)
		if l.Entries != 0 {
			t.Errorf("%s: %d answers are stored: %+v", name, l.Entries, l)
		}
	}
}

// TestD33StoredStreamsArePaced: a piece every 30 ms, unless the client says otherwise. Only the least time is looked at.
func TestD33StoredStreamsArePaced(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	o.Behave(fake.Behaviour{Tokens: 21})
	n.Behave(fake.Behaviour{Text: strings.Repeat("a sentence that was stored in one piece, ", 16)})
	for _, model := range []string{"gpt-x", "claude-x"} {
		first := forms[0].about(model, "how fast?")
		if model == "gpt-x" {
			first = forms[1].about(model, "how fast?")
		}
		mustKnow(t, g, first, "miss")
		for _, a := range []ask{forms[1], forms[3]} {
			a := a.about(model, "how fast?")
			began := time.Now()
			got := g.Do(t, a.call())
			if k := known(t, a, got); k != "hash" {
				t.Fatalf("the cache says %q", k)
			}
			if took := time.Since(began); took < 20*30*time.Millisecond-100*time.Millisecond {
				t.Errorf("%s of %s: 21 pieces or more came in %s", a.form(), model, took)
			}
			if s := text(t, a, got); !strings.HasPrefix(s, "tok0 tok1 ") && !strings.HasPrefix(s, "a sentence that was stored in one piece, a") {
				t.Errorf("says %q", s)
			}
		}
	}
	// A long one does not take for ever: at 30 ms for each piece it would take a minute.
	o.Behave(fake.Behaviour{Tokens: 2000})
	long := forms[1].about("gpt-x", "how long?")
	mustKnow(t, g, long, "miss")
	began := time.Now()
	if k := known(t, long, g.Do(t, long.call())); k != "hash" || time.Since(began) > 30*time.Second {
		t.Errorf("%q after %s", k, time.Since(began))
	}
}

// TestALargeAnswerIsStored, and comes back whole in every form.
func TestALargeAnswerIsStored(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	o.Behave(fake.Behaviour{Tokens: 3000, TokenSize: 400})
	mustKnow(t, g, forms[0].about("gpt-x", "tell me a lot"), "miss")
	for _, a := range forms {
		a := a.about("gpt-x", "tell me a lot")
		if s := text(t, a, mustKnow(t, g, a, "hash")); len(s) != 3000*400 {
			t.Errorf("%s: %d bytes", a.form(), len(s))
		}
	}
}

// TestD15StaleInsteadOfAnError: when every candidate failed before its first content, an answer that is past its time is served, and
// says so. What the caller got wrong is still its own.
func TestD15StaleInsteadOfAnError(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cachedBy(t, hasty+"inference: {caching: {ttl_s: 1}}\n")
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	call := func(a ask, header ...string) gateway.Answer {
		c := a.call(append([]string{fast}, header...)...)
		c.Key = key
		return g.Do(t, c)
	}
	for _, model := range cachedModels {
		if a := forms[0].about(model, "old"); known(t, a, call(a)) != "miss" {
			t.Fatal("not a miss")
		}
	}
	eventually(t, "an answer past its time", func() bool {
		var l listing
		get(t, g, key, "/v1/cache", &l)
		for _, e := range l.Data {
			if !e.Stale {
				return false
			}
		}
		return len(l.Data) == len(cachedModels)
	})
	before := balanceOf(t, g, key)
	for name, b := range map[string]fake.Behaviour{
		"500": {Status: 500}, "429": {Status: 429, RetryAfter: "1"}, "401": {Status: 401}, "reset": {Break: fake.Break{Kind: fake.Reset}},
		"silence": {Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}},
	} {
		o.Behave(b)
		n.Behave(b)
		for _, model := range cachedModels {
			for _, a := range forms {
				if name == "silence" && a.dialect == fake.Anthropic { // each takes its time
					continue
				}
				t.Run(name+"/"+model+"/"+a.form(), func(t *testing.T) { checkStale(t, a, model, call, name) })
			}
		}
	}
	if after := balanceOf(t, g, key); after != before {
		t.Errorf("stale answers cost %d", before-after)
	}
	for status, code := range map[int]string{400: "", 404: ""} {
		o.Behave(fake.Behaviour{Status: status})
		a := forms[0].about("gpt-x", "old")
		if got := call(a); got.Status != status {
			t.Errorf("a %d of the caller's own making: %d %s %s", status, got.Status, code, got.Body)
		}
	}
	g.AssertSound(t)
}

func checkStale(t *testing.T, a ask, model string, call func(a ask, header ...string) gateway.Answer, name string) {
	t.Helper()
	a = a.about(model, "old")
	got := call(a)
	if k := known(t, a, got); k != "stale" {
		t.Fatalf("the cache says %q: %s", k, got.Body)
	}
	if s := text(t, a, got); s != "Hello from the fake provider." {
		t.Errorf("says %q", s)
	}
	if got.Header.Get("X-Bardo-Attempts") == "0" || got.Header.Get("Age") == "" {
		t.Errorf("headers %v", got.Header)
	}
	if name != "500" {
		return
	}
	if other := a.about(model, "never asked before"); call(other).Status < 400 {
		t.Error("another question is answered")
	}
	if got := call(a, "cache-control: stale-if-error=0"); got.Status < 400 {
		t.Error("a caller that wants no stale answer gets one")
	}
}

// TestNoCacheStillFallsBack: who asked for a new answer gets the stored one when there is no other.
func TestNoCacheStillFallsBack(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	a := forms[0].about("gpt-x", "hi")
	mustKnow(t, g, a, "miss")
	o.Behave(fake.Behaviour{Status: 500})
	mustKnow(t, g, a, "stale", "cache-control: no-cache")
	mustKnow(t, g, a, "hash")
}

// TestD33FiveAtOnceAreOneCall where any answer will do, and five where five are wanted.
func TestD33FiveAtOnceAreOneCall(t *testing.T) {
	t.Parallel()
	g, o, n, _ := cached(t)
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "1").Key
	held := fake.Behaviour{FirstToken: 2 * time.Second, Usage: &fake.Usage{Input: 1000, Output: 500}}
	o.Behave(held)
	n.Behave(held)
	for _, model := range cachedModels {
		for _, a := range forms {
			t.Run(model+"/"+a.form(), func(t *testing.T) {
				p := o
				if strings.HasPrefix(model, "claude") {
					p = n
				}
				p.Forget()
				before := balanceOf(t, g, key)
				a := a.about(model, "five at once, "+a.form())
				c := a.call(fast)
				c.Key = key
				count := map[string]int{}
				for _, got := range atOnce(t, g, 5, c) {
					count[known(t, a, got)]++
					if s := text(t, a, got); s != "Hello from the fake provider." {
						t.Errorf("says %q", s)
					}
				}
				if n := len(p.Generations()); n != 1 || count["miss"] != 1 || count["coalesced"]+count["hash"] != 4 || count["coalesced"] == 0 {
					t.Errorf("%d calls, %v", n, count)
				}
				if cost := before - balanceOf(t, g, key); cost != 2400 {
					t.Errorf("the five cost %d", cost)
				}
			})
		}
	}
	o.Forget()
	own := ask{dialect: fake.OpenAI, model: "gpt-x", stream: true, more: `"temperature":1`, say: "five samples"}
	for _, got := range atOnce(t, g, 5, own.call()) {
		if k := known(t, own, got); k != "" {
			t.Errorf("the cache says %q", k)
		}
	}
	if n := len(o.Generations()); n != 5 {
		t.Errorf("five samples took %d calls", n)
	}
	g.AssertSound(t)
}

// TestD33ALeaderThatLeaves does not take its followers along: one of them asks again.
func TestD33ALeaderThatLeaves(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := beating(t, "5s", gateway.Provider{ID: "one", Fake: p, Models: append(models("alone", ""), models("backed", "")...)}, gateway.Provider{ID: "two", Fake: p, Models: models("backed", "")})
	for _, model := range []string{"alone", "backed"} {
		for _, leads := range forms[:2] {
			t.Run(model+"/"+leads.form(), func(t *testing.T) {
				p.Forget()
				p.Queue(fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens}})
				question := "who leads? " + leads.form()
				leads := leads.about(model, question)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var wg sync.WaitGroup
				wg.Go(func() {
					if res, err := g.Open(ctx, leads.call()); err == nil {
						<-ctx.Done()
						_ = res.Body.Close()
					}
				})
				if _, err := p.WaitGenerations(soon(t), 1); err != nil {
					t.Fatal(err)
				}
				followers := make([]gateway.Answer, 3)
				asks := []ask{forms[1].about(model, question), forms[3].about(model, question), forms[0].about(model, question)}
				waiting := make(chan struct{}, len(asks))
				for i, a := range asks {
					wg.Go(func() { followers[i] = follow(t, g, a, waiting) })
				}
				<-waiting // both streams have had a heartbeat: they wait
				<-waiting
				if n := len(p.Generations()); n != 1 {
					t.Errorf("%d calls while the first is under way", n)
				}
				leave()
				wg.Wait()
				misses := 0
				for i, a := range asks {
					if s := text(t, a, followers[i]); s != "Hello from the fake provider." {
						t.Errorf("%s says %q", a.form(), s)
					}
					k := followers[i].Header.Get("X-Bardo-Cache")
					if a.stream {
						checkHeartbeats(t, followers[i].Body, 1)
						k = summaryOf(t, followers[i]).Cache
					}
					if k == "miss" {
						misses++
					}
				}
				if n := len(p.Generations()); n != 2 || misses != 1 {
					t.Errorf("%d calls, %d misses: want one follower to ask again", n, misses)
				}
			})
		}
	}
}

// follow reads an answer and says when its first bytes have come.
func follow(t *testing.T, g *gateway.Gateway, a ask, waiting chan<- struct{}) gateway.Answer {
	t.Helper()
	res, err := g.Open(within(t, time.Minute), a.call(fast))
	if err != nil {
		t.Error(err)
		return gateway.Answer{}
	}
	defer func() { _ = res.Body.Close() }()
	got := gateway.Answer{Status: res.StatusCode, Header: res.Header}
	buf := make([]byte, 64<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 && got.Body == "" {
			waiting <- struct{}{}
		}
		if got.Body += string(buf[:n]); err != nil {
			return got
		}
	}
}

// TestD33AProviderThatFailsIsNotAskedByAll: of those who wait, one tries again, and then all are told.
func TestD33AProviderThatFailsIsNotAskedByAll(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	o.Behave(fake.Behaviour{HeaderDelay: 2 * time.Second, Status: 400})
	for _, a := range forms {
		o.Forget()
		a := a.about("gpt-x", "is it down? "+a.form())
		for _, got := range atOnce(t, g, 6, a.call()) {
			if got.Status != http.StatusBadRequest {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		}
		if n := len(o.Generations()); n != 2 {
			t.Errorf("%s: the provider was asked %d times by six", a.form(), n)
		}
	}
}

// TestHashModes: off keeps what is stored for later, and all takes every request.
func TestHashModes(t *testing.T) {
	t.Parallel()
	g, _, _, opt := cached(t)
	a := forms[0].about("gpt-x", "on and off")
	mustKnow(t, g, a, "miss")
	plain := ask{dialect: fake.OpenAI, model: "gpt-x", say: "at any temperature"}
	base := opt.Config
	opt.Config = base + "pipeline: {hash: off}\n"
	reload(t, g, opt)
	mustKnow(t, g, a, "")
	mustKnow(t, g, a, "", "x-bardo-cache: force")
	opt.Config = base + "pipeline: {hash: all}\n"
	reload(t, g, opt)
	mustKnow(t, g, a, "hash")
	mustKnow(t, g, plain, "miss")
	mustKnow(t, g, plain, "hash")
	opt.Config = base
	reload(t, g, opt)
	mustKnow(t, g, a, "hash")
	mustKnow(t, g, plain, "")
}

// TestTheDemoIsCachedWithoutAKey: callers without a key have entries of their own, and only where they need none.
func TestTheDemoIsCachedWithoutAKey(t *testing.T) {
	t.Parallel()
	g := gateway.Run(t, gateway.Options{})
	a := forms[0].about("demo", "hi")
	for _, want := range []string{"miss", "hash"} {
		c := a.call()
		c.NoKey = true
		if k := known(t, a, g.Do(t, c)); k != want {
			t.Errorf("the cache says %q, want %q", k, want)
		}
	}
	mustKnow(t, g, a, "miss")
}

// TestAClientThatLeavesAStoredStream ends it, and nothing stays open.
func TestAClientThatLeavesAStoredStream(t *testing.T) {
	t.Parallel()
	g, o, _, _ := cached(t)
	o.Behave(fake.Behaviour{Tokens: 300})
	a := forms[1].about("gpt-x", "and gone")
	mustKnow(t, g, a, "miss")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res, err := g.Open(ctx, a.call())
	if err != nil {
		t.Fatal(err)
	}
	r := gateway.NewReader(res.Body)
	for range 4 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	_ = res.Body.Close()
	eventually(t, "the end of the exchange", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") == 0 })
	var rec struct{ Status, Cache string }
	eventually(t, "its record", func() bool {
		got := g.Do(t, gateway.Call{Path: "/v1/requests/" + res.Header.Get("X-Request-Id")})
		if got.Status != http.StatusOK {
			return false
		}
		got.JSON(t, &rec)
		return true
	})
	if rec.Status != "cancelled" || rec.Cache != "hash" {
		t.Errorf("record %+v", rec)
	}
}
