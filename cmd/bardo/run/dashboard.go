package run

import (
	"context"
	"net/http"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/ui"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// dashboard makes the pages at /ui; nil where they are switched off.
func (g *gateway) dashboard(keys auth.Verifier) http.Handler {
	if g.cfg.Load().Listen.UI == "off" {
		return nil
	}
	g.operatorToken() // so that its file is there before anybody needs it
	o := ui.Options{
		Books: g.books, Keys: keys, CreateKey: g.createKey, Local: func() *api.Server { return g.gate.Local() }, Finished: &g.finished, Providers: g.providerStates,
		Switch: g.switchProvider, Load: func() (int64, uint64) { return g.gate.Live(), g.gate.Served() }, Log: g.log, Operator: ui.IsToken(g.operatorToken), Draining: g.draining.Load,
	}
	if g.inside {
		o.Switch = ui.SwitchAt(filepath.Join(g.sockets.dir, "control.sock"))
	}
	return ui.New(o)
}

// createKey makes a key for the dashboard.
func (g *gateway) createKey(ctx context.Context, k ledger.KeyRow, opening policy.Micro) (id, secret string, err error) {
	pepper, err := home.PepperOf(ctx, g.home, g.books)
	if err != nil {
		return "", "", err
	}
	return home.CreateKey(ctx, g.books, pepper, home.KeySpec{Row: k, Opening: opening})
}

// operatorToken is what the operator logs in with; "" where there is none.
func (g *gateway) operatorToken() string {
	token, err := g.home.AdminToken()
	if err != nil {
		g.log.Error("nobody can log in as the operator", "error", err)
	}
	return token
}
