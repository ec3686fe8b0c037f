package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// laddered is a gateway whose models cost ten times as much as the next: 100 tokens of an answer may cost $0.1 of big, and $0.01 of mid.
type laddered struct {
	*gateway.Gateway

	p   *fake.Server
	dir string // with the file events
}

// ladderPrices are those of the models; ladderRules have requests fall from one to the next.
var ladderPrices = []gateway.Model{
	{ID: "big", Price: "{input: 0, output: 1000}"},
	{ID: "mid", Price: "{input: 0, output: 100}"},
	{ID: "small", Price: "{input: 0, output: 10}"},
	{ID: "other", Price: "{input: 0, output: 1000}"},
	{ID: "nothing", Price: "{input: 0, output: 0}"},
}

const ladderRules = "limits: {rpm: 0, ladder: {sizes: [big, mid, small]}}\n"

func runLadder(t *testing.T, config string) *laddered {
	t.Helper()
	l := &laddered{p: fake.Start(t, fake.Config{Dialect: fake.OpenAI}), dir: proctest.Dir(t)}
	l.p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 100}})
	l.Gateway = gateway.Run(t, gateway.Options{
		Config:    fmt.Sprintf("%stelemetry: {events: %q}\n", config, "file:"+filepath.Join(l.dir, "events")),
		Providers: []gateway.Provider{{ID: "own", Fake: l.p, Models: ladderPrices}},
	})
	return l
}

// ofBig asks a model for at most 100 tokens, without the caches.
func ofBig(form ask, model string) ask {
	form.model = model
	if form.dialect == fake.OpenAI { // the other has it anyway
		form.more = `"max_tokens":100`
	}
	return form
}

// decided is the decision in a request's record.
func (l *laddered) decided(t *testing.T, key string, got gateway.Answer) (d struct {
	Decision struct {
		Action, Reason    string
		Asked             string `json:"asked_model"`
		Alternative       string `json:"alternative_model"`
		RetryAfterSeconds int    `json:"retry_after_s"`
	} `json:"budget_decision"`
},
) {
	t.Helper()
	get(t, l.Gateway, key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &d)
	return d
}

// TestX08ARequestOverItsBudgetGoesToACheaperModel: down the ladder as far as it must, and no farther; and it is refused where none fits. In each form.
func TestX08ARequestOverItsBudgetGoesToACheaperModel(t *testing.T) {
	t.Parallel()
	l := runLadder(t, ladderRules)
	for _, form := range forms {
		for _, c := range []struct{ limit, asked, model string }{
			{"0.5", "big", "big"}, {"0.05", "big", "mid"}, {"0.005", "big", "small"}, {"0.005", "mid", "small"}, {"0.0005", "big", ""}, {"0.05", "other", ""},
		} {
			t.Run(form.form()+"/"+c.asked+" of "+c.limit, func(t *testing.T) {
				k := l.CreateKey(t, "--name", "k", "--limit-usd-day", c.limit)
				got := l.Do(t, ofBig(form, c.asked).with(k.Key))
				if c.model == "" {
					mustFail(t, form, got, http.StatusTooManyRequests, "budget_exceeded")
					if got.Header.Get("Retry-After") == "" {
						t.Error("there is no Retry-After")
					}
					if d := l.decided(t, k.Key, got).Decision; d.Action != "blocked" || d.Asked != c.asked || d.Alternative != "" || d.RetryAfterSeconds <= 0 || d.Reason == "" {
						t.Errorf("the record says %+v", d)
					}
					return
				}
				said := got.Header.Get("X-Bardo-Degraded")
				if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != c.model {
					t.Fatalf("%d by %q: %s", got.Status, got.Header.Get("X-Bardo-Model"), got.Body)
				}
				if text(t, form, got) == "" {
					t.Error("there is no answer")
				}
				d := l.decided(t, k.Key, got).Decision
				if c.model == c.asked {
					if said != "" || d.Action != "" {
						t.Errorf("degraded %q, record %+v", said, d)
					}
					return
				}
				if said != "model:"+c.asked+"->"+c.model {
					t.Errorf("degraded %q", said)
				}
				if d.Action != "downgraded" || d.Asked != c.asked || d.Alternative != c.model || d.RetryAfterSeconds <= 0 || d.Reason == "" {
					t.Errorf("the record says %+v", d)
				}
			})
		}
	}
	eventually(t, "the events", func() bool { return len(modelEvents(t, l.dir, "inference:budget_decision")) >= 5*len(forms) })
}

// TestD55CheaperModelsOverspendNothing: many at once, with money for two of the middle one.
func TestD55CheaperModelsOverspendNothing(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	l := runLadder(t, ladderRules)
	k := l.CreateKey(t, "--name", "k", "--limit-usd-day", "0.025")
	var by sync.Map
	count := func(model string) *atomic.Int64 {
		n, _ := by.LoadOrStore(model, &atomic.Int64{})
		return n.(*atomic.Int64) //nolint:forcetypeassert // nothing else is stored
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			a := ofBig(forms[i%len(forms)], "big")
			a.say = fmt.Sprint("request ", i)
			got := l.Do(t, a.with(k.Key))
			if got.Status == http.StatusOK {
				count(got.Header.Get("X-Bardo-Model")).Add(1)
			} else if got.Status != http.StatusTooManyRequests {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	big, mid, small := count("big").Load(), count("mid").Load(), count("small").Load()
	if spent := 100*big + 10*mid + small; spent > 25 || mid != 2 && small == 0 {
		t.Errorf("%d of big, %d of mid, %d of small: $0.%03d of $0.025", big, mid, small, spent)
	}
}

// TestD55CriticalRequestsKeepTheirModel: budgets neither replace their model nor refuse them, where a balance stops them; else they are refused.
func TestD55CriticalRequestsKeepTheirModel(t *testing.T) {
	t.Parallel()
	l := runLadder(t, ladderRules)
	prepaid := l.CreateKey(t, "--name", "prepaid", "--limit-usd-day", "0.05", "--balance-usd", "5")
	metered := l.CreateKey(t, "--name", "metered", "--limit-usd-day", "0.05")
	for _, subsystem := range []string{"risk", "operator", "death"} {
		c := ofBig(forms[0], "big").call("X-Bardo-Subsystem: " + subsystem)
		for range 2 { // the second with the day's limit used up
			c.Key = prepaid.Key
			if got := l.Do(t, c); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "big" {
				t.Errorf("%s: %d %s %s", subsystem, got.Status, got.Header.Get("X-Bardo-Model"), got.Body)
			}
		}
		c.Key = metered.Key
		if got := l.Do(t, c); got.Status != http.StatusTooManyRequests {
			t.Errorf("%s without a balance: %d %s", subsystem, got.Status, got.Header.Get("X-Bardo-Model"))
		}
	}
	if got := l.Do(t, ofBig(forms[0], "small").with(prepaid.Key)); got.Status != http.StatusTooManyRequests {
		t.Errorf("what critical requests spent does not count: %d", got.Status)
	}
}

// TestX08ASessionsBudgetMovesToACheaperModel.
func TestX08ASessionsBudgetMovesToACheaperModel(t *testing.T) {
	t.Parallel()
	l := runLadder(t, ladderRules)
	k := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	var s sessionReply
	l.Do(t, gateway.Call{Path: "/v1/sessions", Key: k.Key, Body: `{"budget_usd": 0.05}`}).JSON(t, &s)
	got := l.Do(t, ofBig(forms[0], "big").with(s.Key))
	if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "mid" {
		t.Errorf("%d %s %s", got.Status, got.Header.Get("X-Bardo-Model"), got.Body)
	}
}

// TestB20AFreeModelServesWhoHasNothingLeft, visibly, and in each form.
func TestB20AFreeModelServesWhoHasNothingLeft(t *testing.T) {
	t.Parallel()
	l := runLadder(t, quick+"billing: {when_empty: free}\n")
	k := l.CreateKey(t, "--name", "empty", "--balance-usd", "0")
	little := l.CreateKey(t, "--name", "little", "--balance-usd", "0.05")
	for _, form := range forms {
		for _, key := range []string{k.Key, little.Key} {
			got := l.Do(t, ofBig(form, "big").with(key))
			if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Model") != "nothing" || got.Header.Get("X-Bardo-Degraded") != "free_model:big->nothing" {
				t.Fatalf("%s: %d by %q, degraded %q: %s", form.form(), got.Status, got.Header.Get("X-Bardo-Model"), got.Header.Get("X-Bardo-Degraded"), got.Body)
			}
			if text(t, form, got) == "" {
				t.Error("there is no answer")
			}
			if d := l.decided(t, key, got).Decision; d.Action != "downgraded" || d.Asked != "big" || d.Alternative != "nothing" {
				t.Errorf("the record says %+v", d)
			}
		}
	}
	for _, r := range l.p.Generations() {
		if !strings.Contains(string(r.Body), `"nothing"`) {
			t.Errorf("the provider was asked %s", r.Body)
		}
	}
	var f funds
	get(t, l.Gateway, little.Key, "/v1/balance", &f)
	if f.Balance == nil || f.Balance.String() != "0.050000" {
		t.Errorf("the balance is %v", f.Balance)
	}
	eventually(t, "the events", func() bool { return len(modelEvents(t, l.dir, "inference:budget_decision")) == 2*len(forms) })

	c := ofBig(forms[0], "big").call("X-Bardo-Route: explain")
	if c.Key = k.Key; !strings.Contains(l.Do(t, c).Body, `"reason": "the balance is empty"`) {
		t.Error("the explanation does not show the floor")
	}
	if c.Key = little.Key; strings.Contains(l.Do(t, c).Body, `"floor"`) {
		t.Error("the explanation shows a floor to who has a balance")
	}
	bound := l.CreateKey(t, "--name", "bound", "--balance-usd", "0", "--model", "big")
	if got := l.Do(t, ofBig(forms[0], "big").with(bound.Key)); got.Status != http.StatusPaymentRequired {
		t.Errorf("a key that is bound to a model: %d by %s", got.Status, got.Header.Get("X-Bardo-Model"))
	}
	c = ofBig(forms[0], "big").call("X-Bardo-Subsystem: risk")
	if c.Key = k.Key; l.Do(t, c).Status != http.StatusPaymentRequired {
		t.Error("a risk assessment was made by another model")
	}
}

// TestB20AFreeAnswerIsNotStoredAsThePaidOne.
func TestB20AFreeAnswerIsNotStoredAsThePaidOne(t *testing.T) {
	t.Parallel()
	l := runLadder(t, quick+"billing: {when_empty: free}\n")
	k := l.CreateKey(t, "--name", "empty", "--balance-usd", "0")
	a := forms[0].about("big", "What is stored?")
	for range 2 {
		got := l.Do(t, a.with(k.Key))
		if got.Header.Get("X-Bardo-Model") != "nothing" || got.Header.Get("X-Bardo-Cache") != "miss" {
			t.Errorf("%d by %s, cache %s", got.Status, got.Header.Get("X-Bardo-Model"), got.Header.Get("X-Bardo-Cache"))
		}
	}
	l.Bardo(t, "deposit", k.ID, "--usd", "5", "--ref", "r")
	eventually(t, "the model that was asked for", func() bool { return l.Do(t, a.with(k.Key)).Header.Get("X-Bardo-Model") == "big" })
}

// TestD12AFreeModelIsNotLessPrivate: nothing of a private request leaves the gateway.
func TestD12AFreeModelIsNotLessPrivate(t *testing.T) {
	t.Parallel()
	private, public := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	g := gateway.Run(t, gateway.Options{Config: quick + "billing: {when_empty: free}\n", Providers: []gateway.Provider{
		{ID: "vault", Fake: private, Models: ladderPrices[:1], More: "private: true"}, {ID: "open", Fake: public, Models: ladderPrices[4:]},
	}})
	k := g.CreateKey(t, "--name", "empty", "--balance-usd", "0")
	c := ofBig(forms[0], "big").call("X-Bardo-Security-Class: private")
	c.Key = k.Key
	if got := g.Do(t, c); got.Status != http.StatusPaymentRequired {
		t.Errorf("%d by %s: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
	}
	if n := len(public.Generations()) + len(private.Generations()); n != 0 {
		t.Errorf("%d requests left the gateway", n)
	}
	if got := g.Do(t, ofBig(forms[0], "big").with(k.Key)); got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "open" {
		t.Errorf("a request that is not private: %d %s", got.Status, got.Body)
	}
}

// TestD55APartOfABalanceIsKeptForCriticalRequests: others may not reserve it, however many come at once.
func TestD55APartOfABalanceIsKeptForCriticalRequests(t *testing.T) {
	t.Parallel()
	l := runLadder(t, quick+"billing: {critical_reserve_usd: 1}\n")
	k := l.CreateKey(t, "--name", "k", "--balance-usd", "1.25")
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			a := ofBig(forms[i%len(forms)], "big")
			a.say = fmt.Sprint("request ", i)
			switch got := l.Do(t, a.with(k.Key)); got.Status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusPaymentRequired:
			default:
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	if n := served.Load(); n > 2 {
		t.Errorf("%d requests of $0.1 were served of the $0.25 beyond what is kept", n)
	}
	eventually(t, "all that may be spent is spent", func() bool {
		got := l.Do(t, ofBig(forms[0], "big").with(k.Key))
		return got.Status == http.StatusPaymentRequired && strings.Contains(got.Body, "kept for risk, operator and death")
	})
	var f funds
	get(t, l.Gateway, k.Key, "/v1/balance", &f)
	if f.Balance == nil || f.Balance.String() != "1.050000" {
		t.Errorf("the balance is %v, want 1.05", f.Balance)
	}
	for n := range 9 { // of $1.05, each reserves $0.2, for it may be asked twice
		c := ofBig(forms[0], "big").call("X-Bardo-Subsystem: risk")
		c.Key = k.Key
		if got := l.Do(t, c); got.Status != http.StatusOK {
			t.Fatalf("critical request %d: %d %s", n, got.Status, got.Body)
		}
	}
}
