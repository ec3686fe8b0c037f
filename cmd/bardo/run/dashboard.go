package run

import (
	"net/http"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/ui"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/policy/auth"
)

// dashboard returns the pages at /ui; nil if they are switched off.
func (g *gateway) dashboard(keys auth.Verifier) http.Handler {
	if g.cfg.Load().Listen.UI == "off" {
		return nil
	}
	g.operatorToken() // creates the token's file
	o := ui.Options{
		Books: g.books, Keys: keys, CreateKey: adminapi.KeyMaker(g.home, g.books), Local: func() *api.Server { return g.gate.Local() }, Finished: &g.finished, Providers: g.providerStates,
		Switch: g.switchProvider, Load: func() (int64, uint64) { return g.gate.Live(), g.gate.Served() }, Log: g.log, Operator: ui.IsToken(g.operatorToken), Draining: g.draining.Load,
		Checked: func() bool { s := &g.cfg.Load().Inference.StructuredOutputs; return s.Enabled && s.Validation },
	}
	if g.inside {
		o.Switch = ui.SwitchAt(filepath.Join(g.sockets.dir, "control.sock"))
	}
	return ui.New(o)
}

// operatorToken is the operator's token, for the dashboard and the admin API; "" if it cannot be read.
func (g *gateway) operatorToken() string {
	if t := g.cfg.Load().Listen.AdminToken; t.IsSet() {
		return t.Reveal()
	}
	token, err := g.home.AdminToken()
	if err != nil {
		g.log.Error("nobody can log in as the operator", "error", err)
	}
	return token
}
