package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestK34TheClientLeaves: the provider's connection is closed at once, what was delivered is accounted for, and nothing
// stays open.
func TestK34TheClientLeaves(t *testing.T) {
	t.Parallel()
	o := gateway.Options{Config: quick}
	type leaving struct {
		ask ask
		p   *fake.Server
	}
	var rows []leaving
	for i, candidates := range []int{1, 2} {
		for _, p := range pairings[:2] {
			l := leaving{ask: ask{dialect: p.client, model: fmt.Sprintf("model-%d-%s", i, p.second), stream: true}}
			for j := range candidates {
				f := fake.Start(t, fake.Config{Dialect: p.second, Name: fmt.Sprintf("p-%d-%s-%d", i, p.second, j)})
				f.Behave(fake.Behaviour{Tokens: 5, Break: fake.Break{Kind: fake.Hang, At: fake.AfterTokens, Tokens: 3}})
				o.Providers = append(o.Providers, gateway.Provider{ID: fmt.Sprintf("p-%d-%s-%d", i, p.second, j), Fake: f, Format: string(p.second), Models: models(l.ask.model, "")})
				if j == 0 {
					l.p = f
				}
			}
			rows = append(rows, l)
		}
	}
	o.Config = "limits: {rpm: 0}\n" // the usual time-outs: only the client may end these answers
	g := gateway.Run(t, o)
	for _, l := range rows {
		t.Run(l.ask.model, func(t *testing.T) { disconnectDuringAnswer(t, g, l.ask, l.p) })
	}
	g.AssertSound(t)
}

func disconnectDuringAnswer(t *testing.T, g *gateway.Gateway, a ask, p *fake.Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	res, err := g.Open(ctx, a.call())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	r := gateway.NewReader(res.Body)
	for range 3 { // it has begun: content is on its way
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	left := time.Now()
	cancel()
	rs, err := p.WaitCancelled(soon(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := rs[0].CancelledAt.Sub(left); d > 20*time.Second { // far below any time-out
		t.Errorf("the provider was left %s later", d)
	}
	rec := recordOf(t, g, gateway.Answer{Header: res.Header})
	if rec.Status != "cancelled" || rec.OutputTokens == 0 {
		t.Errorf("record %+v", rec)
	}
}
