package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// Deferred requests that are cancelled.

// cancel cancels a deferred request, which is gone then.
func (l *dreamLab) cancel(t *testing.T, r accepted, key string) {
	t.Helper()
	a, c := ask{dialect: fake.OpenAI}, gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/" + r.ID, Key: key}
	if got := l.Do(t, c); got.Status != http.StatusOK || !strings.Contains(got.Body, `"status":"cancelled"`) {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	mustFail(t, a, l.look(t, r, key), http.StatusGone, "gone")
	mustFail(t, a, l.Do(t, c), http.StatusGone, "gone")
}

// freed waits until nothing is held for a key, and something is charged where that has to be. It returns what the key has paid of 5 USD.
func (l *dreamLab) freed(t *testing.T, key string, charged bool) (paid int64) {
	t.Helper()
	eventually(t, "nothing is held", func() bool {
		f := fundsOf(t, l.Gateway, key)
		paid = 5_000_000 - micro(t, *f.Balance)
		return f.Held == "0.000000" && (paid > 0 || !charged)
	})
	return paid
}

const byCalls = "deferred: {batches: false, poll: 100ms}\n"

// TestR28ACancelEndsTheCallUnderWay: of the candidate, and of a second model; what it has used is charged, as after a disconnect, in both shapes of the data path.
func TestR28ACancelEndsTheCallUnderWay(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"extproc", "module"} {
		for _, verified := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, verified %v", shape, verified), func(t *testing.T) {
				t.Parallel()
				log := filepath.Join(t.TempDir(), "audit.jsonl")
				l := dreams(t, byCalls+"audit: {file: '"+log+"'}\n")
				l.options.DataPath = shape
				l.Gateway = gateway.Run(t, l.options)
				for _, p := range l.vendors() {
					p.Behave(fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.BeforeHeaders}})
				}
				for _, a := range dreamAsks {
					key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
					called := []*fake.Server{l.at(a)}
					a.say = "Is it " + strings.Repeat("so ", 200) + "?"
					var header []string
					if verified {
						called, header = l.vendors(), []string{"X-Bardo-Verify: true"}
					}
					r := l.dream(t, a, key, "24h", header...)
					for _, p := range called {
						if _, err := p.WaitGenerations(soon(t), 1); err != nil {
							t.Fatal(err)
						}
					}
					l.cancel(t, r, key)
					hasLine(t, log, "inference:deferred_cancelled", r.ID)
					for _, p := range called {
						if _, err := p.WaitCancelled(soon(t), 1); err != nil {
							t.Error(err)
						}
					}
					paid := l.freed(t, key, true)
					if paid < 30 || paid > 5000 { // some 400 tokens at 0.15 and 1 USD per million, and a fifth
						t.Errorf("%s: %d were taken", a.dialect, paid)
					}
					for _, p := range called {
						if n := len(p.Generations()); n != 1 {
							t.Errorf("%s: %d calls", a.dialect, n)
						}
						p.Forget()
					}
				}
				l.AssertSound(t)
			})
		}
	}
}

// TestR28ACancelOutlivesAKill: the gateway is killed right after it; the next one makes no call again, and nothing is held.
func TestR28ACancelOutlivesAKill(t *testing.T) {
	t.Parallel()
	l := dreams(t, byCalls)
	l.openai.Behave(fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.BeforeHeaders}})
	l.Gateway = startDreams(t, l)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
	a := dreamAsks[0]
	r := l.dream(t, a, key, "24h")
	if _, err := l.openai.WaitGenerations(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	l.cancel(t, r, key)
	l.Kill()
	l.openai.Behave(fake.Behaviour{})
	l.Gateway = startDreams(t, l)
	if paid := l.freed(t, key, false); paid > 5000 || len(l.openai.Generations()) != 1 {
		t.Errorf("%d were taken, after %d calls", paid, len(l.openai.Generations()))
	}
	mustFail(t, a, l.look(t, r, key), http.StatusGone, "gone")
	l.AssertSound(t)
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

// TestR28ACancelledAnswerIsPaidForAndSeenByNobody: where a provider has answered and a hook has not: no hook is asked any more, and no provider.
func TestR28ACancelledAnswerIsPaidForAndSeenByNobody(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{"extproc", "module"} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", shape, killed), func(t *testing.T) {
				t.Parallel()
				h := newHook(t)
				h.decides(func(map[string]any) string { return "no answer that can be read" })
				l := dreams(t, byCalls+fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [response], timeout: 10s}]}\n", h.URL))
				l.options.DataPath = shape
				l.Gateway = startDreams(t, l)
				key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
				a := dreamAsks[0]
				r := l.dream(t, a, key, "24h")
				eventually(t, "the hook is asked", func() bool { return len(h.questions()) > 0 })
				if killed { // the answer is stored, and nobody works on it
					l.Kill()
					l.Gateway = startDreams(t, l)
				}
				l.cancel(t, r, key)
				asked := len(h.questions())
				paid := l.freed(t, key, true)
				if want := int64(1000*15+200*60) * 12 / 1000; paid != want || len(l.openai.Generations()) != 1 { // 0.15 and 0.60 USD per million, and a fifth
					t.Errorf("%d were taken, want %d, after %d calls", paid, want, len(l.openai.Generations()))
				}
				if n := len(h.questions()); n > asked+1 { // one may have been under way
					t.Errorf("the hook was asked %d times after the cancellation", n-asked)
				}
				l.AssertSound(t)
				if err := l.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestR28ACancelEndsAHooksCall: about the request and about the answer. What a provider has answered is charged.
func TestR28ACancelEndsAHooksCall(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"request", "response"} {
		for _, onError := range []string{"refuse", "allow"} {
			t.Run(stage+", "+onError, func(t *testing.T) {
				t.Parallel()
				h := newHook(t)
				l := runDreams(t, byCalls+fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [%s], timeout: 10s, on_error: %s}]}\n", h.URL, stage, onError))
				key := l.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
				a := dreamAsks[0]
				if stage == "request" { // it is asked when the request is accepted, too
					h.decides(func(map[string]any) string {
						h.mu.Lock()
						defer h.mu.Unlock()
						h.wait = time.Hour
						return `{"action":"allow"}`
					})
				} else {
					h.wait = time.Hour
				}
				r := l.dream(t, a, key, "24h")
				asked := map[string]int{"request": 2, "response": 1}[stage]
				eventually(t, "the hook is asked", func() bool { return len(h.questions()) == asked })
				l.cancel(t, r, key)
				eventually(t, "the hook's call ends", func() bool { return h.left() > 0 })
				paid := l.freed(t, key, stage == "response")
				if n := len(l.openai.Generations()); stage == "request" && (paid != 0 || n != 0) || stage == "response" && (paid != 324 || n != 1) {
					t.Errorf("%d were taken, after %d calls", paid, n)
				}
				l.AssertSound(t)
			})
		}
	}
}

// TestR28ACancelledResultOfABatchIsPaidForAndNotCorrected: the provider has the batch, with another request that is wanted; the cancelled one's answer does not follow its schema,
// and no call is made for it.
func TestR28ACancelledResultOfABatchIsPaidForAndNotCorrected(t *testing.T) {
	t.Parallel()
	for _, a := range dreamAsks {
		t.Run(string(a.dialect), func(t *testing.T) {
			t.Parallel()
			l := runDreams(t, "deferred: {gather: 2s, poll: 150ms, fallback: 30m}\n")
			p := l.at(a)
			p.PlayBatches(fake.BatchPlay{Held: true})
			p.Behave(fake.Behaviour{Flaw: fake.MissingField, Usage: &fake.Usage{Input: 1000, Output: 200}})
			keys := [2]gateway.NewKey{l.CreateKey(t, "--name", "k", "--balance-usd", "5"), l.CreateKey(t, "--name", "other", "--balance-usd", "5")}
			unwanted, wanted := l.dream(t, a, keys[0].Key, "24h", "X-Bardo-Subsystem: dream_nrem"), l.dream(t, a, keys[1].Key, "24h")
			eventually(t, "the batches", func() bool { return len(p.BatchItems()) == 2 })
			l.cancel(t, unwanted, keys[0].Key)
			p.ReleaseBatches()
			if got := l.awaitAnswer(t, wanted, keys[1].Key); got.Status != http.StatusOK {
				t.Errorf("the other one: %d %s", got.Status, got.Body)
			}
			var price json.Number
			get(t, l.Gateway, keys[1].Key, "/v1/requests/"+wanted.ID, &struct {
				Cost *json.Number `json:"cost_usd"`
			}{&price})
			sameBatch := p.BatchItems()[0].Batch == p.BatchItems()[1].Batch
			if paid := l.freed(t, keys[0].Key, true); sameBatch && paid != micro(t, price) || len(p.Generations()) != 0 {
				t.Errorf("%d were taken, the other one paid %s, after %d calls", paid, price, len(p.Generations()))
			}
			l.AssertSound(t)
		})
	}
}

// TestB08WhoLeavesWhileAHookIsAskedPaysNothing: the hook's call ends, whatever the hook's failure would mean, and no provider is called.
func TestB08WhoLeavesWhileAHookIsAskedPaysNothing(t *testing.T) {
	t.Parallel()
	for _, onError := range []string{"refuse", "allow"} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", onError, stream), func(t *testing.T) {
				t.Parallel()
				h := newHook(t)
				h.wait = time.Hour
				p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
				g := gateway.Run(t, gateway.Options{
					Config:    quick + fmt.Sprintf("pipeline: {guardrails: [{name: dlp, url: %q, when: [request], timeout: 10s, on_error: %s}]}\n", h.URL, onError),
					Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}},
				})
				key := g.CreateKey(t, "--name", "k", "--balance-usd", "5").Key
				leaveWhen(t, g, ask{dialect: fake.OpenAI, model: "m", stream: stream}.with(key), func() bool { return len(h.questions()) == 1 })
				eventually(t, "the hook's call ends", func() bool { return h.left() > 0 })
				eventually(t, "the request ends", func() bool { return fundsOf(t, g, key).Held == "0.000000" })
				if got := g.Do(t, gateway.Call{Path: "/v1/balance", Key: key}); got.Status != http.StatusOK || balanceOf(t, g, key) != 5_000_000 || len(p.Generations()) != 0 {
					t.Errorf("%d are left, after %d calls", balanceOf(t, g, key), len(p.Generations()))
				}
				g.AssertSound(t)
			})
		}
	}
}
