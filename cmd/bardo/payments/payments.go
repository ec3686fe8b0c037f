// Package payments takes and settles payments for single requests in the running gateway. It assembles the store, the chain and the settler from the
// configuration.
package payments

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/identities"
	"bardo.money/gateway/cmd/bardo/onchain"
	"bardo.money/gateway/cmd/bardo/run/notice"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/x402"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/book"
	"bardo.money/gateway/policy/pay/facilitator"
	"bardo.money/gateway/policy/pay/remote"
	"bardo.money/gateway/policy/pay/till"
	"bardo.money/gateway/policy/stake"
)

// Options configure payments.
type Options struct {
	Home   home.Dir
	Chain  func(context.Context, pay.NodeOptions) (pay.Chain, error) // connects to the chain; nil: Socket is used
	Socket string                                                    // of the process that connects to the chain and runs Serve
	Agents identities.Opener                                         // connects to the registries of agents, for Serve
	Stake  stake.Opener                                              // reads positions of staked VVV, for Serve
	Ledger *ledger.Ledger
	Events *event.Sink
	Log    *slog.Logger
}

// Desk takes and settles payments until it is closed. A nil Desk takes none.
type Desk struct {
	Book *book.Book

	payments meter.Payments
	till     *till.Till
	stop     context.CancelFunc
	done     chan struct{}
	log      *slog.Logger
}

// Open opens the store of payments and starts settling; nil if payments are off. An account on another chain than configured is an error; a node that does not
// answer is not.
func Open(ctx context.Context, cfg *config.Config, o Options) (*Desk, error) {
	x := cfg.Billing.X402
	if x == nil {
		return nil, nil //nolint:nilnil // payments are off
	}
	terms, chain, settler, err := o.connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	ledgerFile := cfg.Store.LedgerFile(string(o.Home))
	secret, err := os.ReadFile(home.PepperPath(ledgerFile))
	if err != nil {
		return nil, err
	}
	b, err := book.Open(ctx, o.Home.Payments(cfg), time.Now)
	if err != nil {
		return nil, err
	}
	to := o.till(x, terms, secret, chain, b)
	to.Settler = settler
	t := till.New(to)
	d := &Desk{Book: b, till: t, payments: x402.New(t, o.Ledger, x402.Options{SettleWait: x.SettleWait}), done: make(chan struct{}), log: o.Log}
	d.start(t)
	return d, nil
}

// connect creates the clients of the chain, and of the facilitator that settles instead of an account of the gateway; nil: none.
func (o *Options) connect(ctx context.Context, cfg *config.Config) (terms *pay.Terms, chain pay.Chain, settler pay.Settler, err error) {
	x := cfg.Billing.X402
	if terms, err = onchain.Terms(cfg); err != nil {
		return nil, nil, nil, err
	}
	if o.Chain == nil {
		c := remote.NewClient(o.Socket, terms)
		if x.Facilitator != (config.URL{}) {
			settler = c.Settler()
		}
		return terms, c, settler, o.check(ctx, c.Check)
	}
	if chain, err = o.Chain(ctx, pay.NodeOptions{URL: x.RPC.Reveal(), Key: onchain.SettlementKey(x), Terms: terms}); err != nil {
		return nil, nil, nil, err
	}
	if err := o.check(ctx, chain.Check); err != nil {
		return nil, nil, nil, err
	}
	settler, err = o.facilitator(ctx, x, terms)
	return terms, chain, settler, err
}

// Serve connects to the chains of payments, agents and staked VVV on behalf of a data path in another process, which calls Options.Socket; nil if it needs
// none.
func Serve(ctx context.Context, cfg *config.Config, o Options) (http.Handler, error) {
	agents, err := identities.Registries(ctx, cfg, o.Agents, o.Log)
	if err != nil {
		return nil, err
	}
	var chain pay.Chain
	var settler pay.Settler
	if cfg.Billing.X402 != nil {
		if _, chain, settler, err = o.connect(ctx, cfg); err != nil {
			return nil, fmt.Errorf("billing.x402: %w", err)
		}
	}
	var positions stake.Opener // a reload may add staking, if Venice is configured
	if cfg.Providers.Venice != nil {
		positions = o.Stake
	}
	if chain == nil && agents == nil && positions == nil {
		return nil, nil //nolint:nilnil // not needed
	}
	return remote.Handler(chain, settler, agents, positions), nil
}

func (o *Options) till(x *config.X402, terms *pay.Terms, secret []byte, chain pay.Chain, b *book.Book) till.Options {
	return till.Options{
		Terms: terms, Signer: pay.NewQuoteSigner(secret, terms), Chain: chain, Book: b, Ledger: o.Ledger, Limits: book.Limits{Exposure: x.MaxExposure}, SettleFirst: x.SettleFirst, MaxLosses: x.MaxLosses, Log: o.Log, Now: time.Now,
		Confirmations: uint64(x.Confirmations), Finality: uint64(x.Finality), Bump: x.Bump, LowGasTransfers: int64(x.FewTransfers), //nolint:gosec // positive by the schema
		LowGas: func(left int64) { notice.LowGas.Emit(o.Events, "", notice.Gas{TransfersLeft: left}) },
		Lost:   func(l till.Loss) { notice.PaymentLost.Emit(o.Events, l.Account, l) },
	}
}

// facilitator creates the client of the facilitator that settles instead of an account of the gateway; nil: none.
func (o *Options) facilitator(ctx context.Context, x *config.X402, terms *pay.Terms) (pay.Settler, error) {
	if x.Facilitator == (config.URL{}) {
		return nil, nil //nolint:nilnil // not configured
	}
	f := facilitator.New(facilitator.Options{URL: x.Facilitator.String(), Authorization: x.FacilitatorAuth.Reveal(), Terms: terms})
	return f, o.check(ctx, f.Check)
}

// check returns mismatches, such as a node of another chain. If there is no answer, that is logged, and the next payment is verified again.
func (o *Options) check(ctx context.Context, verify func(context.Context) error) error {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := verify(ctx)
	if _, ok := errors.AsType[*pay.Mismatch](err); ok {
		return err
	}
	if err != nil {
		o.Log.Warn("payments cannot be verified at the moment", "error", err)
	}
	return nil
}

// start settles payments until Close.
func (d *Desk) start(t *till.Till) {
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	guard.Go(func() {
		defer close(d.done)
		_ = guard.Again(ctx, func() error { t.Run(ctx); return nil })()
	})
}

// Losses returns the cost, in millionths of a USD, of requests of the last hour whose payments failed, and whether payments are therefore settled first.
func (d *Desk) Losses() (lost int64, bound bool) {
	cost, until := d.till.Losses()
	return int64(cost), !until.IsZero()
}

// Taker is what requests pay with; nil if payments are off.
func (d *Desk) Taker() meter.Payments {
	if d == nil {
		return nil
	}
	return d.payments
}

// Close stops settling. Pending payments are settled after the next start.
func (d *Desk) Close() {
	if d == nil {
		return
	}
	d.stop()
	<-d.done
	if err := d.Book.Close(); err != nil {
		d.log.Error("the store of payments was not closed cleanly", "error", err)
	}
}
