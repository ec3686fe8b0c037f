package run

import (
	"context"
	"errors"
	"os"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/onchain"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/x402"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/facilitator"
	"bardo.money/gateway/policy/pay/till"
)

// payments are what takes payments and settles them.
type payments struct {
	book *book.Book
	stop context.CancelFunc
	over chan struct{}
}

// openPayments opens the store of payments and begins to settle what is left in it; nil where none are taken.
func (g *gateway) openPayments(ctx context.Context, cfg *config.Config) (meter.Payments, error) {
	x := cfg.Billing.X402
	if x == nil {
		return nil, nil //nolint:nilnil // none are taken
	}
	if g.parts.Chain == nil {
		return nil, errors.New("this process takes no payments: data_path: extproc does")
	}
	terms, err := onchain.Terms(cfg)
	if err != nil {
		return nil, err
	}
	chain, err := g.parts.Chain(ctx, pay.NodeOptions{URL: x.RPC.Reveal(), Key: onchain.SettlementKey(x), Terms: terms})
	if err != nil {
		return nil, err
	}
	if err := g.checkChain(ctx, chain); err != nil {
		return nil, err
	}
	ledgerFile := cfg.Store.LedgerFile(string(g.home))
	secret, err := os.ReadFile(home.PepperPath(ledgerFile))
	if err != nil {
		return nil, err
	}
	b, err := book.Open(ctx, book.File(ledgerFile), time.Now)
	if err != nil {
		return nil, err
	}
	o := g.tillOptions(x, terms, secret, chain, b)
	if o.Settler, err = g.openFacilitator(ctx, x, terms); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	t := till.New(o)
	g.startTill(t, b)
	return x402.New(t, g.books, x402.Options{SettleWait: x.SettleWait}), nil
}

func (g *gateway) tillOptions(x *config.X402, terms *pay.Terms, secret []byte, chain pay.Chain, b *book.Book) till.Options {
	return till.Options{
		Terms: terms, Seal: pay.NewSeal(secret, terms), Chain: chain, Book: b, Ledger: g.books, Limits: book.Limits{Exposure: x.MaxExposure}, SettleFirst: x.SettleFirst, Log: g.log, Now: time.Now,
		Confirmations: uint64(x.Confirmations), Finality: uint64(x.Finality), Bump: x.Bump, FewTransfers: int64(x.FewTransfers), //nolint:gosec // positive by the schema
		LowGas: func(left int64) { g.events.Emit("payment:low_gas", "", lowGas{left}) },
		Lost:   func(l till.Loss) { g.events.Emit("payment:lost", l.Account, l) },
	}
}

// lowGas is the event of a settling account that can pay for few transfers.
type lowGas struct {
	TransfersLeft int64 `json:"transfers_left"`
}

// openFacilitator makes the client of who settles in place of an account of the gateway's own; nil where nobody does.
func (g *gateway) openFacilitator(ctx context.Context, x *config.X402, terms *pay.Terms) (pay.Settler, error) {
	if x.Facilitator == (config.URL{}) {
		return nil, nil //nolint:nilnil // nobody does
	}
	f := facilitator.New(facilitator.Options{URL: x.Facilitator.String(), Authorization: x.FacilitatorAuth.Reveal(), Terms: terms})
	return f, g.check(ctx, f.Check)
}

// checkChain refuses a node of another chain. One that does not answer is asked again when a payment comes.
func (g *gateway) checkChain(ctx context.Context, chain pay.Chain) error {
	return g.check(ctx, chain.Check)
}

// check refuses what is not as it should be. What does not answer is asked again when a payment comes.
func (g *gateway) check(ctx context.Context, is func(context.Context) error) error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := is(ctx)
	if _, ok := errors.AsType[*pay.Mismatch](err); ok {
		return err
	}
	if err != nil {
		g.log.Warn("payments cannot be verified at the moment", "error", err)
	}
	return nil
}

// startTill has payments settled until closePayments.
func (g *gateway) startTill(t *till.Till, b *book.Book) {
	ctx, stop := context.WithCancel(context.Background())
	p := &payments{book: b, stop: stop, over: make(chan struct{})}
	g.payments = p
	guard.Go(func() {
		defer close(p.over)
		_ = guard.Again(ctx, func() error { t.Run(ctx); return nil })()
	})
}

// closePayments stops settling: what is not settled yet is settled after the next start.
func (g *gateway) closePayments() {
	if g.payments == nil {
		return
	}
	g.payments.stop()
	<-g.payments.over
	if err := g.payments.book.Close(); err != nil {
		g.log.Error("the store of payments was not closed cleanly", "error", err)
	}
}
