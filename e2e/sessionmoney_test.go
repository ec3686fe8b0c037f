package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// TestC16ADeferredRequestHoldsItsSessionsBudget from its acceptance to its answer, over a restart, and not after its cancellation; it belongs to the session of the
// key that it was sent with, and is answered by the models of that session.
func TestC16ADeferredRequestHoldsItsSessionsBudget(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 500, Output: 500}})
	options := gateway.Options{Config: quick, Home: proctest.Dir(t), Providers: []gateway.Provider{{
		ID: "own", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 2, output: 2}", More: "quality: low"}, {ID: "n", Price: "{input: 1, output: 1}", More: "quality: low"}},
	}}}
	l := &sessionLab{p: p, Gateway: gateway.Run(t, options)}
	l.owner = l.CreateKey(t, "--name", "owner", "--balance-usd", "5")
	s := l.create(t, l.owner.Key, `{"models":["m"],"budget_usd":0.004}`)
	later := func(want int) (r accepted) {
		t.Helper()
		got := l.say(t, s.Key, "auto", 1000, "X-Bardo-Defer: 1h")
		if got.Status != want {
			t.Fatalf("%d %s", got.Status, got.Body)
		}
		if want == http.StatusAccepted {
			got.JSON(t, &r)
		}
		return r
	}
	p.Behave(fake.Behaviour{HeaderDelay: 2 * time.Second, Usage: &fake.Usage{Input: 500, Output: 500}})
	first := later(http.StatusAccepted)
	if now := l.show(t, s.Key, s.ID); now.Held == "0.000000" || now.Used != "0.000000" {
		t.Errorf("%+v", now)
	}
	later(http.StatusTooManyRequests)
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/" + first.ID, Key: l.owner.Key}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 500, Output: 500}})
	eventually(t, "the end of the cancelled request", func() bool { return l.show(t, s.Key, s.ID).Held == "0.000000" })
	if got := l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/sessions/" + s.ID, Key: l.owner.Key}); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}

	s = l.create(t, l.owner.Key, `{"models":["m"],"budget_usd":0.004}`)
	second := later(http.StatusAccepted)
	var got gateway.Answer
	eventually(t, "the answer", func() bool {
		got = l.Do(t, gateway.Call{Path: second.AnswerURL, Key: l.owner.Key})
		return got.Status != http.StatusAccepted
	})
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "m" {
		t.Fatalf("%d by %s: %s", got.Status, got.Header.Get("X-Bardo-Model"), got.Body)
	}
	eventually(t, "the request's cost in its session", func() bool {
		now := l.show(t, s.Key, s.ID)
		return now.Held == "0.000000" && string(now.Used) == got.Header.Get("X-Bardo-Cost")
	})
	l.AssertSound(t)
}

// TestC16ASessionsBudgetPaysForSideCalls, and only of its own models: a request that its session cannot pay for has no cheap model called.
func TestC16ASessionsBudgetPaysForSideCalls(t *testing.T) {
	t.Parallel()
	g, lead, helper := helpers(t, fmt.Sprintf(summaries, "on"))
	owner := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	l := &sessionLab{p: lead, Gateway: g}
	h := history{model: "big", secret: "the blue folder", turns: 14, more: `,"max_tokens":100`}
	for _, row := range []struct {
		session        string
		status, helped int
	}{
		{`{"budget_usd":0.00001}`, http.StatusTooManyRequests, 0},
		{`{"budget_usd":5,"models":["big"]}`, http.StatusOK, 0},
		{`{"budget_usd":5,"models":["big","mini"]}`, http.StatusOK, 1},
	} {
		s := l.create(t, owner, row.session)
		h.secret += "."
		helper.Forget()
		before := balanceOf(t, g, owner)
		got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: s.Key, Body: h.body("What is next?")})
		if n := len(helper.Generations()); got.Status != row.status || n != row.helped {
			t.Errorf("%s: %d with %d side calls: %s", row.session, got.Status, n, got.Body)
		}
		var charged string
		eventually(t, "the cost in the session", func() bool {
			now := l.show(t, s.Key, s.ID)
			charged = string(now.Used)
			return now.Held == "0.000000" && charged == microUSD(before-balanceOf(t, g, owner))
		})
		if row.status != http.StatusOK && charged != "0.000000" {
			t.Errorf("%s: a refused request cost %s", row.session, charged)
		}
	}
	g.AssertSound(t)
}

// microUSD is an amount as the gateway writes it.
func microUSD(n int64) string { return fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000) }

// TestC16ASecondModelIsOneOfTheSessions: neither a verifier nor a better tier is a model that the session may not use.
func TestC16ASecondModelIsOneOfTheSessions(t *testing.T) {
	t.Parallel()
	g, lead, other := startTwoFamilies(t, "")
	says(lead, assessment(true, 5, "x"), 100, 50)
	says(other, assessment(true, 5, "x"), 100, 50)
	l := &sessionLab{p: lead, Gateway: g}
	owner := g.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
	for _, row := range []struct {
		models string
		asked  int
	}{{`["claude-opus-4-6"]`, 0}, {`["claude-opus-4-6","gpt-4.1"]`, 1}} {
		other.Forget()
		s := l.create(t, owner, `{"models":`+row.models+`}`)
		got := g.Do(t, gateway.Call{
			Path: "/v1/chat/completions", Key: s.Key, Header: []string{"X-Bardo-Subsystem: risk", "X-Bardo-Verify: true"},
			Body: ask{dialect: fake.OpenAI, model: "claude-opus-4-6"}.body(),
		})
		if got.Status != http.StatusOK || len(other.Generations()) != row.asked {
			t.Errorf("%s: %d, %d second opinions: %s", row.models, got.Status, len(other.Generations()), got.Body)
		}
		if skipped := strings.HasPrefix(got.Header.Get("X-Bardo-Verified"), "skipped"); skipped != (row.asked == 0) {
			t.Errorf("%s: verified: %q", row.models, got.Header.Get("X-Bardo-Verified"))
		}
	}
	g.AssertSound(t)
}
