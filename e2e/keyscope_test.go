package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
)

// onBothStores runs a test on a ledger in SQLite and on one in PostgreSQL. The provider has the models m and claude-x at 1 and 2 USD per million tokens.
func onBothStores(t *testing.T, test func(t *testing.T, g *gateway.Gateway, p *fake.Server)) {
	t.Helper()
	for _, store := range []string{"sqlite", "postgres"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
			o := gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "own", Fake: p, Models: append(models("m", ""), models("claude-x", "")...)}}}
			if store == "postgres" {
				o.DataPath = "extproc" // with the other one, a ledger is a file
				o.Config += "store: {ledger: \"" + postgrestest.URL(t) + "\"}\n"
			}
			test(t, gateway.Run(t, o), p)
		})
	}
}

// inBothHeaders is a request with a key in each header that takes one.
func (a ask) inBothHeaders(key string, header ...string) []gateway.Call {
	one, other := a.call(append(header, "x-api-key: "+key)...), a.call(append(header, "authorization: Bearer "+key)...)
	one.NoKey, other.NoKey = true, true
	return []gateway.Call{one, other}
}

// TestX01WhatAKeyIsFor: a key's models, subsystems, origins and expiry, in both headers, formats and with streams, on both stores.
func TestX01WhatAKeyIsFor(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *gateway.Gateway, p *fake.Server) {
		t.Helper()
		for _, row := range []struct {
			sentence string
			flags    []string
			model    string
			header   []string
			status   int
		}{
			{"its model", []string{"--model", "m"}, "m", nil, http.StatusOK},
			{"another model", []string{"--model", "other"}, "m", nil, http.StatusForbidden},
			{"a prefix of its models", []string{"--model", "claude-*"}, "claude-x", nil, http.StatusOK},
			{"outside the prefix", []string{"--model", "claude-*"}, "m", nil, http.StatusForbidden},
			{"the gateway chooses within its models", []string{"--model", "claude-*"}, "auto", nil, http.StatusOK},
			{"its subsystem", []string{"--subsystem", "risk", "--subsystem", "dream"}, "m", []string{"x-bardo-subsystem: risk"}, http.StatusOK},
			{"another subsystem", []string{"--subsystem", "risk"}, "m", []string{"x-bardo-subsystem: dream"}, http.StatusForbidden},
			{"no subsystem", []string{"--subsystem", "risk"}, "m", nil, http.StatusForbidden},
			{"its page", []string{"--origin", "https://a.example"}, "m", []string{"origin: https://a.example"}, http.StatusOK},
			{"another page", []string{"--origin", "https://a.example"}, "m", []string{"origin: https://b.example"}, http.StatusForbidden},
			{"no page", []string{"--origin", "https://a.example"}, "m", nil, http.StatusForbidden},
			{"in time", []string{"--expires", "1h"}, "m", nil, http.StatusOK},
		} {
			k := g.CreateKey(t, append([]string{"--name", "k"}, row.flags...)...)
			for _, a := range both {
				a.model = row.model
				for _, c := range a.inBothHeaders(k.Key, row.header...) {
					p.Forget()
					got := g.Do(t, c)
					if row.status == http.StatusOK {
						if text(t, a, got) == "" {
							t.Errorf("%s: %d %s", row.sentence, got.Status, got.Body)
						}
						if row.model == "auto" && got.Header.Get("X-Bardo-Model") != "claude-x" {
							t.Errorf("%s: %s", row.sentence, got.Header.Get("X-Bardo-Model"))
						}
						continue
					}
					mustFail(t, a, got, row.status, "key_restricted")
					if n := len(p.Generations()); n != 0 {
						t.Errorf("%s: %d requests reached the provider", row.sentence, n)
					}
				}
			}
		}
		bound := g.CreateKey(t, "--name", "bound", "--model", "m")
		if got := g.Do(t, gateway.Call{Path: "/v1/files", Key: bound.Key}); got.Status != http.StatusForbidden {
			t.Errorf("what a provider stores: %d %s", got.Status, got.Body)
		}
		g.Bardo(t, "keys", "update", bound.ID, "--model", "any")
		g.AssertSound(t)
	})
}

// TestX01AKeyExpires, while it is in use.
func TestX01AKeyExpires(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	k := g.CreateKey(t, "--name", "k", "--expires", "3s")
	eventually(t, "the end", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusUnauthorized })
	for _, a := range both {
		got := g.Do(t, a.with(k.Key))
		mustFail(t, a, got, http.StatusUnauthorized, "invalid_api_key")
		if !strings.Contains(got.Body, "expired at") {
			t.Errorf("%s", got.Body)
		}
	}
	g.Bardo(t, "keys", "update", k.ID, "--expires", "never")
	eventually(t, "it counts again", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusOK })
}

// TestX01ARotatedKeyHasTwoSecretsForAWhile, with one balance.
func TestX01ARotatedKeyHasTwoSecretsForAWhile(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *gateway.Gateway, _ *fake.Server) {
		t.Helper()
		k := g.CreateKey(t, "--name", "k", "--balance-usd", "5")
		rotate := func(overlap string) string {
			var r gateway.NewKey
			if err := json.Unmarshal([]byte(g.Bardo(t, "keys", "rotate", k.ID, "--overlap", overlap, "--json")), &r); err != nil || r.ID != k.ID || r.Key == k.Key {
				t.Fatalf("%+v %v", r, err)
			}
			return r.Key
		}
		served := func(key string) bool { return g.Do(t, both[0].with(key)).Status == http.StatusOK }
		second := rotate("1h")
		eventually(t, "the new secret counts", func() bool { return served(second) })
		for _, a := range both {
			for _, key := range []string{k.Key, second} {
				if got := g.Do(t, a.with(key)); text(t, a, got) == "" {
					t.Errorf("%d %s", got.Status, got.Body)
				}
			}
		}
		if one, other := balanceOf(t, g, k.Key), balanceOf(t, g, second); one != other || one >= 5_000_000 {
			t.Errorf("balances %d and %d", one, other)
		}
		third := rotate("0s")
		eventually(t, "the old secrets end", func() bool { return served(third) && !served(second) && !served(k.Key) })
		for _, a := range both {
			mustFail(t, a, g.Do(t, a.with(second)), http.StatusUnauthorized, "invalid_api_key")
		}
		g.AssertSound(t)
	})
}

// TestD52APublishableKey cannot be made without what bounds its loss, generates, and reads nothing but models and its balance.
func TestD52APublishableKey(t *testing.T) {
	t.Parallel()
	g, p := one(t, quick)
	bounded := []string{"keys", "create", "--json", "--name", "page", "--publishable", "--balance-usd", "1", "--limit-usd-month", "0.5", "--ip", "127.0.0.0/8"}
	for _, without := range []string{"--balance-usd", "--limit-usd-month", "--ip"} {
		var args []string
		for i := 0; i < len(bounded); i++ {
			if bounded[i] == without {
				i++
				continue
			}
			args = append(args, bounded[i])
		}
		if r := g.Try(t, args...); r.Code == 0 {
			t.Errorf("without %s: %s", without, r.Stdout)
		}
	}
	var k gateway.NewKey
	if err := json.Unmarshal([]byte(g.Bardo(t, bounded...)), &k); err != nil || !strings.HasPrefix(k.Key, "bardo_pk_") {
		t.Fatalf("%+v %v", k, err)
	}
	if r := g.Try(t, "keys", "update", k.ID, "--ip", "any"); r.Code == 0 {
		t.Error("its only restriction was lifted")
	}
	for _, a := range both {
		if got := g.Do(t, a.with(k.Key)); text(t, a, got) == "" {
			t.Errorf("%d %s", got.Status, got.Body)
		}
		mustFail(t, a, g.Do(t, a.with(k.Key, "x-bardo-defer: 1h")), http.StatusForbidden, "key_restricted")
	}
	for path, status := range map[string]int{
		"/v1/models": 200, "/v1/models/m": 200, "/v1/balance": 200, "/v1beta/models": 200,
		"/v1/usage": 403, "/v1/cache": 403, "/v1/requests/req_1": 403, "/v1/sessions/x": 403, "/v1/files": 403, "/v1/identity": 403, "/v1//usage": 403, "/v1/balance/../usage": 403,
	} {
		if got := g.Do(t, gateway.Call{Path: path, Key: k.Key}); got.Status != status {
			t.Errorf("%s: %d %s, want %d", path, got.Status, got.Body, status)
		}
	}
	asSecret := strings.Replace(k.Key, "_pk_", "_sk_", 1)
	mustFail(t, both[0], g.Do(t, both[0].with(asSecret)), http.StatusUnauthorized, "invalid_api_key")
	if _, secret, found := strings.Cut(strings.TrimPrefix(k.Key, "bardo_pk_"), "_"); !found || strings.Contains(g.Log(), secret) || p.Saw(secret) {
		t.Error("the key was shown to somebody")
	}
}

// TestX08AMonthOfAKey: many at once cannot spend more than its limit for the month, each refusal says when it works again, and a raised limit counts at once.
func TestX08AMonthOfAKey(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, g *gateway.Gateway, p *fake.Server) {
		t.Helper()
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 45}}) // 100 millionths
		k := g.CreateKey(t, "--name", "k", "--limit-usd-month", "0.001000")
		served := manyAtOnce(t, g, k.Key, 60)
		if most := 10; served < 1 || served > most {
			t.Errorf("%d requests of 100 were served from 1000", served)
		}
		eventually(t, "less is left than a short answer may cost", func() bool { return g.Do(t, both[1].with(k.Key)).Status == http.StatusTooManyRequests })
		for i, a := range both {
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusTooManyRequests, "budget_exceeded")
			if wait, err := strconv.Atoi(got.Header.Get("Retry-After")); err != nil || wait < 1 || !strings.Contains(got.Body, "the budget of key "+k.ID+" for the month, 0.001000 USD") {
				t.Errorf("%d: %v %s", i, got.Header, got.Body)
			}
			var r struct {
				Error  string
				Budget struct {
					Holder, ID, Period, Action string
					Limit                      json.Number `json:"limit_usd"`
					Again                      time.Time   `json:"again_at"`
				}
			}
			get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
			now := time.Now().UTC()
			next := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
			if b := r.Budget; r.Error != "budget_exceeded" || b.Holder != "key" || b.ID != k.ID || b.Period != "month" || b.Action != "refused" || b.Limit != "0.001000" || !b.Again.Equal(next) {
				t.Errorf("record %+v, again at %s", r, next)
			}
		}
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-month", "1")
		eventually(t, "the raised limit", func() bool { return g.Do(t, both[0].with(k.Key)).Status == http.StatusOK })

		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 10, Output: 1_000_000}})
		g.Bardo(t, "keys", "update", k.ID, "--limit-usd-month", "0.002")
		eventually(t, "nothing is left", func() bool { // a request is refused by its headers then
			return strings.Contains(g.Do(t, both[1].with(k.Key)).Body, "0.002000 USD, is used up")
		})
		for _, a := range both {
			got := g.Do(t, a.with(k.Key))
			mustFail(t, a, got, http.StatusTooManyRequests, "budget_exceeded")
			var r struct {
				Error    string
				Budget   struct{ Holder, ID, Action string }
				Decision struct {
					Action string
					After  int64 `json:"retry_after_s"`
				} `json:"budget_decision"`
			}
			get(t, g, k.Key, "/v1/requests/"+got.Header.Get("X-Request-Id"), &r)
			if b, d := r.Budget, r.Decision; r.Error != "budget_exceeded" || b.Holder != "key" || b.ID != k.ID || b.Action != "refused" || d.Action != "blocked" || d.After < 1 {
				t.Errorf("record %+v", r)
			}
		}
		g.AssertSound(t)
	})
}

// manyAtOnce sends so many requests of at most 110 millionths of a dollar together, in all formats, and returns how many were served. Those that were not are
// refused by a budget.
func manyAtOnce(t *testing.T, g *gateway.Gateway, key string, n int) int {
	t.Helper()
	var served atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a := both[i%len(both)]
			a.say = fmt.Sprint("number ", i)
			got := g.Do(t, a.with(key))
			switch got.Status {
			case http.StatusOK:
				served.Add(1)
			case http.StatusTooManyRequests:
				if !strings.Contains(got.Body, "budget_exceeded") {
					t.Errorf("%s", got.Body)
				}
			default:
				t.Errorf("%d %s", got.Status, got.Body)
			}
		})
	}
	all.Wait()
	return int(served.Load())
}
