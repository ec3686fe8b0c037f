package run

import (
	"context"
	"errors"
	"time"

	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/session"
)

// sessionsFile is the store of agents' sessions, in the state directory.
const sessionsFile = "sessions.db"

// openSessions opens the store of sessions; nil if they are switched off. Its file is created with the first session.
func (g *gateway) openSessions(ctx context.Context, cfg *config.Config) (*session.Book, error) {
	if cfg.Sessions.Mode == "off" {
		return nil, nil //nolint:nilnil // switched off
	}
	store, err := session.OpenSQLite(ctx, g.home.Path(sessionsFile), g.home.ContentKeys(cfg), nil)
	if err != nil {
		return nil, err
	}
	g.sessions = store
	b := session.New(store, nil)
	g.memory = &memory.Memory{Store: b, Embedder: g.usedModels().Embedder()}
	b.Owner = func(ctx context.Context, account policy.Account) (policy.Principal, bool, error) {
		row, ok, err := g.books.Key(ctx, account)
		return row.Principal(), ok && row.Usable(time.Now()), err
	}
	return b, nil
}

// closeSessions closes the store.
func (g *gateway) closeSessions() {
	if g.sessions == nil {
		return
	}
	if err := g.sessions.Shut(); err != nil {
		g.log.Error("the store of sessions was not closed cleanly", "error", err)
	}
}

// withSessionKeys adds session keys to the accepted credentials. They come first, since API keys match everything that begins with bardo_.
func withSessionKeys(c auth.Chain, b *session.Book) auth.Chain {
	if b == nil {
		return c
	}
	return append(auth.Chain{auth.SessionKeys{Sessions: sessionKeys{b}}}, c...)
}

// sessionKeys verifies session keys, with errors for clients.
type sessionKeys struct{ book *session.Book }

// Principal implements auth.Sessions.
func (k sessionKeys) Principal(ctx context.Context, key string) (policy.Principal, bool, error) {
	p, ok, err := k.book.Principal(ctx, key)
	switch {
	case errors.Is(err, session.ErrUnknown):
		err = fault.Newf(fault.InvalidAPIKey, "the key of the session is not valid")
	case errors.Is(err, session.ErrEnded):
		err = fault.Newf(fault.InvalidAPIKey, "the session of this key was closed or has expired")
	default:
		err = api.SessionFault(err)
	}
	return p, ok, err
}
