package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// act is one thing that a client does.
func (w *sharedStores) act(r *rand.Rand) {
	s := pick(r, w.gateways...)
	a := ask{dialect: pick(r, fake.OpenAI, fake.Anthropic), stream: r.IntN(2) == 0, model: "m"}
	if a.dialect == fake.OpenAI {
		a.more = `"max_tokens":100`
	}
	switch r.IntN(10) {
	case 0:
		w.lookUp(r, s)
	case 1, 2, 3:
		who := pick(r, "tenant-a", "tenant-b")
		w.send(s, a.about("m", fmt.Sprintf("Q-both-%d", r.IntN(partQuestions))), who, 0, fast)
	case 4:
		a.model, a.say = "slow", fmt.Sprintf("Q-left-%d", r.IntN(1e9))
		w.send(s, a, pick(r, "rich", "poor", "daily", "member-a"), time.Duration(1+r.IntN(300))*time.Millisecond)
	default:
		who := pick(r, "rich", "rich", "poor", "rate", "rate", "daily", "member-a", "member-b")
		a.say = fmt.Sprintf("Q-%s-%d", who, r.IntN(1e9))
		w.send(s, a, who, 0, "X-Bardo-No-Cache: true")
	}
}

// exceedConcurrency sends more requests of one key at once than it may have.
func (w *sharedStores) exceedConcurrency(n int) {
	var all sync.WaitGroup
	for i := range 7 {
		s, a := w.gateways[i%len(w.gateways)], ask{dialect: fake.OpenAI, model: "slow", more: `"max_tokens":100`, say: fmt.Sprintf("Q-concurrent-%d-%d", n, i)}
		all.Go(func() { w.send(s, a, "concurrent", 0, "X-Bardo-No-Cache: true") })
	}
	all.Wait()
}

// lookUp asks for what costs nothing.
func (w *sharedStores) lookUp(r *rand.Rand, s *sharingGateway) {
	g := s.gateway()
	got := w.control(g, gateway.Call{Path: pick(r, "/v1/balance", "/v1/models", "/v1/cache", "/v1/requests?limit=3", "/v1/requests/req_none"), Key: w.keys[pick(r, "rich", "poor", "tenant-a", "rate")].Key})
	switch {
	case got.Err != nil:
		w.gone(g, got.Err)
	case got.Status == http.StatusOK, got.Status == http.StatusNotFound && strings.Contains(got.Body, "not_found"):
	default:
		w.refused(ask{dialect: fake.OpenAI}, got)
	}
}

// control is a request that needs no provider, in bounded time.
func (w *sharedStores) control(g *gateway.Gateway, c gateway.Call) (got gateway.Answer) {
	ctx, cancel := context.WithTimeout(w.Context(), partWithin)
	defer cancel()
	res, err := g.Open(ctx, c)
	if err != nil {
		return gateway.Answer{Err: fmt.Errorf("%s: %w", c.Path, err)}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return gateway.Answer{Status: res.StatusCode, Header: res.Header, Body: string(body), Err: err}
}

var answerWord = regexp.MustCompile(`ANSWER-\w+-\d+-END`)

// send sends a request, and notes what came of it. Its client leaves after a time, if that is not 0.
func (w *sharedStores) send(s *sharingGateway, a ask, who string, leaves time.Duration, header ...string) {
	g := s.gateway()
	d := &partDeed{who: who, say: a.say, began: time.Now()}
	within := partWithin
	if leaves > 0 {
		within = leaves
	}
	ctx, cancel := context.WithTimeout(w.Context(), within)
	defer cancel()
	defer func() {
		d.ended = time.Now()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.deeds = append(w.deeds, d)
	}()
	res, err := g.Open(ctx, a.with(w.keys[who].Key, header...))
	if err != nil {
		if leaves == 0 || !errors.Is(err, context.DeadlineExceeded) {
			w.gone(g, fmt.Errorf("%+v of %s: %w", a, who, err))
		}
		return
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	d.status, d.request, d.cache = res.StatusCode, res.Header.Get("X-Request-Id"), res.Header.Get("X-Bardo-Cache")
	d.said = answerWord.FindString(string(body))
	d.whole = d.status == http.StatusOK && whole(a, res, body, err)
	switch {
	case d.whole || leaves > 0 && err != nil:
		if d.whole && d.said == "" {
			w.Errorf("%+v: no answer in %s", a, body)
		}
	case err != nil || d.status == http.StatusOK:
		w.gone(g, fmt.Errorf("%+v of %s: an answer with %d broke off: %w after %q", a, who, d.status, err, body))
	default:
		w.refused(a, gateway.Answer{Status: d.status, Header: res.Header, Body: string(body)})
	}
}

// gone is an error unless the gateway was killed.
func (w *sharedStores) gone(g *gateway.Gateway, err error) {
	select {
	case <-g.Exited():
	case <-time.After(30 * time.Second):
		w.Errorf("the gateway runs, and %v", err)
	}
}

// partCodes are what callers may be refused with.
var partCodes = map[int][]string{
	http.StatusPaymentRequired:    {"insufficient_balance"},
	http.StatusTooManyRequests:    {"rate_limit_exceeded", "budget_exceeded"},
	http.StatusServiceUnavailable: {"gateway_unavailable"},
}

// refused checks a refusal: its status, and its body in the caller's format.
func (w *sharedStores) refused(a ask, got gateway.Answer) {
	var e apiError
	err := json.Unmarshal([]byte(got.Body), &e)
	if err != nil || got.Err != nil || !slices.Contains(partCodes[got.Status], e.Error.Code) || e.Error.Message == "" || e.Error.Type == "" || (e.Type == "error") != (a.dialect == fake.Anthropic) {
		w.Errorf("%+v: %d %v %s", a, got.Status, got.Err, got.Body)
	}
	if got.Status != http.StatusPaymentRequired && got.Header.Get("Retry-After") == "" {
		w.Errorf("%+v: %d without Retry-After: %s", a, got.Status, got.Body)
	}
}
