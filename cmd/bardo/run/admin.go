package run

import (
	"net/http"

	"bardo.money/gateway/cmd/bardo/adminapi"
	"bardo.money/gateway/cmd/bardo/cli"
)

// adminAPI serves the part of the admin API that this process has. A nil token is for sockets that only the gateway's user can open.
func (g *gateway) adminAPI(token func() string) http.Handler {
	o := adminapi.Options{Version: cli.Version, Started: g.started, Token: token, Refused: g.metrics.AdminRefused, Log: g.log, Changes: &g.events}
	if g.books != nil {
		o.Events = &g.events
		at := g.home.Payments(g.cfg.Load())
		o.Books, o.Cache = adminapi.BooksOf(g.home, g.books), adminapi.CacheOf(g.answers.Answers, g.books)
		o.Books.Wallet = adminapi.WalletIn(at)
		o.Payments, o.Audit = adminapi.PaymentsListed(at), adminapi.AuditOf(g.books, at)
		if g.payments != nil {
			o.Books.Payment = adminapi.PaymentsOf(g.payments.Book)
		}
	}
	if !g.inside { // in Envoy's process the program that started Envoy decides
		o.Providers, o.Switch = g.shownProviders, g.switchProvider
	}
	if g.module {
		o.Data = g.inEnvoy.Proxy()
	}
	return adminapi.Handler(o)
}
