// Package onchain is a gateway's money on chains, outside of its ledger: the terms for payments per request, and the wallets that it pays providers from, call
// by call. It creates them from the configuration, and reconciles payments whose calls were not answered with the chain.
package onchain

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/client"
	"bardo.money/gateway/policy/pay/outgoing"
)

// Wallets are a gateway's wallets. The zero value and nil have none.
type Wallets struct {
	book  *outgoing.Book
	nodes []*client.Node
	log   *slog.Logger
	payer *payer
	id    policy.ProviderID

	stop context.CancelFunc
	done chan struct{}
}

// Open opens the configured wallets; nil if there are none.
func Open(ctx context.Context, h home.Dir, cfg *config.Config, log *slog.Logger) (*Wallets, error) {
	b := cfg.Providers.BlockRun
	if b == nil || !b.WalletKey.IsSet() || len(b.Payment.PayTo) == 0 {
		return nil, nil //nolint:nilnil // none configured
	}
	w, network, err := wallet(b)
	if err != nil {
		return nil, fmt.Errorf("providers.blockrun: %w", err)
	}
	if w.Book, err = outgoing.OpenBook(ctx, h.Path(home.Outgoing), time.Now); err != nil {
		return nil, err
	}
	unresolved, _ := lru.New[string, struct{}](maxUnresolved) // fails only for sizes below 1
	all := &Wallets{book: w.Book, log: log, id: config.KindBlockRun, payer: &payer{wallet: w, unresolved: unresolved, log: log, provider: config.KindBlockRun}, done: make(chan struct{})}
	if b.Payment.RPC.IsSet() {
		all.nodes = []*client.Node{{URL: b.Payment.RPC.Reveal(), Network: network, HTTP: &http.Client{Timeout: nodeTimeout}}}
	}
	all.start()
	return all, nil
}

// nodeTimeout bounds one call of a node.
const nodeTimeout = 15 * time.Second

// wallet creates the configured wallet, without its book.
func wallet(b *config.BlockRun) (w *client.Wallet, network pay.Network, err error) {
	known, ok := pay.FindNetwork(b.Payment.Network)
	if !ok {
		return nil, network, fmt.Errorf("the network %q is not known", b.Payment.Network)
	}
	token := known.USDC
	if b.Payment.Asset != "" {
		token = pay.Token{Name: b.Payment.AssetName, Version: b.Payment.AssetVersion}
		if token.Address, err = pay.ParseAddress(b.Payment.Asset); err != nil {
			return nil, network, fmt.Errorf("asset: %w", err)
		}
	}
	w = &client.Wallet{Purpose: config.KindBlockRun, Quotes: client.NewQuotes(), Now: time.Now, Rules: client.Rules{
		Assets: []client.Asset{{Network: known.Network, Token: token}}, MaxPrice: b.MaxRequest, MaxDaily: b.Payment.MaxDay,
	}}
	for _, text := range b.Payment.PayTo {
		to, err := pay.ParseAddress(text)
		if err != nil {
			return nil, network, fmt.Errorf("pay_to: %w", err)
		}
		w.Rules.Payees = append(w.Rules.Payees, to)
	}
	if w.Key, err = client.ParseKey(b.WalletKey.Reveal()); err != nil {
		return nil, network, fmt.Errorf("wallet_key: %w", err)
	}
	return w, known.Network, nil
}

// Payer returns the payer of a provider; nil if its calls are not paid for individually.
func (w *Wallets) Payer(id policy.ProviderID) runtime.Payer {
	if w == nil || id != w.id {
		return nil
	}
	return w.payer
}

// AtRisk is the sum of payments whose calls were not answered, in millionths of a USD.
func (w *Wallets) AtRisk() int64 {
	if w == nil {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	m, err := w.book.AtRisk(ctx)
	if err != nil {
		w.log.Warn("the payments at risk cannot be read", "error", err)
	}
	return int64(m)
}

// start reconciles payments until Close.
func (w *Wallets) start() {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	guard.Go(func() {
		defer close(w.done)
		_ = guard.Again(ctx, func() error { w.run(ctx); return nil })()
	})
}

// reconcileInterval is the time between two reconciliations.
const reconcileInterval = 30 * time.Second

func (w *Wallets) run(ctx context.Context) {
	tick := time.NewTicker(reconcileInterval)
	defer tick.Stop()
	for len(w.nodes) > 0 {
		if _, err := client.Reconcile(ctx, w.book, w.nodes); err != nil && ctx.Err() == nil {
			w.log.Warn("what became of some payments to providers is not known at the moment", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close stops reconciling, and closes the book.
func (w *Wallets) Close() {
	if w == nil {
		return
	}
	w.stop()
	<-w.done
	if err := w.book.Close(); err != nil {
		w.log.Error("the store of payments to providers was not closed cleanly", "error", err)
	}
}
