package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/x402"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
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
	terms, err := paymentTerms(cfg)
	if err != nil {
		return nil, err
	}
	chain, err := g.parts.Chain(ctx, pay.NodeOptions{URL: x.RPC.Reveal(), Key: x.SettlementKey.Reveal(), Terms: terms})
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
	t := till.New(g.tillOptions(x, terms, secret, chain, b))
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

// checkChain refuses a node of another chain. One that does not answer is asked again when a payment comes.
func (g *gateway) checkChain(ctx context.Context, chain pay.Chain) error {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := chain.Check(ctx)
	if _, ok := errors.AsType[*pay.Mismatch](err); ok {
		return err
	}
	if err != nil {
		g.log.Warn("payments cannot be verified at the moment", "error", err)
	}
	return nil
}

// paymentTerms are what the operator takes.
func paymentTerms(cfg *config.Config) (*pay.Terms, error) {
	x := cfg.Billing.X402
	known, ok := pay.FindNetwork(x.Network)
	if !ok {
		return nil, fmt.Errorf("the network %q is not known", x.Network)
	}
	t := &pay.Terms{
		Network: known.Network, Asset: known.USDC, Fee: x.SettlementFee, Least: x.Min, QuoteTTL: x.QuoteTTL, ServeTime: cfg.Routing.Timeouts.Total, Margin: settleMargin,
	}
	var err error
	if t.PayTo, err = pay.ParseAddress(x.PayTo); err != nil {
		return nil, fmt.Errorf("pay_to: %w", err)
	}
	if x.Asset == "" || strings.EqualFold(x.Asset, known.USDC.Address.String()) {
		return t, nil
	}
	t.Asset = pay.Token{Name: x.AssetName, Version: x.AssetVersion}
	if t.Asset.Address, err = pay.ParseAddress(x.Asset); err != nil {
		return nil, fmt.Errorf("asset: %w", err)
	}
	return t, nil
}

// settleMargin is the time that a transfer may take after its request was served.
const settleMargin = 2 * time.Minute

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
