package run

import (
	"cmp"

	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/extproc/probe"
)

// openWallet opens what watches the operator's account at Bankr. What it finds is put in force as providers' lists of models are.
func (g *gateway) openWallet() (err error) {
	g.wallet, err = wallet.Open(wallet.Options{
		Home: g.home, Config: g.cfg.Load, Ledger: g.books, Prober: func() *probe.Client { return g.gate.Prober() }, Egress: cmp.Or(g.listener(), g.egress()), Secret: g.egressSecret,
		Events: &g.events, Metrics: g.metrics, Log: g.log,
		Changed: func() {
			select {
			case g.listed <- struct{}{}:
			default: // it is going to be read anyway
			}
		},
	})
	return err
}
