package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestPitfall04WhatCannotBeSaidToTheNextProvider: Envoy does not retry after a request that could not be written, so the client
// must learn what is wrong with it, on both paths alike, and no provider may get half of it.
func TestPitfall04WhatCannotBeSaidToTheNextProvider(t *testing.T) {
	t.Parallel()
	first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "first"})
	second := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "second"})
	first.Behave(fake.Behaviour{Status: 503})
	g := gateway.Run(t, gateway.Options{Config: quick, Providers: []gateway.Provider{
		{ID: "first", Fake: first, Models: models("m", "")}, {ID: "second", Fake: second, Format: "anthropic", Models: models("m", "")},
	}})
	for _, stream := range []bool{false, true} {
		// A role that OpenAI once had: it passes as it is, but there is no such thing in the other format.
		body := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"function","name":"f","content":"x"}]}`, stream)
		got := g.Chat(t, body)
		mustFail(t, ask{dialect: fake.OpenAI}, got, http.StatusServiceUnavailable, "overloaded")
	}
	if n := len(first.Generations()); n < 2 {
		t.Errorf("the first provider was asked %d times", n)
	}
	if n := len(second.Generations()); n != 0 {
		t.Errorf("the second provider was asked %d times", n)
	}
	if got := g.Messages(t, ask{dialect: fake.Anthropic, model: "m"}.body()); got.Status != http.StatusOK {
		t.Errorf("afterwards: %d %s", got.Status, got.Body)
	}
	g.AssertSound(t)
}

// TestPitfall05ManyRetriesAtOnce: Envoy allows three at a time unless it is told otherwise, and passes the failures of the rest on.
func TestPitfall05ManyRetriesAtOnce(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: "limits: {rpm: 0}\n"}
	const many = 48
	second := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "second"})
	for _, stream := range []bool{false, true} {
		first := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: fmt.Sprintf("first-%v", stream)})
		first.Behave(fake.Behaviour{Status: 503})
		model := fmt.Sprintf("m-%v", stream)
		o.Providers = append(o.Providers, gateway.Provider{ID: fmt.Sprintf("first-%v", stream), Fake: first, Models: models(model, "")},
			gateway.Provider{ID: fmt.Sprintf("second-%v", stream), Fake: second, Models: models(model, "")})
	}
	g := gateway.Run(t, o)
	for _, stream := range []bool{false, true} {
		a := ask{dialect: fake.OpenAI, model: fmt.Sprintf("m-%v", stream), stream: stream}
		got := make([]gateway.Answer, many)
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() { got[i] = g.Do(t, a.call()) })
		}
		all.Wait()
		for _, r := range got {
			if r.Status != http.StatusOK {
				t.Errorf("stream=%v: %d %s", stream, r.Status, r.Body)
			}
		}
	}
}
