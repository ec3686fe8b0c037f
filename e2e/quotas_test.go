package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/mdtest"
	"bardo.money/gateway/internal/redistest"
)

// documentedQuotas is the example of docs/operations.md, with a day in place of the minute, so that no window ends during a test.
func documentedQuotas(t *testing.T) string {
	t.Helper()
	const page = "docs/operations.md"
	for _, b := range mdtest.Blocks(page, documents(t)[page]) {
		if strings.Contains(b.Text, "quotas:") {
			return strings.Replace(b.Text, "window: 1m", "window: 24h", 1) + "  rpm: 0\n"
		}
	}
	t.Fatalf("%s has no example of quotas", page)
	return ""
}

// exceeds checks a refusal by a quota in the format of a request.
func exceeds(t *testing.T, a ask, got gateway.Answer, text string, most int) {
	t.Helper()
	mustFail(t, a, got, http.StatusTooManyRequests, "rate_limit_exceeded")
	if retryAfter(t, got, most); errorType(t, got) != "rate_limit_error" || !strings.Contains(got.Body, text) {
		t.Errorf("%s, want %q", got.Body, text)
	}
}

// upTo is a request that may have so many tokens in its answer.
func upTo(a ask, model string, tokens int) ask {
	a.model, a.tokens = model, tokens
	return a
}

const oneDay = 24 * 60 * 60

// TestQuotasCountAnExpression runs the documented example: in every format, streamed and not, on both paths.
func TestQuotasCountAnExpression(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 500, Output: 18500, Reasoning: 500}})
	dear := []gateway.Model{{ID: "dear", Price: "{input: 1, output: 800}"}}
	g := gateway.Run(t, gateway.Options{Config: documentedQuotas(t), Providers: []gateway.Provider{
		{ID: "one", Fake: p, Models: append(append(models("alone", ""), models("backed", "")...), dear...)}, {ID: "two", Fake: p, Models: models("backed", "")},
	}})
	for i, form := range forms {
		model := []string{"alone", "backed"}[i%2]
		t.Run(form.form()+" "+model, func(t *testing.T) {
			k := g.CreateKey(t, "--name", fmt.Sprint("k-", i), "--tier", "free")
			a := upTo(form, model, 1000)
			text(t, a, g.Do(t, a.with(k.Key))) // counts 500 + 5 * 18500 of 100000
			a = upTo(form, model, 2000)
			exceeds(t, a, g.Do(t, a.with(k.Key)), "are left of the quota weighted-tokens of 100000 per 24h: set a lower max_tokens", oneDay)
			var record struct {
				Message string `json:"error_message"`
			}
			got := g.Do(t, a.with(k.Key))
			get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &record)
			if !strings.Contains(record.Message, "the quota weighted-tokens") {
				t.Errorf("the record has the message %q", record.Message)
			}
			a = upTo(form, model, 30000)
			exceeds(t, a, g.Do(t, a.with(k.Key)), "more than the quota weighted-tokens of 100000 per 24h allows", oneDay)
			a = upTo(form, model, 1000)
			text(t, a, g.Do(t, a.with(k.Key)))
			exceeds(t, a, g.Do(t, a.with(k.Key)), "the quota weighted-tokens of 100000 per 24h is used up", oneDay)
			if got := g.Do(t, a.with(g.CreateKey(t, "--name", fmt.Sprint("pro-", i)).Key)); got.Status != http.StatusOK {
				t.Errorf("a key of another plan: %d %s", got.Status, got.Body)
			}
			if got := g.Do(t, a.with(k.Key, "X-Bardo-Route: explain")); got.Status != http.StatusOK {
				t.Errorf("a dry run: %d %s", got.Status, got.Body)
			}
		})
	}
	t.Run("money of a project", func(t *testing.T) {
		g.Bardo(t, "owners", "create", "acme")
		g.Bardo(t, "projects", "create", "web", "--owner", "acme")
		one, two := g.CreateKey(t, "--name", "one", "--project", "web"), g.CreateKey(t, "--name", "two", "--project", "web")
		a := upTo(forms[2], "dear", 10000)
		text(t, a, g.Do(t, a.with(one.Key))) // 14.8 USD, and the spread
		exceeds(t, a, g.Do(t, a.with(two.Key)), "are left of the quota project-money of 20 per 24h", oneDay)
		a = upTo(forms[1], "dear", 1000)
		text(t, a, g.Do(t, a.with(two.Key)))
		exceeds(t, a, g.Do(t, a.with(one.Key)), "the quota project-money of 20 per 24h is used up", oneDay)
		if got := g.Do(t, a.with(g.CreateKey(t, "--name", "alone").Key)); got.Status != http.StatusOK {
			t.Errorf("a key without a project: %d %s", got.Status, got.Body)
		}
	})
}

// TestRequestsAtTheSameTimeFitIntoAQuota: what they may use at most is held until they end, and what they did not use is free again.
func TestRequestsAtTheSameTimeFitIntoAQuota(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	g, p := one(t, documentedQuotas(t))
	p.Behave(slow)
	for i, form := range forms {
		t.Run(form.form(), func(t *testing.T) {
			t.Parallel()
			k := g.CreateKey(t, "--name", fmt.Sprint("k-", i), "--tier", "free")
			a := upTo(form, "m", 12000)
			got := atOnce(t, g, 5, a.with(k.Key))
			if n := byStatus(t, a, got); n[http.StatusOK] != 1 || n[http.StatusTooManyRequests] != 4 {
				t.Fatalf("answers %v, want one 200 and four 429", n)
			}
			for _, r := range got {
				if r.Status != http.StatusOK {
					exceeds(t, a, r, "the requests under way hold what is left of the quota weighted-tokens", 1)
				}
			}
			text(t, a, g.Do(t, a.with(k.Key)))
		})
	}
}

// TestD55QuotasCountCriticalRequestsAndRefuseNone of a prepaid key.
func TestD55QuotasCountCriticalRequestsAndRefuseNone(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	g, p := one(t, documentedQuotas(t))
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 500, Output: 20000}})
	k := g.CreateKey(t, "--name", "k", "--balance-usd", "5", "--tier", "free")
	a := upTo(forms[0], "m", 1000)
	for range 3 {
		if got := g.Do(t, a.with(k.Key, "X-Bardo-Subsystem: risk")); got.Status != http.StatusOK {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
	}
	exceeds(t, a, g.Do(t, a.with(k.Key)), "is used up", oneDay)
}

// TestB23PoliciesAreCheckedWhenTheyAreWritten: a bad expression, of a quota or of a rule for tools, is refused with its place, and the policy before stays in
// force. A good one is reloaded; counters stay. A stream that is under way meanwhile is complete, and counts.
func TestB23PoliciesAreCheckedWhenTheyAreWritten(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	policies := func(limit int, cost, condition string) string {
		return fmt.Sprintf("limits: {rpm: 0, quotas: [{name: output, window: 24h, limit: %d, cost: %q}]}\n"+
			"pipeline: {firewall: {rules: [{id: amount, tools: [transfer], condition: %q}]}}\n", limit, cost, condition)
	}
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 200}})
	p.BehaveFor("slow", fake.Behaviour{Tokens: 40, Gap: 100 * time.Millisecond, Usage: &fake.Usage{Input: 10, Output: 300}})
	const good = "args.amount <= 5.0"
	o := gateway.Options{Config: policies(300, "output_tokens", good), Providers: []gateway.Provider{{ID: "own", Fake: p, Models: append(models("m", ""), models("slow", "")...)}}}
	g := gateway.Run(t, o)
	slowKey := g.CreateKey(t, "--name", "slow")
	slowly := upTo(forms[1], "slow", 300)
	stream := beginCall(t, g, slowly, slowly.with(slowKey.Key))
	k, a := g.CreateKey(t, "--name", "k"), upTo(forms[1], "m", 200)
	text(t, a, g.Do(t, a.with(k.Key)))
	exceeds(t, a, g.Do(t, a.with(k.Key)), "the quota output of 300 per 24h", oneDay)
	for _, bad := range []struct{ config, at, text string }{
		{policies(3000, "output", good), "limits.quotas[0].cost: ", "undeclared reference to 'output'"},
		{policies(3000, "model", good), "limits.quotas[0].cost: ", "of the type string, not a number"},
		{policies(3000, "1 / output_tokens", good), "limits.quotas[0].cost: ", "division by zero"},
		{policies(3000, "output_tokens", "args.amount <= "), "pipeline.firewall.rules[0].condition: ", "Syntax error"},
		{policies(3000, "output_tokens", "amount <= 5"), "pipeline.firewall.rules[0].condition: ", "undeclared reference to 'amount'"},
	} {
		o.Config = bad.config
		g.Configure(t, o)
		if r := g.Try(t, "config", "reload"); r.Code != 2 || !strings.Contains(r.Stderr, bad.at) || !strings.Contains(r.Stderr, bad.text) {
			t.Errorf("exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		if r := g.Try(t, "config", "check", "-c", g.File); r.Code == 0 || !strings.Contains(r.Stderr, bad.text) {
			t.Errorf("config check: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
		}
		exceeds(t, a, g.Do(t, a.with(k.Key)), "the quota output of 300 per 24h", oneDay)
	}
	o.Config = policies(400, "output_tokens", "args.amount <= 6.0")
	reload(t, g, o)
	text(t, a, g.Do(t, a.with(k.Key)))
	exceeds(t, a, g.Do(t, a.with(k.Key)), "the quota output of 400 per 24h is used up", oneDay)
	if got := stream.finish(t); got != words(40) {
		t.Errorf("the stream that was under way says %q", got)
	}
	exceeds(t, a, g.Do(t, a.with(slowKey.Key)), "but 100 are left of the quota output", oneDay)
}

// TestTwoGatewaysShareAQuota, and while their Redis is away, what limits.when_away says holds.
func TestTwoGatewaysShareAQuota(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	server := redistest.Start(t)
	gs, p := limitSharers(t, server, "limits: {rpm: 0, quotas: [{name: output, window: 24h, limit: 1000, cost: output_tokens}]}\n")
	k, a := gs[0].CreateKey(t, "--name", "k"), upTo(forms[0], "m", 100)
	for i := range 10 { // 100 each
		a := upTo(forms[i%len(forms)], "m", 100)
		var got gateway.Answer
		eventually(t, "the quota has room", func() bool { // what the one before did not use is stored after its answer
			got = gs[i%2].Do(t, a.with(k.Key))
			return got.Status == http.StatusOK
		})
	}
	for _, g := range gs {
		eventually(t, "the quota is used up", func() bool {
			got := g.Do(t, a.with(k.Key))
			return got.Status == http.StatusTooManyRequests && strings.Contains(got.Body, "the quota output of 1000 per 24h is used up")
		})
	}
	p.Behave(fake.Behaviour{HeaderDelay: 2 * time.Second, Usage: &fake.Usage{Input: 1, Output: 1}})
	other := gs[0].CreateKey(t, "--name", "other")
	wide := upTo(forms[0], "m", 600)
	answers := make(chan int, 2)
	for _, g := range gs {
		go func() { answers <- g.Do(t, wide.with(other.Key)).Status }()
	}
	if first, second := <-answers, <-answers; first+second != http.StatusOK+http.StatusTooManyRequests {
		t.Errorf("at two gateways at the same time: %d and %d", first, second)
	}
	server.Kill()
	for _, g := range gs {
		eventually(t, "it is refused without Redis", func() bool {
			got := g.Do(t, a.with(gs[0].CreateKey(t, "--name", "new").Key))
			return got.Status == http.StatusServiceUnavailable && strings.Contains(got.Body, "cannot be checked at the moment")
		})
	}
}
