package run

import (
	"cmp"
	"context"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/identities"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/pay/remote"
	"bardo.money/gateway/policy/session"
	"bardo.money/gateway/policy/stake"
)

// openIdentities opens the links from external identities to accounts.
func (g *gateway) openIdentities(ctx context.Context, cfg *config.Config, sessions *session.Book) (err error) {
	o := identities.Options{
		Config: g.cfg.Load, Ledger: g.books, Dir: filepath.Dir(cfg.Store.LedgerFile(string(g.home))), Egress: cmp.Or(g.listener(), g.egress()), Secret: g.egressSecret,
		Events: &g.events, Log: g.log, Chain: g.parts.Agents, Socket: g.sockets.chain, Sessions: sessions,
	}
	g.mcpTokens = identities.NewMCPTokens(o)
	g.identities, err = identities.Open(ctx, o)
	return err
}

// openStake returns the opener of staking clients; if this process does not read chains, it uses the process that does.
func (g *gateway) openStake() stake.Opener {
	if g.parts.Stake == nil {
		return remote.OpenStake(g.sockets.chain)
	}
	return g.parts.Stake
}

func (g *gateway) closeIdentities() {
	if err := g.identities.Close(); err != nil {
		g.log.Error("the store of identities was not closed cleanly", "error", err)
	}
}
