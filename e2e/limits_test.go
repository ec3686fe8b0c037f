package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy"
)

// atOnce sends the same call n times at the same time and returns the answers.
func atOnce(t *testing.T, g *gateway.Gateway, n int, c gateway.Call) []gateway.Answer {
	t.Helper()
	got := make([]gateway.Answer, n)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i] = g.Do(t, c) })
	}
	wg.Wait()
	return got
}

// byStatus counts answers, and reads the text of one that was served.
func byStatus(t *testing.T, a ask, answers []gateway.Answer) map[int]int {
	t.Helper()
	n := map[int]int{}
	for _, got := range answers {
		if n[got.Status]++; got.Status == http.StatusOK {
			text(t, a, got)
		}
	}
	return n
}

// retryAfter checks an answer's Retry-After: whole seconds, from 1 to most.
func retryAfter(t *testing.T, got gateway.Answer, most int) {
	t.Helper()
	n, err := strconv.Atoi(got.Header.Get("Retry-After"))
	if err != nil || n < 1 || n > most {
		t.Errorf("Retry-After %q, want 1 to %d", got.Header.Get("Retry-After"), most)
	}
}

// slow leaves time for others to come while a request is under way.
var slow = fake.Behaviour{HeaderDelay: 2 * time.Second, Usage: &fake.Usage{Input: 10, Output: 20}}

// TestK70FiveAtOnceWithMoneyForOne: what one request may cost is set aside, so the others are refused and not served for nothing.
func TestK70FiveAtOnceWithMoneyForOne(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(slow)
	o := gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "one", Fake: p, Models: append(models("alone", ""), models("backed", "")...)}, {ID: "two", Fake: p, Models: models("backed", "")},
	}}
	g := gateway.Run(t, o)
	// 100 tokens of output may cost 240 millionths, and the input some 30.
	for i, r := range []struct {
		name    string
		ask     ask
		key     []string
		refused int
		code    string
	}{
		{"balance, JSON", ask{dialect: fake.OpenAI, model: "alone", more: `"max_tokens":100`}, []string{"--balance-usd", "0.0004"}, 402, "insufficient_balance"},
		{"balance, alone", ask{dialect: fake.Anthropic, model: "alone", stream: true}, []string{"--balance-usd", "0.0004"}, 402, "insufficient_balance"},
		{"balance, backed", ask{dialect: fake.OpenAI, model: "backed", stream: true, more: `"max_completion_tokens":100`}, []string{"--balance-usd", "0.0004"}, 402, "insufficient_balance"},
		{"daily limit, JSON", ask{dialect: fake.OpenAI, model: "alone", more: `"max_tokens":100`}, []string{"--limit-usd-day", "0.0004"}, 429, "budget_exceeded"},
		{"daily limit, backed", ask{dialect: fake.Anthropic, model: "backed", stream: true}, []string{"--limit-usd-day", "0.0004"}, 429, "budget_exceeded"},
		{"daily limit of a prepaid key", ask{dialect: fake.OpenAI, model: "alone", stream: true, more: `"max_tokens":100`}, []string{"--balance-usd", "5", "--limit-usd-day", "0.0004"}, 429, "budget_exceeded"},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			k := g.CreateKey(t, append([]string{"--name", "k-" + strconv.Itoa(i)}, r.key...)...)
			got := atOnce(t, g, 5, r.ask.with(k.Key))
			if n := byStatus(t, r.ask, got); n[http.StatusOK] != 1 || n[r.refused] != 4 {
				t.Fatalf("answers %v, want one 200 and four %d", n, r.refused)
			}
			for _, a := range got {
				if a.Status == http.StatusOK {
					continue
				}
				mustFail(t, r.ask, a, r.refused, r.code)
				if r.refused == http.StatusTooManyRequests {
					retryAfter(t, a, 1) // until the one under way has ended
				}
			}
			if f := fundsOf(t, g, k.Key); f.Held != "0.000000" {
				t.Errorf("%s is still held", f.Held)
			}
			// K-71: what was not used is free again at once.
			if got := g.Do(t, r.ask.with(k.Key)); got.Status != http.StatusOK {
				t.Errorf("afterwards: %d %s", got.Status, got.Body)
			}
		})
	}
}

// TestK71NoStaleRefusal: a budget that is raised, lifted or filled up counts at once, also for who was refused before.
func TestK71NoStaleRefusal(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	g, p := one(t, quick)
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 20}})
	a := ask{dialect: fake.OpenAI, model: "m", more: `"max_tokens":100`}
	t.Run("raised", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "raised", "--limit-usd-day", "0.0001")
		got := g.Do(t, a.with(k.Key))
		mustFail(t, a, got, http.StatusTooManyRequests, "budget_exceeded")
		retryAfter(t, got, 24*60*60)
		var record struct{ Budget policy.OverBudget }
		get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &record)
		if b := record.Budget; b.Holder != policy.OfKey || b.ID != k.ID || b.Period != "day" || b.Limit != 100 || b.Left != 100 || b.MaxCost <= 100 || b.Action != "refused" || !b.RetryAt.After(time.Now()) {
			t.Errorf("the record has the budget %+v", b)
		}
		var balance struct {
			Limits []struct {
				Period   string
				Limit    policy.Micro `json:"limit_usd"`
				Spent    policy.Micro `json:"spent_usd"`
				ResetsAt time.Time    `json:"resets_at"`
			}
		}
		get(t, g, k.Key, "/v1/balance", &balance)
		if l := balance.Limits; len(l) != 1 || l[0].Period != "day" || l[0].Limit != 100 || l[0].Spent != 0 || !l[0].ResetsAt.After(time.Now()) {
			t.Errorf("GET /v1/balance has the limits %+v", l)
		}
		eventually(t, "usage by key, with its name", func() bool {
			return regexp.MustCompile(`(?m)^` + k.ID + ` +raised +1 `).MatchString(g.Bardo(t, "usage", "--by", "key"))
		})
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-day", "1")
		eventually(t, "the raised limit", func() bool { return g.Do(t, a.with(k.Key)).Status == http.StatusOK })
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-day", "0.0001")
		eventually(t, "the lowered limit", func() bool { return g.Do(t, a.with(k.Key)).Status == http.StatusTooManyRequests })
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-day", "0")
		eventually(t, "the lifted limit", func() bool { return g.Do(t, a.with(k.Key)).Status == http.StatusOK })
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-month", "5")
		eventually(t, "the limit for the month", func() bool {
			get(t, g, k.Key, "/v1/balance", &balance)
			l := balance.Limits
			return len(l) == 1 && l[0].Period == "month" && l[0].Limit == 5_000_000 && l[0].Spent > 0
		})
	})
	t.Run("filled up", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "empty", "--balance-usd", "0")
		mustFail(t, a, g.Do(t, a.with(k.Key)), http.StatusPaymentRequired, "insufficient_balance")
		g.Bardo(t, "deposit", k.ID, "--usd", "1", "--ref", "r")
		if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
			t.Errorf("after the deposit: %d %s", got.Status, got.Body)
		}
	})
	t.Run("none set", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "free")
		for range 5 {
			if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
		}
	})
	t.Run("spent before a restart", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "spender", "--limit-usd-day", "0.0003")
		if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusTooManyRequests {
			t.Fatalf("beyond the limit: %d %s", got.Status, got.Body)
		}
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		again := gateway.Run(t, gateway.Options{Config: quick, Home: g.Home, NoKey: true, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: models("m", "")}}})
		mustFail(t, a, again.Do(t, a.with(k.Key)), http.StatusTooManyRequests, "budget_exceeded")
	})
}

// TestK72TheAllowanceIsCrossedInsideAStream: this one completes, and the next is refused until the hour is over.
func TestK72TheAllowanceIsCrossedInsideAStream(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 400, Output: 601}})
	g := gateway.Run(t, gateway.Options{Config: "limits: {rpm: 0, tokens_per_hour: 2000}\n", Providers: []gateway.Provider{
		{ID: "one", Fake: p, Models: append(models("alone", ""), models("backed", "")...)}, {ID: "two", Fake: p, Models: models("backed", "")},
	}})
	for i, a := range []ask{
		{dialect: fake.OpenAI, model: "alone", stream: true}, {dialect: fake.Anthropic, model: "backed", stream: true}, {dialect: fake.Anthropic, model: "alone"},
	} {
		t.Run(fmt.Sprintf("%s/%s/stream=%v", a.model, a.dialect, a.stream), func(t *testing.T) {
			k := g.CreateKey(t, "--name", "k-"+strconv.Itoa(i), "--balance-usd", "1")
			for _, left := range []int64{999, 0} {
				got := g.Do(t, a.with(k.Key))
				if s := text(t, a, got); s != "Hello from the fake provider." {
					t.Errorf("says %q", s)
				}
				if a.stream {
					if s := summaryOf(t, got); s.RemainingTokens == nil || *s.RemainingTokens != left {
						t.Errorf("summary %+v, want %d left", s, left)
					}
				} else if got.Header.Get("X-Remaining-Tokens") != strconv.FormatInt(left, 10) {
					t.Errorf("X-Remaining-Tokens %q, want %d", got.Header.Get("X-Remaining-Tokens"), left)
				}
				if f := fundsOf(t, g, k.Key); f.RemainingTokens == nil || *f.RemainingTokens != left {
					t.Errorf("GET /v1/balance says %+v, want %d left", f, left)
				}
			}
			p.Forget()
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusTooManyRequests, "token_allowance_exhausted")
			if retryAfter(t, got, 3600); errorType(t, got) != "rate_limit_error" || len(p.Generations()) != 0 {
				t.Errorf("%s, %d calls", got.Body, len(p.Generations()))
			}
		})
	}
}

// TestRateLimit: a burst of a full minute, then 429 until the next one's turn; looking something up has ten times as much.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	g, p := one(t, "limits: {rpm: 2}\n")
	for i, r := range []struct {
		flag  []string
		rpm   int
		asked ask
	}{
		{nil, 2, both[0]}, {[]string{"--rpm", "4"}, 4, both[1]}, {[]string{"--rpm", "3"}, 3, both[2]},
	} {
		t.Run(fmt.Sprintf("%d a minute", r.rpm), func(t *testing.T) {
			k := g.CreateKey(t, append([]string{"--name", "k-" + strconv.Itoa(i)}, r.flag...)...)
			share := 60 / r.rpm
			p.Forget()
			if n := byStatus(t, r.asked, atOnce(t, g, r.rpm, r.asked.with(k.Key))); n[http.StatusOK] != r.rpm {
				t.Fatalf("a burst of a minute: %v", n)
			}
			got := g.Do(t, r.asked.with(k.Key))
			mustFail(t, r.asked, got, http.StatusTooManyRequests, "rate_limit_exceeded")
			if retryAfter(t, got, share); errorType(t, got) != "rate_limit_error" || len(p.Generations()) != r.rpm {
				t.Errorf("%s, %d calls", got.Body, len(p.Generations()))
			}

			count := gateway.Call{Path: "/v1/messages/count_tokens", Body: `{"model":"m","messages":[{"role":"user","content":"x"}]}`, Key: k.Key, Header: []string{"anthropic-version: 2023-06-01"}}
			lookups := atOnce(t, g, 5*r.rpm, count)
			lookups = append(lookups, atOnce(t, g, 5*r.rpm, gateway.Call{Path: "/v1/models", Key: k.Key})...)
			for _, l := range lookups {
				if l.Status != http.StatusOK {
					t.Fatalf("within ten times the rate: %d %s", l.Status, l.Body)
				}
			}
			last := atOnce(t, g, 4*r.rpm, gateway.Call{Path: "/v1/balance", Key: k.Key})
			refused := 0
			for _, l := range last {
				if l.Status == http.StatusTooManyRequests {
					refused++
					retryAfter(t, l, share/10+1)
				}
			}
			if refused == 0 {
				t.Error("lookups have no limit")
			}
			g.Bardo(t, "keys", "update", k.ID, "--rpm", "0")
			eventually(t, "no limit", func() bool { return g.Do(t, r.asked.with(k.Key)).Status == http.StatusOK })
		})
	}
}
