package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
	"bardo.money/gateway/internal/polltest"
)

// What is checked before a request's body comes, and what a body that comes slowly may hold.

// eachFormat are a request in each client's format.
var eachFormat = []ask{{dialect: fake.OpenAI, model: "m"}, {dialect: fake.Anthropic, model: "m"}, {dialect: fake.Gemini, model: "m"}}

// held is a request whose client keeps back the rest of its body.
type held struct {
	net.Conn
	r *bufio.Reader
}

// hold sends a request's headers, which announce a body of so many bytes (0: it comes in chunks), and nothing of it.
func hold(t testing.TB, g *gateway.Gateway, c gateway.Call, announced int) *held {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	key, length := c.Key, "Content-Length: "+strconv.Itoa(announced)
	if key == "" {
		key = g.Key
	}
	if announced == 0 {
		length = "Transfer-Encoding: chunked"
	}
	lines := append([]string{"POST " + c.Path + " HTTP/1.1", "Host: h", "Content-Type: application/json", "Authorization: Bearer " + key, length}, c.Header...)
	h := &held{conn, bufio.NewReader(conn)}
	h.send(t, strings.Join(lines, "\r\n")+"\r\n\r\n")
	return h
}

// send sends more of the request.
func (h *held) send(t testing.TB, s string) {
	t.Helper()
	_ = h.SetWriteDeadline(time.Now().Add(polltest.Patience))
	if _, err := io.WriteString(h, s); err != nil {
		t.Fatal(err)
	}
}

// answer is what comes though the body is not complete.
func (h *held) answer(t testing.TB) gateway.Answer {
	t.Helper()
	_ = h.SetReadDeadline(time.Now().Add(polltest.Patience))
	res, err := http.ReadResponse(h.r, nil)
	if err != nil {
		t.Fatalf("no answer while the body is held back: %v", err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("the answer broke off: %v", err)
	}
	return gateway.Answer{Status: res.StatusCode, Header: res.Header, Body: string(body)}
}

// bodyBytes is what the gateway says that request bodies take.
func bodyBytes(t testing.TB, g *gateway.Gateway) int {
	t.Helper()
	n, ok := g.Metrics(t)["bardo_request_body_bytes"]
	if !ok {
		t.Fatal("there is no metric of the bodies of requests")
	}
	return int(n)
}

// nothingHeld waits until no request and no body is left, whatever connections there are.
func nothingHeld(t testing.TB, g *gateway.Gateway) {
	t.Helper()
	eventually(t, "a gateway that holds nothing", func() bool {
		return bodyBytes(t, g) == 0 && g.Metrics(t).Sum("bardo_active_exchanges") == 0
	})
}

// TestWhatIsRefusedAnywayIsRefusedBeforeItsBody: a client that sends its headers and none of its body hears at once that its key is over
// a limit, cannot pay or may not ask.
func TestWhatIsRefusedAnywayIsRefusedBeforeItsBody(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	g, p := one(t, "limits: {max_concurrent: 1, tokens_per_hour: 50000}\n")
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 40_000, Output: 20}})
	served := func(times int) func(*testing.T, ask, gateway.NewKey) {
		return func(t *testing.T, a ask, k gateway.NewKey) {
			t.Helper()
			for range times {
				if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
					t.Fatalf("at first: %d %s", got.Status, got.Body)
				}
			}
		}
	}
	for _, row := range []struct {
		name   string
		flags  []string
		before func(*testing.T, ask, gateway.NewKey)
		status int
		code   string
	}{
		{"the rate", []string{"--rpm", "1"}, served(1), 429, "rate_limit_exceeded"},
		{"the requests at a time", nil, func(t *testing.T, a ask, k gateway.NewKey) {
			t.Helper()
			hold(t, g, a.with(k.Key), 100).send(t, "{")
			eventually(t, "the first one", func() bool { return bodyBytes(t, g) > 0 })
		}, 429, "rate_limit_exceeded"},
		{"the hour's tokens", nil, served(2), 429, "token_allowance_exhausted"},
		{"the day's money", []string{"--limit-usd-day", "0.02"}, served(1), 429, "budget_exceeded"},
		{"an empty balance", []string{"--balance-usd", "0"}, nil, 402, "insufficient_balance"},
		{"a blocked key", []string{"--balance-usd", "0.02"}, served(1), 402, "insufficient_balance"},
		{"a read-only key", []string{"--read-only"}, nil, 403, "key_restricted"},
		{"another address", []string{"--ip", "192.0.2.1"}, nil, 403, "key_restricted"},
		{"a revoked key", nil, func(t *testing.T, a ask, k gateway.NewKey) {
			t.Helper()
			g.Bardo(t, "keys", "revoke", k.ID)
			eventually(t, "the end of the key", func() bool { return g.Do(t, a.with(k.Key)).Status == http.StatusUnauthorized })
		}, 401, "invalid_api_key"},
	} {
		for _, a := range eachFormat {
			t.Run(row.name+"/"+string(a.dialect), func(t *testing.T) {
				k := g.CreateKey(t, append([]string{"--name", "k"}, row.flags...)...)
				if row.before != nil {
					row.before(t, a, k)
				}
				mustFail(t, a, hold(t, g, a.with(k.Key), 32<<20).answer(t), row.status, row.code)
				if row.status == http.StatusPaymentRequired {
					g.Bardo(t, "deposit", k.ID, "--usd", "9", "--ref", "r")
					served(1)(t, a, k)
				}
			})
		}
	}
}

// TestAnEmptyKeyMayAskForWhatCostsNothing: what it pays for is known only once its body is there, where something is free.
func TestAnEmptyKeyMayAskForWhatCostsNothing(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	free := []gateway.Model{{ID: "free", Price: "{input: 0, output: 0}"}}
	for _, row := range []struct {
		name   string
		o      gateway.Options
		model  string
		status int
	}{
		{"a free model", gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: append(models("m", ""), free...)}}}, "free", 200},
		{"a paid model beside a free one", gateway.Options{Config: quick, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: append(models("m", ""), free...)}}}, "m", 402},
		{"the demo", gateway.Options{Config: quick}, "any", 200},
		{"a user's own key", gateway.Options{Config: quick + fmt.Sprintf("providers: {direct: {keys: [{provider: openai, api_key: %q, base_url: %q}]}}\n", p.Key, p.URL)}, "direct/openai/gpt-4.1", 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g := gateway.Run(t, row.o)
			k := g.CreateKey(t, "--name", "empty", "--balance-usd", "0")
			a := ask{dialect: fake.OpenAI, model: row.model}
			body := a.body()
			h := hold(t, g, a.with(k.Key), len(body))
			eventually(t, "a request that waits for its body", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") > 0 })
			h.send(t, body)
			if got := h.answer(t); got.Status != row.status {
				t.Errorf("%d %s, want %d", got.Status, got.Body, row.status)
			}
		})
	}
}

// TestASlotIsFreeAgainWhicheverWayItsUploadEnds: by its client's leaving, by its refusal, by its time, or by its answer.
func TestASlotIsFreeAgainWhicheverWayItsUploadEnds(t *testing.T) {
	t.Parallel()
	g, _ := one(t, "limits: {rpm: 0, max_concurrent: 1, max_body_bytes: 1024, body_idle: 1s}\n")
	a := eachFormat[0]
	for _, row := range []struct {
		name string
		end  func(*testing.T, *held)
	}{
		{"the client leaves before its body", func(_ *testing.T, h *held) { _ = h.Close() }},
		{"the client leaves within its body", func(t *testing.T, h *held) {
			t.Helper()
			h.send(t, "5\r\n{\"mod\r\n")
			eventually(t, "a piece of the body", func() bool { return bodyBytes(t, g) > 0 })
			_ = h.Close()
		}},
		{"the body is late", func(t *testing.T, h *held) {
			t.Helper()
			mustFail(t, a, h.answer(t), 408, "request_timeout")
		}},
		{"the body is too large", func(t *testing.T, h *held) {
			t.Helper()
			h.send(t, fmt.Sprintf("%x\r\n%s\r\n", 2000, strings.Repeat(" ", 2000)))
			mustFail(t, a, h.answer(t), 413, "request_too_large")
		}},
		{"the body is no JSON", func(t *testing.T, h *held) {
			t.Helper()
			h.send(t, "1\r\n{\r\n0\r\n\r\n")
			mustFail(t, a, h.answer(t), 400, "invalid_request")
		}},
		{"the body is served", func(t *testing.T, h *held) {
			t.Helper()
			h.send(t, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(a.body()), a.body()))
			if got := h.answer(t); got.Status != http.StatusOK {
				t.Errorf("%d %s", got.Status, got.Body)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := g.Do(t, a.call()); got.Status != http.StatusOK { // from here on, the key is known
				t.Fatalf("at first: %d %s", got.Status, got.Body)
			}
			h := hold(t, g, a.call(), 0)
			eventually(t, "the upload's slot", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") > 0 })
			mustFail(t, a, hold(t, g, a.call(), 100).answer(t), 429, "rate_limit_exceeded")
			row.end(t, h)
			nothingHeld(t, g)
			if got := g.Do(t, a.call()); got.Status != http.StatusOK {
				t.Errorf("afterwards: %d %s", got.Status, got.Body)
			}
		})
	}
}

// TestAnUploadThatItsClientLeavesCountsAsLeft, and not as served.
func TestAnUploadThatItsClientLeavesCountsAsLeft(t *testing.T) {
	t.Parallel()
	g, _ := one(t, quick)
	h := hold(t, g, eachFormat[0].call(), 100)
	h.send(t, `{"model"`)
	eventually(t, "a piece of the body", func() bool { return bodyBytes(t, g) > 0 })
	_ = h.Close()
	nothingHeld(t, g)
	if m := g.Metrics(t); m.Sum("bardo_requests_total", `status="499"`, `code="client_closed"`) != 1 || m.Sum("bardo_requests_total", `status="200"`) != 0 {
		t.Error("it is not counted as 499")
	}
}

// TestTheBodiesOfAllRequestsTogetherAreBounded: a body beyond the bound gets 503, whoever sends it; what was held is free again when its
// request ends, and what is only announced holds nothing.
func TestTheBodiesOfAllRequestsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	g, p := one(t, fmt.Sprintf("limits: {max_inflight_body_bytes: %d}\n", bound))
	other := g.CreateKey(t, "--name", "other")
	a := eachFormat[0]

	var silent []*held
	for range 40 {
		silent = append(silent, hold(t, g, a.call(), bound-1))
	}
	eventually(t, "all of them", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") == 40 })
	if got := bodyBytes(t, g); got != 0 {
		t.Errorf("what is announced and not sent holds %d bytes", got)
	}
	if got := g.Do(t, a.call()); got.Status != http.StatusOK {
		t.Fatalf("beside what is announced: %d %s", got.Status, got.Body)
	}
	for _, h := range silent {
		_ = h.Close()
	}
	nothingHeld(t, g)

	h := hold(t, g, a.call(), bound)
	h.send(t, strings.Repeat(" ", bound/2+1)) // more than half has room for all, wherever Envoy cuts it
	eventually(t, "an upload that fills the memory", func() bool { return bodyBytes(t, g) == bound })
	for _, a := range eachFormat {
		got := g.Do(t, a.with(other.Key))
		mustFail(t, a, got, http.StatusServiceUnavailable, "overloaded")
		if retryAfter(t, got, 5); len(p.Generations()) != 1 {
			t.Errorf("%d requests reached the provider", len(p.Generations()))
		}
	}
	_ = h.Close()
	nothingHeld(t, g)
	for _, a := range eachFormat {
		if got := g.Do(t, a.with(other.Key)); got.Status != http.StatusOK {
			t.Errorf("afterwards: %d %s", got.Status, got.Body)
		}
	}
}

// TestABodyHoldsMemoryUntilItsAnswerIsOver, for every attempt is written from it.
func TestABodyHoldsMemoryUntilItsAnswerIsOver(t *testing.T) {
	t.Parallel()
	g, p := one(t, "limits: {max_inflight_body_bytes: 1048576}\n")
	p.Behave(fake.Behaviour{Tokens: 4, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 2}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	large := ask{dialect: fake.OpenAI, model: "m", stream: true, say: strings.Repeat("x", 600<<10)}
	res, err := g.Open(ctx, large.call())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK || bodyBytes(t, g) < 600<<10 {
		t.Fatalf("%d, bodies take %d bytes", res.StatusCode, bodyBytes(t, g))
	}
	mustFail(t, large, g.Do(t, large.call()), http.StatusServiceUnavailable, "overloaded")
	leave()
	nothingHeld(t, g)
}

// TestABodyLargerThanTheBoundOfAllIsTooLarge: to come again would not help.
func TestABodyLargerThanTheBoundOfAllIsTooLarge(t *testing.T) {
	t.Parallel()
	g, _ := one(t, "limits: {rpm: 0, max_inflight_body_bytes: 65536}\n")
	a := eachFormat[1]
	mustFail(t, a, hold(t, g, a.call(), 65537).answer(t), 413, "request_too_large")
	h := hold(t, g, a.call(), 0)
	h.send(t, fmt.Sprintf("%x\r\n%s\r\n", 70_000, strings.Repeat(" ", 70_000)))
	mustFail(t, a, h.answer(t), 413, "request_too_large")
}

// TestASlowUploadEndsInItsTime: with 408 in the caller's format, whether it is silent or comes drop by drop, over both versions of HTTP. Its
// connection may stay: nothing else does.
func TestASlowUploadEndsInItsTime(t *testing.T) {
	t.Parallel()
	idle, _ := one(t, "limits: {rpm: 0, body_idle: 500ms}\n")
	total, _ := one(t, "limits: {rpm: 0, body_idle: 10s, body_total: 1s}\n")
	for _, a := range eachFormat {
		for _, sent := range []int{0, 1000} {
			t.Run(fmt.Sprintf("silence after %d bytes/%s", sent, a.dialect), func(t *testing.T) {
				h := hold(t, idle, a.call(), 100_000)
				h.send(t, strings.Repeat(" ", sent))
				got := h.answer(t)
				if mustFail(t, a, got, 408, "request_timeout"); !strings.Contains(got.Body, "500ms") {
					t.Errorf("it says %s", got.Body)
				}
				nothingHeld(t, idle)
			})
		}
		t.Run("drop by drop/"+string(a.dialect), func(t *testing.T) {
			h := hold(t, total, a.call(), 100_000)
			stop := sendSlowly(t, h)
			defer stop()
			got := h.answer(t)
			if mustFail(t, a, got, 408, "request_timeout"); !strings.Contains(got.Body, "1s") {
				t.Errorf("it says %s", got.Body)
			}
			nothingHeld(t, total)
		})
	}
	t.Run("HTTP/2", func(t *testing.T) {
		body, rest := io.Pipe()
		defer func() { _ = rest.Close() }()
		got := overHTTP2(t, idle, eachFormat[0], body)
		mustFail(t, eachFormat[0], got, 408, "request_timeout")
		nothingHeld(t, idle)
	})
}

// sendSlowly sends a byte every 50 ms until it is stopped, or the connection is gone.
func sendSlowly(t testing.TB, h *held) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var dripping sync.WaitGroup
	dripping.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if _, err := io.WriteString(h, " "); err != nil {
				return
			}
		}
	})
	return func() { cancel(); dripping.Wait() }
}

// overHTTP2 sends a request with a body that does not end, and returns the answer that comes all the same.
func overHTTP2(t testing.TB, g *gateway.Gateway, a ask, body io.Reader) gateway.Answer {
	t.Helper()
	c := a.call()
	req, err := http.NewRequestWithContext(soon(t), http.MethodPost, g.HTTPS+c.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+g.Key)
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || res.ProtoMajor != 2 {
		t.Errorf("%s: %v", res.Proto, err)
	}
	return gateway.Answer{Status: res.StatusCode, Header: res.Header, Body: string(b)}
}

// TestARequestCountsOnce: one that is answered from the cache as one that is not, a dry run as a lookup, and a request that only looks
// like one as what it is.
func TestARequestCountsOnce(t *testing.T) {
	t.Parallel()
	g, p := one(t, "limits: {rpm: 0}\n")
	a := ask{dialect: fake.OpenAI, model: "m", more: `"temperature":0`}
	t.Run("stored answers", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "cached", "--rpm", "3")
		p.Forget()
		for i := range 3 {
			if got := g.Do(t, a.with(k.Key)); got.Status != http.StatusOK {
				t.Fatalf("request %d: %d %s", i+1, got.Status, got.Body)
			}
		}
		mustFail(t, a, g.Do(t, a.with(k.Key)), 429, "rate_limit_exceeded")
		if n := len(p.Generations()); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
	t.Run("dry runs of token counts", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "dry", "--rpm", "1")
		c := gateway.Call{Path: "/v1/messages/count_tokens", Body: both[1].body(), Key: k.Key, Header: []string{"anthropic-version: 2023-06-01", "x-bardo-route: explain"}}
		for i := range 10 {
			if got := g.Do(t, c); got.Status != http.StatusOK {
				t.Fatalf("dry run %d: %d %s", i+1, got.Status, got.Body)
			}
		}
		mustFail(t, both[1], g.Do(t, c), 429, "rate_limit_exceeded")
	})
	t.Run("an empty X-Bardo-Route", func(t *testing.T) {
		k := g.CreateKey(t, "--name", "sly", "--rpm", "1")
		for _, want := range []int{200, 429} {
			if got := g.Do(t, a.with(k.Key, "x-bardo-route:")); got.Status != want {
				t.Errorf("%d %s, want %d", got.Status, got.Body, want)
			}
		}
	})
}
