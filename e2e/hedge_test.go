package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// hedgeLab is a gateway whose model m has three providers, called in this order; the second has another format and other prices.
type hedgeLab struct {
	*gateway.Gateway
	o                    gateway.Options
	first, second, third *fake.Server
	key                  string
	asked                int
}

// hedging is the configuration of a lab, with rules for when a second candidate is called.
func hedging(rules string) string {
	return fmt.Sprintf("limits: {rpm: 0}\nrouting: {ping_interval: 1h, hedging: {%s}, timeouts: {connect: 20s, first_token: 50s, first_token_reasoning: 50s, idle: 50s}}\n", rules)
}

// often hedges every request whose first candidate gives no content within 150 ms.
const often = "after: 150ms, share_pct: 100"

func newHedgeLab(t *testing.T, config string) *hedgeLab {
	t.Helper()
	l := hedgeFakes(t, config)
	l.start(t, gateway.Run(t, l.o))
	return l
}

// start takes the lab's gateway.
func (l *hedgeLab) start(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	l.Gateway = g
	l.key = l.CreateKey(t, "--name", "k", "--balance-usd", "50").Key
}

// hedgeFakes is a lab without its gateway.
func hedgeFakes(t *testing.T, config string) *hedgeLab {
	t.Helper()
	l := &hedgeLab{
		first:  fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"}),
		second: fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"}),
		third:  fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "third"}),
	}
	model := func(price string) []gateway.Model { return []gateway.Model{{ID: "m", Price: price}} }
	l.o = gateway.Options{Config: config, Providers: []gateway.Provider{
		{ID: "first", Fake: l.first, Models: model("{input: 1, output: 2}")},
		{ID: "second", Fake: l.second, Format: "anthropic", Models: model("{input: 3, output: 4}")},
		{ID: "third", Fake: l.third, Models: model("{input: 5, output: 6}")},
	}}
	return l
}

// behave says how each provider answers the next requests.
func (l *hedgeLab) behave(first, second, third fake.Behaviour) {
	for i, s := range l.fakes() {
		s.Forget()
		s.Behave([]fake.Behaviour{first, second, third}[i])
	}
}

func (l *hedgeLab) fakes() []*fake.Server { return []*fake.Server{l.first, l.second, l.third} }

// calls are the numbers of calls of each provider.
func (l *hedgeLab) calls() [3]int {
	return [3]int{len(l.first.Generations()), len(l.second.Generations()), len(l.third.Generations())}
}

// call is a request that no other was like.
func (l *hedgeLab) call(a ask) gateway.Call {
	l.asked++
	a.model, a.say = "m", fmt.Sprintf("question %d", l.asked)
	if a.tokens == 0 {
		a.tokens = 100
	}
	return a.with(l.key)
}

// hedgeRecord is what a request's record says of its two calls.
type hedgeRecord struct {
	Status, Path, Provider string
	Attempts               int
	Log                    []struct {
		Provider, Outcome, Next, Side string
	} `json:"attempt_log"`
	Hedge *struct{ Outcome, Provider, Model string }
	Sides []struct {
		Layer, Provider string
		Input           int         `json:"input_tokens"`
		Output          int         `json:"output_tokens"`
		Cost            json.Number `json:"provider_cost_usd"`
	} `json:"side_calls"`
	Input     int         `json:"input_tokens"`
	Cost      json.Number `json:"cost_usd"`
	Estimated bool        `json:"usage_estimated"`
	Savings   json.RawMessage
}

// outcome is "won by second", or "" for a request without a second candidate.
func (r *hedgeRecord) outcome() string {
	if r.Hedge == nil {
		return ""
	}
	return r.Hedge.Outcome + " " + r.Hedge.Provider
}

// attempts are the attempts in the log, in order.
func (r *hedgeRecord) attempts() string {
	var list []string
	for _, a := range r.Log {
		list = append(list, strings.TrimSuffix(a.Provider+" "+a.Outcome+" "+a.Next, " "))
	}
	return strings.Join(list, ", ")
}

func (l *hedgeLab) record(t *testing.T, h http.Header) *hedgeRecord {
	t.Helper()
	r := &hedgeRecord{}
	get(t, l.Gateway, l.key, "/v1/requests/"+h.Get("X-Request-Id"), r)
	return r
}

var (
	silent = fake.Behaviour{HeaderDelay: time.Minute} // until it is cancelled
	hidden = fake.Behaviour{FirstToken: time.Minute}  // a stream that begins, without content
)

func after(d time.Duration, b fake.Behaviour) fake.Behaviour {
	b.HeaderDelay = d
	return b
}

func usageOf(input, output int) *fake.Usage { return &fake.Usage{Input: input, Output: output} }

// TestB22TheFirstContentOfTwoCandidatesAnswers: in each client's format, streamed or not; the slow call is cancelled and billed for its input, once.
func TestB22TheFirstContentOfTwoCandidatesAnswers(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	said := fake.Behaviour{Text: "Here I am.", Usage: usageOf(1000, 100)}
	for _, row := range []struct {
		about                 string
		first, second         fake.Behaviour
		by, outcome, attempts string
		cost                  int64 // of the answer, in millionths
		loser                 *fake.Server
		loserPrice            int
	}{
		{"the second is faster", silent, said, "second", "won second", "first hedge_cancelled, second ok", 3400, l.first, 1},
		{"the first is slow and faster", after(700*time.Millisecond, said), silent, "first", "lost second", "second hedge_cancelled, first ok", 1200, l.second, 3},
	} {
		for _, a := range both {
			t.Run(fmt.Sprintf("%s/%s", row.about, a.form()), func(t *testing.T) {
				l.behave(row.first, row.second, said)
				before := balanceOf(t, l.Gateway, l.key)
				got := l.Do(t, l.call(a))
				if got.Status != http.StatusOK || text(t, a, got) != "Here I am." || got.Header.Get("X-Bardo-Provider") != row.by {
					t.Fatalf("%d by %q: %s", got.Status, got.Header.Get("X-Bardo-Provider"), got.Body)
				}
				if _, err := row.loser.WaitCancelled(soon(t), 1); err != nil {
					t.Error(err)
				}
				r := l.record(t, got.Header)
				if r.outcome() != row.outcome || r.attempts() != row.attempts || r.Path != "driven" || r.Status != "ok" || l.calls() != [3]int{1, 1, 0} {
					t.Errorf("%s: %s, %v, %+v", r.outcome(), r.attempts(), l.calls(), r)
				}
				if len(r.Sides) != 1 || r.Sides[0].Layer != "hedge" || r.Sides[0].Input == 0 || r.Sides[0].Output != 0 || len(r.Savings) > 0 {
					t.Fatalf("side calls %+v, savings %s", r.Sides, r.Savings)
				}
				want := ((row.cost+int64(r.Sides[0].Input*row.loserPrice))*12 + 9) / 10 // with the spread of 20 %, rounded up
				if paid := before - balanceOf(t, l.Gateway, l.key); paid != want || micro(t, r.Cost) != want || r.Input != 1000+r.Sides[0].Input || !r.Estimated {
					t.Errorf("%d were taken, want %d: %+v", paid, want, r)
				}
			})
		}
	}
	m := l.Metrics(t)
	if won, lost := m.Sum("bardo_hedges_total", `outcome="won"`), m.Sum("bardo_hedges_total", `outcome="lost"`); won != 4 || lost != 4 {
		t.Errorf("%v won, %v lost", won, lost)
	}
	if n := m.Sum("bardo_attempts_total", `provider="first"`); n != 4 { // calls that were cancelled are neither successes nor failures
		t.Errorf("%v attempts of first", n)
	}
	l.AssertSound(t)
}

// TestB22InEveryDeployment: with a ledger in PostgreSQL and with the parts of a gateway apart, also for clients of Gemini's format and of Responses, and for answers
// with a schema.
func TestB22InEveryDeployment(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one process", "postgres", "split"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := hedging(often)
			if name == "postgres" {
				config += "store: {ledger: \"" + postgrestest.URL(t) + "\"}\n"
			}
			l := hedgeFakes(t, config)
			switch name {
			case "postgres":
				l.o.DataPath = "extproc" // with the other one, a ledger is a file
				l.start(t, gateway.Run(t, l.o))
			case "split":
				l.start(t, gateway.RunSplit(t, l.o).Gateway)
			default:
				l.start(t, gateway.Run(t, l.o))
			}
			const schema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"],"additionalProperties":false}`
			for _, row := range []struct{ path, body, want string }{
				{"/v1/chat/completions", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":%q}]}`, "Here"},
				{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, "Here"},
				{"/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":%q}]}]}`, "Here"},
				{"/v1/responses", `{"model":"m","store":false,"input":%q}`, "Here"},
				{"/v1/responses", `{"model":"m","store":false,"stream":true,"input":%q}`, "Here"},
				{"/v1/chat/completions", `{"model":"m","max_tokens":100,"response_format":{"type":"json_schema","json_schema":{"name":"count","strict":true,"schema":` + schema + `}},"messages":[{"role":"user","content":%q}]}`, `{\"n\":7}`},
			} {
				said := fake.Behaviour{Text: "Here", Usage: usageOf(1000, 100)}
				if row.want != "Here" {
					said.Text = `{"n":7}`
				}
				l.behave(silent, said, fake.Behaviour{})
				l.asked++
				before := balanceOf(t, l.Gateway, l.key)
				got := l.Do(t, gateway.Call{Path: row.path, Key: l.key, Body: fmt.Sprintf(row.body, fmt.Sprintf("question %d", l.asked))})
				if got.Status != http.StatusOK || got.Err != nil || !strings.Contains(got.Body, row.want) {
					t.Errorf("%s: %d %v %s", row.path, got.Status, got.Err, got.Body)
					continue
				}
				if _, err := l.first.WaitCancelled(soon(t), 1); err != nil {
					t.Error(err)
				}
				r := l.record(t, got.Header)
				want := (3400+int64(r.Sides[0].Input))*12/10 + 1 // with the spread of 20 %, rounded up
				if paid := before - balanceOf(t, l.Gateway, l.key); r.outcome() != "won second" || paid < want-1 || paid > want || micro(t, r.Cost) != paid {
					t.Errorf("%s: %d were taken, want %d: %+v", row.path, paid, want, r)
				}
			}
			l.AssertSound(t)
		})
	}
}

// TestB22AStreamWithoutContentIsSlow: its beginning decides nothing.
func TestB22AStreamWithoutContentIsSlow(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	for _, a := range both[2:] {
		l.behave(hidden, fake.Behaviour{Text: "Here."}, fake.Behaviour{})
		got := l.Do(t, l.call(a))
		if text(t, a, got) != "Here." || l.record(t, got.Header).outcome() != "won second" {
			t.Errorf("%s: %s", a.form(), got.Body)
		}
		if _, err := l.first.WaitCancelled(soon(t), 1); err != nil {
			t.Error(err)
		}
	}
	l.AssertSound(t)
}

// TestB22AFastFirstCandidateIsCalledAlone.
func TestB22AFastFirstCandidateIsCalledAlone(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging("after: 20s, share_pct: 100"))
	l.behave(fake.Behaviour{Tokens: 4, Gap: 50 * time.Millisecond}, fake.Behaviour{}, fake.Behaviour{})
	for _, a := range both {
		if r := l.record(t, l.Do(t, l.call(a)).Header); r.outcome() != "" || r.Provider != "first" || len(r.Sides) != 0 || r.Attempts != 1 {
			t.Errorf("%s: %+v", a.form(), r)
		}
	}
	if l.calls() != [3]int{4, 0, 0} || l.Metrics(t).Sum("bardo_hedges_total") != 0 {
		t.Errorf("calls %v", l.calls())
	}
	l.AssertSound(t)
}

// TestB22IfOneOfTwoFailsTheOtherGoesOn, and if both do, the next candidate is called.
func TestB22IfOneOfTwoFailsTheOtherGoesOn(t *testing.T) {
	t.Parallel()
	said, down := fake.Behaviour{Text: "Here I am.", Usage: usageOf(1000, 100)}, fake.Behaviour{Status: 500}
	for _, row := range []struct {
		about                 string
		each                  [3]fake.Behaviour
		by, attempts, outcome string
		calls                 [3]int
		cost                  int64
	}{
		{"the second fails", [3]fake.Behaviour{after(900*time.Millisecond, said), down, said}, "first", "second status_500 hedge, first ok", "lost second", [3]int{1, 1, 0}, 1440},
		{"the first fails", [3]fake.Behaviour{after(600*time.Millisecond, down), after(time.Second, said), said}, "second", "first status_500 hedge, second ok", "won second", [3]int{1, 1, 0}, 4080},
		{"both fail, the second first", [3]fake.Behaviour{after(800*time.Millisecond, down), down, said}, "third", "second status_500 hedge, first status_500 next_candidate, third ok", "failed second", [3]int{1, 1, 1}, 6720},
		{"both fail, the first first", [3]fake.Behaviour{after(500*time.Millisecond, down), after(time.Second, down), said}, "third", "first status_500 hedge, second status_500 next_candidate, third ok", "failed second", [3]int{1, 1, 1}, 6720},
		{"all fail", [3]fake.Behaviour{after(800*time.Millisecond, down), down, down}, "", "second status_500 hedge, first status_500 next_candidate, third status_500 stop", "failed second", [3]int{1, 1, 1}, 0},
		{"the first fails before", [3]fake.Behaviour{down, after(500*time.Millisecond, said), said}, "second", "first status_500 next_candidate, second ok", "", [3]int{1, 1, 0}, 4080},
	} {
		l := newHedgeLab(t, hedging(often)) // failures count for the order of later requests
		for _, a := range both {
			t.Run(fmt.Sprintf("%s/%s", row.about, a.form()), func(t *testing.T) {
				l.behave(row.each[0], row.each[1], row.each[2])
				before := balanceOf(t, l.Gateway, l.key)
				got := l.Do(t, l.call(a))
				if row.by == "" {
					mustFail(t, a, got, http.StatusBadGateway, "upstream_error")
				} else if text(t, a, got) != "Here I am." {
					t.Errorf("%d %s", got.Status, got.Body)
				}
				r := l.record(t, got.Header)
				if r.outcome() != row.outcome || r.attempts() != row.attempts || l.calls() != row.calls || row.by != "" && r.Provider != row.by || len(r.Sides) > 0 {
					t.Errorf("%s: %s, %v, %+v", r.outcome(), r.attempts(), l.calls(), r)
				}
				if paid := before - balanceOf(t, l.Gateway, l.key); paid != row.cost {
					t.Errorf("%d were taken, want %d", paid, row.cost)
				}
			})
		}
		l.AssertSound(t)
	}
}

// TestB22WithoutMoneyForTwoCallsThereIsOne: the request itself is served.
func TestB22WithoutMoneyForTwoCallsThereIsOne(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	slow := after(700*time.Millisecond, fake.Behaviour{Text: "Here.", Usage: usageOf(10, 1)})
	for _, row := range []struct {
		balance, outcome string
		calls            [3]int
	}{
		{"0.009", "no_money second", [3]int{1, 0, 0}}, // with the spread 1000 tokens cost $0.0072 at the third, and $0.0048 at the second
		{"0.02", "lost second", [3]int{1, 1, 0}},
	} {
		l.key = l.CreateKey(t, "--name", "k"+row.balance, "--balance-usd", row.balance).Key
		l.behave(slow, silent, fake.Behaviour{})
		got := l.Do(t, l.call(ask{dialect: fake.OpenAI, stream: true, tokens: 1000}))
		if r := l.record(t, got.Header); got.Status != http.StatusOK || r.outcome() != row.outcome || l.calls() != row.calls || r.Status != "ok" {
			t.Errorf("with $%s: %d, %v, %+v", row.balance, got.Status, l.calls(), r)
		}
		balanceOf(t, l.Gateway, l.key) // nothing is held any more
	}
	l.AssertSound(t)
}

// TestK70SecondCallsAtOneTimeKeepToAnAgentsBudget: of five requests that are slow at once, two have a second call, for which the budget has enough.
func TestK70SecondCallsAtOneTimeKeepToAnAgentsBudget(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	l := newHedgeLab(t, hedging(often))
	l.behave(after(3*time.Second, fake.Behaviour{Text: "Here.", Usage: usageOf(10, 1)}), silent, fake.Behaviour{})
	// With the spread, 1000 tokens of answer and 4096 of thinking cost $0.0367 at the third, and $0.0245 at the second; a routine has $0.244 of a day's $1.22.
	c := l.call(ask{dialect: fake.OpenAI, stream: true, tokens: 1000})
	c.Header = append(c.Header, "X-Bardo-Golem-Id: g", "X-Bardo-Subsystem: routine", "X-Bardo-Daily-Budget-Usd: 1.22", "X-Bardo-No-Cache: true")
	for _, got := range atOnce(t, l.Gateway, 5, c) {
		if got.Status != http.StatusOK {
			t.Errorf("%d %s", got.Status, got.Body)
		}
	}
	if l.calls() != [3]int{5, 2, 0} {
		t.Errorf("calls %v", l.calls())
	}
	l.AssertSound(t)
}

// TestB22OnlyAShareOfTheRequestsHasTwoCalls: one of five, with a share of 20 %.
func TestB22OnlyAShareOfTheRequestsHasTwoCalls(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging("after: 100ms, share_pct: 20"))
	l.behave(after(500*time.Millisecond, fake.Behaviour{}), silent, fake.Behaviour{})
	var got []string
	for range 6 {
		r := l.record(t, l.Do(t, l.call(both[0])).Header)
		got = append(got, r.outcome())
	}
	const no = "no_share second"
	if want := []string{no, no, no, no, "lost second", no}; fmt.Sprint(got) != fmt.Sprint(want) || len(l.second.Generations()) != 1 {
		t.Errorf("%q, want %q", got, want)
	}
	if n := l.Metrics(t).Sum("bardo_hedges_total", `outcome="no_share"`); n != 5 {
		t.Errorf("%v without a share", n)
	}
	l.AssertSound(t)
}

// TestB22AClientThatLeavesEndsBothCalls, and pays for the input of both.
func TestB22AClientThatLeavesEndsBothCalls(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	for _, a := range both {
		l.behave(silent, silent, fake.Behaviour{})
		before := balanceOf(t, l.Gateway, l.key)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			res, err := l.Open(ctx, l.call(a))
			if err == nil {
				_ = res.Body.Close()
			}
			left <- err
		}()
		if _, err := l.second.WaitGenerations(soon(t), 1); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-left
		for _, s := range []*fake.Server{l.first, l.second} {
			if _, err := s.WaitCancelled(soon(t), 1); err != nil {
				t.Errorf("%s: %v", a.form(), err)
			}
		}
		eventually(t, "the charge", func() bool {
			f := fundsOf(t, l.Gateway, l.key)
			return f.Held == "0.000000" && micro(t, *f.Balance) < before
		})
		paid := before - balanceOf(t, l.Gateway, l.key)
		if paid%4 == 0 && paid < 40 { // about nine tokens, at $1 and at $3
			t.Errorf("%s: only one call was paid: %d", a.form(), paid)
		}
		if calls := l.calls(); calls != [3]int{1, 1, 0} {
			t.Errorf("%v", calls)
		}
	}
	l.AssertSound(t)
}

// TestB22ABrokenWinnerEndsTheStream: the other call was cancelled, and a part of the answer was sent.
func TestB22ABrokenWinnerEndsTheStream(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	l.behave(silent, fake.Behaviour{Tokens: 5, Break: fake.Break{Kind: fake.Close, At: fake.AfterTokens, Tokens: 2}}, fake.Behaviour{})
	got := l.Do(t, l.call(both[2]))
	if r := l.record(t, got.Header); r.Status != "cut" || r.outcome() != "won second" || !strings.Contains(got.Body, "upstream_error") || l.calls() != [3]int{1, 1, 0} {
		t.Errorf("%+v: %s", r, got.Body)
	}
	l.AssertSound(t)
}

// TestB22WhatMustNotRunTwiceIsCalledOnce: requests with effects besides their answer, or of a user's own key, wait for their first candidate.
func TestB22WhatMustNotRunTwiceIsCalledOnce(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging(often))
	slow := after(600*time.Millisecond, fake.Behaviour{Text: "Here."})
	for _, row := range []struct{ about, more string }{
		{"stored", `"store":true`},
		{"a tool of the provider", `"tools":[{"type":"web_search_preview"}]`},
		{"a connector", `"mcp_servers":[{"type":"url","url":"https://example.com","name":"x"}]`},
		{"audio", `"modalities":["text","audio"]`},
		{"its hint", `"bardo":{"hedge":"off"}`},
		{"a function of the client", aTool},
	} {
		l.behave(slow, silent, fake.Behaviour{})
		a := ask{dialect: fake.OpenAI, more: row.more}
		c := l.call(a)
		dry := c
		dry.Header = append(slices.Clone(c.Header), "X-Bardo-Route: explain")
		explained := l.Do(t, dry)
		got := l.Do(t, c)
		want := 0
		if row.more == aTool {
			want = 1
		}
		if strings.Contains(explained.Body, `"hedge": {`) != (want == 1) {
			t.Errorf("%s: a dry run says %s", row.about, explained.Body)
		}
		if n := len(l.second.Generations()); n != want {
			t.Errorf("%s: %d calls of the second: %d %s", row.about, n, got.Status, got.Body)
		}
	}
	l.AssertSound(t)
}

// TestB22APrivateRequestIsNotSentToOthers: only providers that may serve it are second candidates.
func TestB22APrivateRequestIsNotSentToOthers(t *testing.T) {
	t.Parallel()
	private, open := fake.Start(t, fake.Config{Dialect: fake.OpenAI}), fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	private.Behave(after(700*time.Millisecond, fake.Behaviour{Text: "Here."}))
	g := gateway.Run(t, gateway.Options{Config: hedging(often), Providers: []gateway.Provider{
		{ID: "private", Fake: private, Models: models("m", ""), More: "private: true"},
		{ID: "open", Fake: open, Models: models("m", "")},
	}})
	for _, a := range both[:3:3] {
		a.say = a.form()
		if got := g.Do(t, a.call("X-Bardo-Security-Class: private")); text(t, a, got) != "Here." {
			t.Errorf("%s: %s", a.form(), got.Body)
		}
	}
	if n := len(open.Generations()); n != 0 {
		t.Errorf("%d private requests reached it", n)
	}
	a := ask{dialect: fake.OpenAI, model: "m", say: "for anybody"}
	if got := g.Do(t, a.call()); got.Header.Get("X-Bardo-Provider") != "open" {
		t.Errorf("by %s", got.Header.Get("X-Bardo-Provider"))
	}
	g.AssertSound(t)
}

// TestB22HedgingIsSwitchedWhileItRuns by a reload.
func TestB22HedgingIsSwitchedWhileItRuns(t *testing.T) {
	t.Parallel()
	l := newHedgeLab(t, hedging("after: off"))
	l.behave(after(600*time.Millisecond, fake.Behaviour{}), fake.Behaviour{}, fake.Behaviour{})
	for i, rules := range []string{"", often, "share_pct: 50"} {
		if rules != "" {
			l.o.Config = hedging(rules)
			reload(t, l.Gateway, l.o)
		}
		want := []string{"", "won second", ""}[i]
		if r := l.record(t, l.Do(t, l.call(both[2])).Header); r.outcome() != want {
			t.Errorf("with %q: %s", rules, r.outcome())
		}
	}
	l.AssertSound(t)
}
