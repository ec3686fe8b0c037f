package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// hiddenThinker is a model that reasons without showing it.
const hiddenThinker = "thinking: {control: effort, default: \"on\"}, max_output: 100000"

// disconnecting runs a gateway with one provider of a model that hides its reasoning, at $1 and $10 per million tokens, and a prepaid key.
func disconnecting(t *testing.T, b fake.Behaviour, flags ...string) (*gateway.Gateway, *fake.Server, string) {
	t.Helper()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(b)
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Models: []gateway.Model{{ID: "m", Price: "{input: 1, output: 10}", More: hiddenThinker}}},
	}})
	return g, p, g.CreateKey(t, append([]string{"--name", "k", "--balance-usd", "10"}, flags...)...).Key
}

// free is a gateway without limits and without a spread.
const free = "limits: {rpm: 0}\nbilling: {spread_pct: 0}\n"

// disconnect sends a request and closes its connection once ready says so, which sees each line of a stream, and "" before the first.
func disconnect(t *testing.T, g *gateway.Gateway, c gateway.Call, ready func(line string) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if ready("") {
		cancel()
	}
	res, err := g.Open(ctx, c)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	r := gateway.NewReader(res.Body)
	for {
		ev, err := r.Next()
		if err != nil {
			t.Fatalf("the stream ended before the client closed it: %v", err)
		}
		if ready(ev.Data) {
			return
		}
	}
}

// paidAtLast waits until a key's requests have ended, and returns what they cost.
func paidAtLast(t *testing.T, g *gateway.Gateway, key string) (paid int64) {
	t.Helper()
	eventually(t, "the charge", func() bool {
		f := fundsOf(t, g, key)
		paid = 10_000_000 - micro(t, *f.Balance)
		return paid > 0 && f.Held == "0.000000"
	})
	return paid
}

// TestD81TheUsageOfAFinishedAnswerIsWaitedFor: a client that closes its connection on the finish reason, before the chunk that says what the
// hidden reasoning took, pays for all of it.
func TestD81TheUsageOfAFinishedAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	g, p, key := disconnecting(t, fake.Behaviour{Text: "forty-two", UsageDelay: 700 * time.Millisecond, Usage: &fake.Usage{Input: 1000, Output: 70_000, Reasoning: 69_990}})
	c := ask{dialect: fake.OpenAI, model: "m", stream: true}.with(key)
	disconnect(t, g, c, func(line string) bool { return strings.Contains(line, `"finish_reason":"stop"`) })
	if paid := paidAtLast(t, g, key); paid != 701_000 {
		t.Errorf("%d were taken, want 701000", paid)
	}
	if r, _ := p.Last(); r.Cancelled {
		t.Error("the provider was cancelled before it said what the answer took")
	}
	g.AssertSound(t)
}

// TestD81HiddenReasoningIsEstimated: where the provider never says what an answer took, the time that the model had is charged at its speed.
func TestD81HiddenReasoningIsEstimated(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		stream bool
		b      fake.Behaviour
		ready  func(line string) bool
	}{
		{"before the first content, in a stream", true, fake.Behaviour{Break: fake.Break{Kind: fake.Hang, At: fake.AfterHeaders}}, nil},
		{"before a whole answer", false, fake.Behaviour{Break: fake.Break{Kind: fake.Hang}}, nil},
		{
			"after the content", true,
			fake.Behaviour{FirstToken: 1200 * time.Millisecond, Tokens: 3, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 1}},
			func(line string) bool { return strings.Contains(line, "tok0") },
		},
		{
			"the usage does not come within two seconds", true,
			fake.Behaviour{FirstToken: 1200 * time.Millisecond, Text: "forty-two", UsageDelay: time.Minute},
			func(line string) bool { return strings.Contains(line, `"finish_reason":"stop"`) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g, p, key := disconnecting(t, row.b)
			c := ask{dialect: fake.OpenAI, model: "m", stream: row.stream}.with(key)
			if row.ready != nil {
				disconnect(t, g, c, row.ready)
			} else {
				disconnectLater(t, g, c, p, 1200*time.Millisecond)
			}
			// A model of which no answer was seen is taken to write 50 tokens per second, at $10 per million.
			if paid := paidAtLast(t, g, key); paid < 550 || paid > 40_000 {
				t.Errorf("%d were taken, want at least 1.1 seconds of reasoning", paid)
			}
			if _, err := p.WaitCancelled(soon(t), 1); err != nil {
				t.Error(err)
			}
			g.AssertSound(t)
		})
	}
}

// disconnectLater closes the connection of a request of which nothing has come, when its provider has had it for a time.
func disconnectLater(t *testing.T, g *gateway.Gateway, c gateway.Call, p *fake.Server, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if res, err := g.Open(ctx, c); err == nil {
			_ = res.Body.Close()
		}
	}()
	if _, err := p.WaitGenerations(soon(t), 1); err != nil {
		t.Fatal(err)
	}
	<-time.After(d)
	cancel()
	<-ended
}

// TestD81WhatWasReportedBeforeTheFirstContentIsCharged, also of a model whose answer is held back until it is known how it begins.
func TestD81WhatWasReportedBeforeTheFirstContentIsCharged(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.Anthropic})
	p.Behave(fake.Behaviour{Usage: &fake.Usage{Input: 1000, CacheWrite5m: 2000, Output: 7}, Tokens: 3, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens}})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{
		{ID: "p", Fake: p, Format: "anthropic", Models: []gateway.Model{{ID: "m", Price: "{input: 1, cache_write: 2, output: 10}"}}},
	}})
	key := g.CreateKey(t, "--name", "k", "--balance-usd", "10").Key
	disconnectLater(t, g, ask{dialect: fake.Anthropic, model: "m", stream: true}.with(key), p, 1200*time.Millisecond)
	if paid := paidAtLast(t, g, key); paid < 5000 || paid > 5100 {
		t.Errorf("%d were taken, want the input that the provider reported", paid)
	}
	g.AssertSound(t)
}

// TestD81AnEstimateIsAtMostWhatWasReserved: a short limit of tokens bounds what hidden reasoning can cost.
func TestD81AnEstimateIsAtMostWhatWasReserved(t *testing.T) {
	t.Parallel()
	g, p, key := disconnecting(t, fake.Behaviour{Break: fake.Break{Kind: fake.Hang}})
	c := ask{dialect: fake.OpenAI, model: "m", stream: true, more: `"max_completion_tokens":20`}.with(key)
	disconnectLater(t, g, c, p, 1500*time.Millisecond)
	if paid := paidAtLast(t, g, key); paid < 200 || paid > 400 {
		t.Errorf("%d were taken, want what 20 tokens of output and a short input may cost", paid)
	}
	g.AssertSound(t)
}

// TestD81DisconnectsCountForTheDay: what they cost uses up a key's daily limit.
func TestD81DisconnectsCountForTheDay(t *testing.T) {
	t.Parallel()
	withinOneDay(t)
	g, p, key := disconnecting(t, fake.Behaviour{Break: fake.Break{Kind: fake.Hang}}, "--limit-usd-day", "0.0015")
	c := ask{dialect: fake.OpenAI, model: "m", stream: true, more: `"max_completion_tokens":60`}.with(key)
	for n := range 8 {
		p.Forget()
		before := fundsOf(t, g, key)
		ctx, cancel := context.WithCancel(t.Context())
		status := make(chan int, 1)
		go func() {
			res, err := g.Open(ctx, c)
			if err != nil {
				status <- 0
				return
			}
			_ = res.Body.Close()
			status <- res.StatusCode
		}()
		select {
		case got := <-status:
			if got != 429 || n == 0 {
				t.Errorf("request %d ended with %d", n, got)
			}
			cancel()
			return
		case <-arrived(t, p):
		}
		<-time.After(time.Second)
		cancel()
		<-status
		eventually(t, "the charge", func() bool {
			f := fundsOf(t, g, key)
			return f.Held == "0.000000" && *f.Balance != *before.Balance
		})
	}
	t.Error("eight disconnects did not use up the day's limit")
}

// arrived is closed when a provider has its next request.
func arrived(t *testing.T, p *fake.Server) <-chan struct{} {
	t.Helper()
	c := make(chan struct{})
	ctx := soon(t)
	go func() {
		if _, err := p.WaitGenerations(ctx, 1); err == nil {
			close(c)
		}
	}()
	return c
}

// leaveWhen sends a request, and closes its connection once ready is true.
func leaveWhen(t *testing.T, g *gateway.Gateway, c gateway.Call, ready func() bool) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if res, err := g.Open(ctx, c); err == nil {
			_ = res.Body.Close()
		}
	}()
	eventually(t, "what the client waits for", ready)
	leave()
	<-gone
}

// TestK34WhoLeavesWithTheLastByteOfItsRequestIsNoFailureOfTheProvider: else anybody with a key could have providers taken for down. The end of the
// connection comes together with that byte while the gateway serves other requests.
func TestK34WhoLeavesWithTheLastByteOfItsRequestIsNoFailureOfTheProvider(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI})
	p.Behave(fake.Behaviour{Tokens: 100_000, Gap: 2 * time.Millisecond})
	g := gateway.Run(t, gateway.Options{Config: free, Providers: []gateway.Provider{{ID: "p", Fake: p, Models: models("m", "")}}})
	const others, leavers = 16, 60
	for range others {
		c, last := unfinishedRequest(t, g)
		_, _ = io.WriteString(c, last) // the provider sees whether it came
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
	if _, err := p.WaitGenerations(soon(t), others); err != nil {
		t.Fatal(err)
	}
	for range leavers {
		c, last := unfinishedRequest(t, g)
		eventually(t, "that the gateway has the request but for its last byte", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") > others })
		_, _ = io.WriteString(c, last)
		_ = c.Close()
		eventually(t, "the end of the request", func() bool { return g.Metrics(t).Sum("bardo_active_exchanges") == others })
	}
	m := g.Metrics(t)
	if failed, healthy := m.Sum("bardo_attempts_total"), m.Sum("bardo_provider_healthy", `provider="p"`); failed > 0 || healthy != 1 {
		t.Errorf("%v failed attempts, healthy: %v", failed, healthy)
	}
	if n := m.Sum("bardo_requests_total", `code="client_closed"`); n != leavers {
		t.Errorf("%v of %d requests ended with their clients: %v", n, leavers, m)
	}
}

// unfinishedRequest is a connection with a streaming request but for its last byte. It ends with the test.
func unfinishedRequest(t *testing.T, g *gateway.Gateway) (c net.Conn, last string) {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(g.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	body := ask{dialect: fake.OpenAI, model: "m", stream: true}.body()
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\nAuthorization: Bearer " + g.Key
	if _, err := fmt.Fprintf(c, "%s\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body[:len(body)-1]); err != nil {
		t.Fatal(err)
	}
	return c, body[len(body)-1:]
}
