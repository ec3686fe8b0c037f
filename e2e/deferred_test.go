package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/proctest"
)

// Requests that are answered later: X-Bardo-Defer.

// dreamLab is a gateway with the operator's keys at two vendors that have batch APIs.
type dreamLab struct {
	*gateway.Gateway

	openai, anthropic *fake.Server
	options           gateway.Options
}

const quickBatches = "deferred: {gather: 100ms, poll: 150ms, fallback: 30m}\n"

// dreams are the fakes, and what a gateway needs to call them. config is more of the configuration.
func dreams(t *testing.T, config string) *dreamLab {
	t.Helper()
	l := &dreamLab{
		openai:    fake.Start(t, fake.Config{Dialect: fake.OpenAI, Batches: true}),
		anthropic: fake.Start(t, fake.Config{Dialect: fake.Anthropic, Batches: true}),
	}
	for _, p := range l.vendors() {
		p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, Output: 200}})
	}
	l.options = gateway.Options{Config: quick + config, Home: proctest.Dir(t), Providers: []gateway.Provider{{ID: "openai", Fake: l.openai}, {ID: "anthropic", Fake: l.anthropic}}}
	return l
}

func runDreams(t *testing.T, config string) *dreamLab {
	t.Helper()
	l := dreams(t, config)
	l.Gateway = gateway.Run(t, l.options)
	return l
}

func (l *dreamLab) vendors() []*fake.Server { return []*fake.Server{l.openai, l.anthropic} }

// dreamAsks are a dream for each vendor, in its own format.
var dreamAsks = []ask{
	{dialect: fake.OpenAI, model: "gpt-4o-mini", more: `"max_tokens":300`},
	{dialect: fake.Anthropic, model: "claude-haiku-4-5"},
}

func (l *dreamLab) at(a ask) *fake.Server {
	if a.dialect == fake.Anthropic {
		return l.anthropic
	}
	return l.openai
}

// accepted is what a deferred request is answered with.
type accepted struct {
	ID        string    `json:"id"`
	Status    string    `json:"status"`
	AnswerURL string    `json:"answer_url"`
	ExpiresAt time.Time `json:"expires_at"`
}

// dream defers a request.
func (l *dreamLab) dream(t *testing.T, a ask, key, after string, header ...string) accepted {
	t.Helper()
	c := a.call(append(header, "X-Bardo-Defer: "+after)...)
	c.Key = key
	got := l.Do(t, c)
	var r accepted
	if got.Status != http.StatusAccepted {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	got.JSON(t, &r)
	if r.ID == "" || r.ID != got.Header.Get("X-Request-Id") || r.Status != "deferred" || r.AnswerURL != "/v1/requests/"+r.ID+"/answer" || time.Until(r.ExpiresAt) < 30*time.Second {
		t.Fatalf("accepted as %+v", r)
	}
	return r
}

// look asks for an answer once.
func (l *dreamLab) look(t *testing.T, r accepted, key string) gateway.Answer {
	t.Helper()
	return l.Do(t, gateway.Call{Path: r.AnswerURL, Key: key})
}

// awaitAnswer waits for the answer of a deferred request.
func (l *dreamLab) awaitAnswer(t *testing.T, r accepted, key string) (got gateway.Answer) {
	t.Helper()
	eventually(t, "the answer to "+r.ID, func() bool {
		got = l.look(t, r, key)
		if got.Status == http.StatusAccepted && got.Header.Get("Retry-After") == "" {
			t.Fatal("no Retry-After")
		}
		return got.Status != http.StatusAccepted
	})
	return got
}

// requestRecord is the record of a request.
type requestRecord struct {
	Status       string      `json:"status"`
	Provider     string      `json:"provider"`
	Tier         string      `json:"service_tier"`
	Cost         json.Number `json:"cost_usd"`
	ProviderCost json.Number `json:"provider_cost_usd"`
	Schema       string      `json:"schema"`
	Attempts     int         `json:"attempts"`
}

// settled is the record of a deferred request. All that stood for it is given back.
func (l *dreamLab) settled(t *testing.T, r accepted, key gateway.NewKey) (rec requestRecord) {
	t.Helper()
	get(t, l.Gateway, key.Key, "/v1/requests/"+r.ID, &rec)
	eventually(t, "nothing is held", func() bool { return fundsOf(t, l.Gateway, key.Key).Held == "0.000000" })
	return rec
}

// TestR28DreamsAreAnsweredInBatchesAtHalfThePrice, in the caller's format and with all headers of an immediate answer; what both vendors store is deleted.
func TestR28DreamsAreAnsweredInBatchesAtHalfThePrice(t *testing.T) {
	t.Parallel()
	l := runDreams(t, quickBatches+"telemetry: {events: stdout}\n")
	for _, a := range dreamAsks {
		t.Run(string(a.dialect), func(t *testing.T) {
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
			now := a.call("X-Bardo-Subsystem: dream_rem_creative")
			now.Key = key.Key
			immediate := l.Do(t, now)
			calls := len(l.at(a).Generations())
			first, second := l.dream(t, a, key.Key, "24h", "X-Bardo-Subsystem: dream_rem_creative"), l.dream(t, a, key.Key, "24h", "X-Bardo-Subsystem: dream_rem_creative")
			if f := fundsOf(t, l.Gateway, key.Key); f.Held == "0.000000" {
				t.Errorf("nothing is held while the dreams wait: %+v", f)
			}
			for _, r := range []accepted{first, second} {
				got := l.awaitAnswer(t, r, key.Key)
				if text(t, a, got) != text(t, a, immediate) || got.Header.Get("X-Request-Id") != r.ID || got.Header.Get("X-Bardo-Subsystem") != "dream_rem_creative" {
					t.Errorf("the answer is %d %v %s", got.Status, got.Header, got.Body)
				}
				for name := range immediate.Header {
					if strings.HasPrefix(name, "X-Bardo-") && got.Header.Get(name) == "" {
						t.Errorf("the header %s of an immediate answer is missing", name)
					}
				}
				full, half := micro(t, json.Number(immediate.Header.Get("X-Bardo-Cost"))), micro(t, json.Number(got.Header.Get("X-Bardo-Cost")))
				if half*2 != full && half*2 != full+1 {
					t.Errorf("it cost %d, an immediate answer %d", half, full)
				}
				if rec := l.settled(t, r, key); rec.Status != "ok" || rec.Tier != "batch" || rec.Provider != string(a.dialect) || micro(t, rec.Cost) != half {
					t.Errorf("record %+v", rec)
				}
			}
			if n := len(l.at(a).Generations()); n != calls {
				t.Errorf("%d immediate calls were made for deferred requests", n-calls)
			}
			spent := 5_000_000 - balanceOf(t, l.Gateway, key.Key)
			if want := micro(t, json.Number(immediate.Header.Get("X-Bardo-Cost"))) * 2; spent < want-2 || spent > want+2 {
				t.Errorf("%d were spent on one answer and two halves, want %d", spent, want)
			}
			eventually(t, "what the vendor stores is deleted", func() bool { return l.at(a).StoredBatchFiles() == 0 })
		})
	}
	for _, state := range []string{"accepted", "batched", "answered"} {
		eventually(t, "the events", func() bool { return strings.Count(l.Log(), `"inference:deferred_`+state+`"`) == 4 })
	}
	l.AssertSound(t)
}

// TestR28WithoutABatchAnIdleGatewayCallsDirectly, at the usual price.
func TestR28WithoutABatchAnIdleGatewayCallsDirectly(t *testing.T) {
	t.Parallel()
	l := runDreams(t, "deferred: {batches: false, poll: 100ms}\n")
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	for _, a := range dreamAsks {
		r := l.dream(t, a, key.Key, "1m")
		got := l.awaitAnswer(t, r, key.Key)
		text(t, a, got)
		if rec := l.settled(t, r, key); rec.Tier != "" || rec.Status != "ok" || len(l.at(a).BatchItems()) != 0 || len(l.at(a).Generations()) != 1 {
			t.Errorf("record %+v, %d calls", rec, len(l.at(a).Generations()))
		}
	}
	l.AssertSound(t)
}

// TestR28ARestartInTheMiddleLosesNothing: the gateway is killed while a batch is under way, and while it is handed in without an answer; the batch is found
// again and never handed in twice.
func TestR28ARestartInTheMiddleLosesNothing(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		for _, a := range dreamAsks {
			t.Run(fmt.Sprintf("%s, lost answer %v", a.dialect, lost), func(t *testing.T) {
				t.Parallel()
				l := dreams(t, quickBatches)
				p, path := l.at(a), "/batches"
				if a.dialect == fake.Anthropic {
					path = "/messages/batches"
				}
				p.PlayBatches(fake.BatchPlay{Held: true})
				if lost {
					p.BehaveOn(path, fake.Behaviour{Break: fake.Break{Kind: fake.Reset, At: fake.BeforeHeaders}})
				}
				l.Gateway = startDreams(t, l)
				key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
				r := l.dream(t, a, key.Key, "24h")
				eventually(t, "the batch", func() bool { return len(p.BatchItems()) == 1 })
				l.Kill()
				p.BehaveOn(path, fake.Behaviour{})
				l.Gateway = startDreams(t, l)
				if f := fundsOf(t, l.Gateway, key.Key); f.Held == "0.000000" {
					t.Error("nothing is held after the restart")
				}
				p.ReleaseBatches()
				text(t, a, l.awaitAnswer(t, r, key.Key))
				if n := len(p.BatchItems()); n != 1 {
					t.Errorf("the request was handed in %d times", n)
				}
				if rec := l.settled(t, r, key); rec.Tier != "batch" || len(p.Generations()) != 0 {
					t.Errorf("record %+v", rec)
				}
				l.AssertSound(t)
				if err := l.Stop(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// startDreams runs a gateway on the lab's state, which ends with the test.
func startDreams(t *testing.T, l *dreamLab) *gateway.Gateway {
	t.Helper()
	g, err := gateway.Start(t.Context(), l.options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-g.Exited():
		default:
			g.Kill()
		}
		if t.Failed() {
			t.Logf("the gateway wrote:\n%s", g.Log())
		}
	})
	return g
}

// TestR28ABatchThatFailsIsReplacedByACall: one that is refused as a whole, one that is refused at once, one that expires, and a request in it that
// the provider could not serve.
func TestR28ABatchThatFailsIsReplacedByACall(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		about string
		play  fake.BatchPlay
		ready func(p *fake.Server)
		asks  []ask
	}{
		{"refused as a whole", fake.BatchPlay{Fails: true}, nil, dreamAsks[:1]},
		{"expired", fake.BatchPlay{Expires: 1}, nil, dreamAsks},
		{"refused", fake.BatchPlay{}, func(p *fake.Server) {
			p.BehaveOn("/files", fake.Behaviour{Status: http.StatusForbidden})
			p.BehaveOn("/messages/batches", fake.Behaviour{Status: http.StatusForbidden})
		}, dreamAsks},
		{"an overloaded model", fake.BatchPlay{}, func(p *fake.Server) { p.Queue(fake.Behaviour{Status: http.StatusServiceUnavailable}) }, dreamAsks},
	} {
		for _, a := range row.asks {
			t.Run(row.about+" "+string(a.dialect), func(t *testing.T) {
				t.Parallel()
				l := runDreams(t, quickBatches)
				p := l.at(a)
				p.PlayBatches(row.play)
				if row.ready != nil {
					row.ready(p)
				}
				key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
				r := l.dream(t, a, key.Key, "24h")
				text(t, a, l.awaitAnswer(t, r, key.Key))
				if rec := l.settled(t, r, key); rec.Tier != "" || rec.Status != "ok" || len(p.Generations()) != 1 || micro(t, rec.Cost) == 0 {
					t.Errorf("record %+v, %d calls", rec, len(p.Generations()))
				}
				l.AssertSound(t)
			})
		}
	}
}

// TestR28ARequestLeavesABatchThatTakesTooLong: the batch is cancelled, and the request called in time.
func TestR28ARequestLeavesABatchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	l := runDreams(t, "deferred: {gather: 100ms, poll: 150ms, fallback: 30m}\n")
	a := dreamAsks[0]
	l.openai.PlayBatches(fake.BatchPlay{Held: true})
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	r := l.dream(t, a, key.Key, "1m")
	eventually(t, "the batch", func() bool { return len(l.openai.BatchItems()) == 1 })
	text(t, a, l.awaitAnswerWithin(t, r, key.Key, 2*time.Minute))
	if rec := l.settled(t, r, key); rec.Tier != "" || rec.Status != "ok" || len(l.openai.Generations()) != 1 {
		t.Errorf("record %+v, %d calls", rec, len(l.openai.Generations()))
	}
	cancelled := false
	for _, c := range l.openai.Calls() {
		cancelled = cancelled || strings.HasSuffix(c.Path, "/cancel")
	}
	if !cancelled {
		t.Error("the batch was not cancelled")
	}
	l.AssertSound(t)
}

// awaitAnswerWithin is awaitAnswer with another time limit.
func (l *dreamLab) awaitAnswerWithin(t *testing.T, r accepted, key string, d time.Duration) gateway.Answer {
	t.Helper()
	for ctx := within(t, d); ; {
		got := l.look(t, r, key)
		if got.Status != http.StatusAccepted {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatal("no answer came")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// TestR28ARequestThatNobodyAnswersExpires with an error in its caller's format, and costs nothing.
func TestR28ARequestThatNobodyAnswersExpires(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "audit.jsonl")
	l := runDreams(t, quickBatches+"audit: {file: '"+log+"'}\n")
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	var rs []accepted
	for _, a := range dreamAsks {
		l.at(a).Behave(fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.BeforeHeaders}})
		l.at(a).PlayBatches(fake.BatchPlay{Held: true})
		rs = append(rs, l.dream(t, a, key.Key, "1m"))
	}
	for i, a := range dreamAsks {
		mustFail(t, a, l.awaitAnswerWithin(t, rs[i], key.Key, 3*time.Minute), http.StatusGatewayTimeout, "upstream_timeout")
		hasLine(t, log, "inference:deferred_expired", rs[i].ID)
	}
	eventually(t, "the money is given back", func() bool { return fundsOf(t, l.Gateway, key.Key).Held == "0.000000" })
	if left := balanceOf(t, l.Gateway, key.Key); left != 5_000_000 {
		t.Errorf("%d are left", left)
	}
	l.AssertSound(t)
}

// TestR28OnlyItsAccountMayReadAnAnswer; a HEAD does not take it.
func TestR28OnlyItsAccountMayReadAnAnswer(t *testing.T) {
	t.Parallel()
	l := runDreams(t, "deferred: {batches: false, poll: 100ms, keep_delivered: 1s}\n")
	mine, other := l.CreateKey(t, "--name", "mine"), l.CreateKey(t, "--name", "other")
	a := dreamAsks[0]
	r := l.dream(t, a, mine.Key, "24h")
	l.awaitAnswer(t, r, "")
	for _, c := range []gateway.Call{{Path: r.AnswerURL, Key: other.Key}, {Path: r.AnswerURL}, {Method: http.MethodDelete, Path: "/v1/requests/" + r.ID, Key: other.Key}, {Path: "/v1/requests/req_0/answer", Key: mine.Key}} {
		mustFail(t, a, l.Do(t, c), http.StatusNotFound, "not_found")
	}
	eventually(t, "the answer", func() bool {
		return l.Do(t, gateway.Call{Method: http.MethodHead, Path: r.AnswerURL, Key: mine.Key}).Status == http.StatusOK
	})
	text(t, a, l.awaitAnswer(t, r, mine.Key))
	eventually(t, "the answer is deleted", func() bool { return l.look(t, r, mine.Key).Status == http.StatusGone })
	mustFail(t, a, l.look(t, r, mine.Key), http.StatusGone, "gone")
}

// TestR28ACancelledRequestIsNotAnswered: before its batch is handed in it costs nothing, and afterwards what the provider did.
func TestR28ACancelledRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		about  string
		config string
		handed bool
	}{
		{"before its batch is handed in", "deferred: {gather: 1h, poll: 100ms, fallback: 1h}\n", false},
		{"in a batch that the provider has", quickBatches, true},
	} {
		t.Run(row.about, func(t *testing.T) {
			t.Parallel()
			l := runDreams(t, row.config)
			l.openai.PlayBatches(fake.BatchPlay{Held: true})
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
			a := dreamAsks[0]
			r := l.dream(t, a, key.Key, "24h")
			if row.handed {
				eventually(t, "the batch", func() bool { return len(l.openai.BatchItems()) == 1 })
			}
			cancel := gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/" + r.ID, Key: key.Key}
			if got := l.Do(t, cancel); got.Status != http.StatusOK || !strings.Contains(got.Body, `"status":"cancelled"`) {
				t.Errorf("%d %s", got.Status, got.Body)
			}
			mustFail(t, a, l.look(t, r, key.Key), http.StatusGone, "gone")
			mustFail(t, a, l.Do(t, cancel), http.StatusGone, "gone")
			eventually(t, "the money is given back", func() bool { return fundsOf(t, l.Gateway, key.Key).Held == "0.000000" })
			if left := balanceOf(t, l.Gateway, key.Key); left != 5_000_000 || len(l.openai.Generations()) != 0 {
				t.Errorf("%d are left, %d calls", left, len(l.openai.Generations()))
			}
			l.AssertSound(t)
		})
	}
}

// TestR28ADreamsSchemaIsEnforced: a result of a batch that does not follow it is corrected by a call, and each is paid at its own price.
func TestR28ADreamsSchemaIsEnforced(t *testing.T) {
	t.Parallel()
	for _, a := range dreamAsks {
		t.Run(string(a.dialect), func(t *testing.T) {
			t.Parallel()
			l := runDreams(t, quickBatches)
			p := l.at(a)
			usage := &fake.Usage{Input: 1000, Output: 200}
			p.Queue(fake.Behaviour{Flaw: fake.MissingField, Usage: usage}, fake.Behaviour{Usage: usage})
			key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
			r := l.dream(t, a, key.Key, "24h", "X-Bardo-Subsystem: dream_nrem")
			got := l.awaitAnswer(t, r, key.Key)
			var analysis map[string]any
			if err := json.Unmarshal([]byte(text(t, a, got)), &analysis); err != nil || len(analysis) == 0 {
				t.Errorf("the answer is %d %s: %v", got.Status, got.Body, err)
			}
			rec := l.settled(t, r, key)
			if len(p.BatchItems()) != 1 || len(p.Generations()) != 1 || !strings.Contains(got.Header.Get("X-Bardo-Schema"), "valid") {
				t.Errorf("%d requests in batches, %d calls, schema %q, record %+v", len(p.BatchItems()), len(p.Generations()), got.Header.Get("X-Bardo-Schema"), rec)
			}
			l.AssertSound(t)
		})
	}
}

// TestR28WhatMayNotBeStoredIsRefused, and what cannot be answered later.
func TestR28WhatMayNotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	l := runDreams(t, quickBatches)
	a := dreamAsks[0]
	for _, row := range []struct {
		about, want string
		a           ask
		header      []string
	}{
		{"too short", "from 1m to 24h", a, []string{"X-Bardo-Defer: 10s"}},
		{"no duration", "from 1m to 24h", a, []string{"X-Bardo-Defer: tomorrow"}},
		{"a heartbeat", "needs its answers now", a, []string{"X-Bardo-Defer: 1h", "X-Bardo-Subsystem: heartbeat_t1"}},
		{"a stream", "not streamed", ask{dialect: fake.OpenAI, model: a.model, stream: true}, []string{"X-Bardo-Defer: 1h"}},
		{"a confidential request", "deferred.key", a, []string{"X-Bardo-Defer: 1h", "X-Bardo-Security-Class: confidential"}},
		{"a key of its own", "not stored", a, []string{"X-Bardo-Defer: 1h", "X-Bardo-Upstream-Key: sk-mine"}},
	} {
		got := l.Do(t, row.a.call(row.header...))
		mustFail(t, row.a, got, http.StatusBadRequest, "invalid_request")
		if !strings.Contains(got.Body, row.want) {
			t.Errorf("%s: %s", row.about, got.Body)
		}
	}
	got := l.Do(t, gateway.Call{Path: "/v1/embeddings", Body: `{"model":"text-embedding-3-small","input":"x"}`, Header: []string{"X-Bardo-Defer: 1h"}})
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "answered now") {
		t.Errorf("embeddings: %d %s", got.Status, got.Body)
	}
	if _, err := os.Stat(filepath.Join(l.Home, "deferred.db")); err == nil {
		t.Error("something was stored")
	}
}

// TestR28SecretsAreStoredEncrypted, are never part of a batch, and nothing of them is left once they were answered; nor are credentials ever stored.
func TestR28SecretsAreStoredEncrypted(t *testing.T) {
	t.Parallel()
	const words = "the heron sleeps at noon"
	l := dreams(t, "deferred: {gather: 1h, poll: 100ms, key: env:DREAM_KEY, keep_delivered: 300ms}\n")
	l.options.Env = []string{"DREAM_KEY=a long secret of the operator's"}
	l.Gateway = gateway.Run(t, l.options)
	a := dreamAsks[0]
	a.say = words
	l.dream(t, a, "", "24h") // stays in a batch that gathers
	l.storesNothingOf(t, words, l.Key)
	r := l.dream(t, a, "", "24h", "X-Bardo-Security-Class: confidential")
	text(t, a, l.awaitAnswer(t, r, ""))
	if len(l.openai.BatchItems()) != 0 || len(l.openai.Generations()) != 1 {
		t.Errorf("%d in batches, %d calls", len(l.openai.BatchItems()), len(l.openai.Generations()))
	}
	l.storesNothingOf(t, words, l.Key, "Hello from the fake provider")
	mustFail(t, a, l.Do(t, a.call("X-Bardo-Defer: 1h", "X-Bardo-Privacy-Tier: tee", "X-Bardo-Task-Class: testament")), http.StatusBadRequest, "invalid_request")
}

// TestR28WithoutAKeyContentIsEncryptedToo, with a key of the gateway's own.
func TestR28WithoutAKeyContentIsEncryptedToo(t *testing.T) {
	t.Parallel()
	const words = "the heron sleeps at noon"
	l := dreams(t, "deferred: {gather: 1h, poll: 100ms, keep_delivered: 200ms}\n")
	l.Gateway = gateway.Run(t, l.options)
	a := dreamAsks[0]
	a.say = words
	l.dream(t, a, "", "24h") // stays in a batch that gathers
	l.storesNothingOf(t, words, l.Key, l.openai.Key)
	mustFail(t, a, l.Do(t, a.call("X-Bardo-Defer: 1h", "X-Bardo-Security-Class: confidential")), http.StatusBadRequest, "invalid_request")
}

// storesNothingOf fails if a text is in the store's files.
func (l *dreamLab) storesNothingOf(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if l.stores(t, text) {
			t.Errorf("the store contains %q", text)
		}
	}
}

// stores reports whether a text is in the store's files.
func (l *dreamLab) stores(t *testing.T, text string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.Home, "deferred.db*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no store: %v", err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			return true
		}
	}
	return false
}

// TestR28MaskedDreamsAreRestored: a batch sees placeholders alone, and the answer that comes out of it has the values, also after a restart.
func TestR28MaskedDreamsAreRestored(t *testing.T) {
	t.Parallel()
	l := dreams(t, quickBatches+"pipeline: {pii: {policy: mask}}\n")
	l.openai.PlayBatches(fake.BatchPlay{Held: true})
	l.Gateway = startDreams(t, l)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "5")
	a := dreamAsks[0]
	a.say = "write to jane.doe@mail.example.co.uk"
	r := l.dream(t, a, key.Key, "24h")
	eventually(t, "the batch", func() bool { return len(l.openai.BatchItems()) == 1 })
	sent := string(l.openai.BatchItems()[0].Body)
	holder := placeholder.FindString(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(sent))
	if holder == "" || strings.Contains(sent, "jane.doe") {
		t.Fatalf("the batch has %s", sent)
	}
	l.openai.Behave(fake.Behaviour{Text: "Written to " + holder + "."})
	l.Kill()
	l.Gateway = startDreams(t, l)
	l.openai.ReleaseBatches()
	if said := text(t, a, l.awaitAnswer(t, r, key.Key)); said != "Written to jane.doe@mail.example.co.uk." {
		t.Errorf("the answer says %q", said)
	}
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
}

// TestR28AKeyMayHaveSoManyDeferredRequests, and bytes of them.
func TestR28AKeyMayHaveSoManyDeferredRequests(t *testing.T) {
	t.Parallel()
	l := runDreams(t, "deferred: {gather: 1h, max_requests: 2}\n")
	key, other := l.CreateKey(t, "--name", "k", "--balance-usd", "5"), l.CreateKey(t, "--name", "other")
	a := dreamAsks[0]
	first := l.dream(t, a, key.Key, "24h")
	l.dream(t, a, key.Key, "24h")
	held := fundsOf(t, l.Gateway, key.Key).Held
	c := a.call("X-Bardo-Defer: 24h")
	c.Key = key.Key
	got := l.Do(t, c)
	mustFail(t, a, got, http.StatusTooManyRequests, "rate_limit_exceeded")
	if now := fundsOf(t, l.Gateway, key.Key).Held; now != held {
		t.Errorf("the refused one holds money: %s, before %s", now, held)
	}
	l.dream(t, a, other.Key, "24h")
	l.Do(t, gateway.Call{Method: http.MethodDelete, Path: "/v1/requests/" + first.ID, Key: key.Key})
	l.dream(t, a, key.Key, "24h")
}

// How often a gateway with dreams is killed: in every run of the tests, and in a soak.
const (
	dreamKills     = 6
	soakDreamKills = 100
)

// TestR28DreamsOutliveKills: the gateway is killed at any moment, over and over. Every dream is answered once, charged once, handed in once.
func TestR28DreamsOutliveKills(t *testing.T) {
	t.Parallel()
	rounds := dreamKills
	if os.Getenv("BARDO_SOAK") != "" {
		rounds = soakDreamKills
	}
	l := dreams(t, "deferred: {gather: 60ms, poll: 80ms, fallback: 30m}\n")
	l.Gateway = startDreams(t, l)
	key := l.CreateKey(t, "--name", "k", "--balance-usd", "1000")
	asks := map[string]ask{}
	var all []accepted
	for i := range rounds {
		for n := range 4 {
			a := dreamAsks[n%2]
			a.say = fmt.Sprintf("dream %d of round %d", n, i)
			r := l.dream(t, a, key.Key, "24h")
			asks[r.ID] = a
			all = append(all, r)
		}
		<-time.After(time.Duration(i*137%900) * time.Millisecond)
		l.Kill()
		l.Gateway = startDreams(t, l)
	}
	for _, r := range all {
		text(t, asks[r.ID], l.awaitAnswer(t, r, key.Key))
	}
	eventually(t, "nothing is held", func() bool { return fundsOf(t, l.Gateway, key.Key).Held == "0.000000" })
	handed := map[string]int{}
	for _, p := range l.vendors() {
		for _, it := range p.BatchItems() {
			handed[it.ID]++
		}
	}
	var sum int64
	for _, r := range all {
		var rec requestRecord
		get(t, l.Gateway, key.Key, "/v1/requests/"+r.ID, &rec)
		sum += micro(t, rec.Cost)
		if handed[r.ID] != 1 || rec.Tier != "batch" {
			t.Errorf("%s was handed in %d times: %+v", r.ID, handed[r.ID], rec)
		}
	}
	if spent := 1_000_000_000 - balanceOf(t, l.Gateway, key.Key); spent != sum {
		t.Errorf("%d were spent, the records say %d", spent, sum)
	}
	l.AssertSound(t)
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	t.Log(strconv.Itoa(len(all)) + " dreams")
}

// TestR28LayersHaveNoModelCalledForADeferredRequest: they run when it is accepted, planned and answered, and only the answer is billed.
func TestR28LayersHaveNoModelCalledForADeferredRequest(t *testing.T) {
	t.Parallel()
	g, lead, helper := helpers(t, fmt.Sprintf(summaries, "on")+quickBatches)
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "50")
	h := history{model: "big", secret: "the blue folder", turns: 14}
	got := g.Do(t, gateway.Call{Path: "/v1/chat/completions", Key: key.Key, Body: h.body("What is next?"), Header: []string{"X-Bardo-Defer: 24h"}})
	if got.Status != http.StatusAccepted {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	var r accepted
	got.JSON(t, &r)
	l := &dreamLab{Gateway: g}
	if got := l.awaitAnswer(t, r, key.Key); got.Status != http.StatusOK {
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	if a, b := len(lead.Generations()), len(helper.Generations()); a != 1 || b != 0 {
		t.Fatalf("%d and %d calls", a, b)
	}
	if !strings.Contains(string(lead.Generations()[0].Body), "Question number 0") {
		t.Error("the conversation was not sent as it came")
	}
	if rec := l.settled(t, r, key); rec.ProviderCost != "0.0102" {
		t.Errorf("the record says %+v", rec)
	}
}
