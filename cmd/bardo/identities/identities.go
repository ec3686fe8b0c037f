// Package identities creates, from a configuration, the verifiers of external identities and their links to accounts.
package identities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/jwks"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/privy"
	"bardo.money/gateway/policy/session"
	"bardo.money/gateway/xds/state"
)

// file is the store of links, in the ledger's directory, so that gateways that share the ledger share the links.
const file = "identities.db"

// Options configure Open. All but Chain and Sessions are required; Socket only without Chain.
type Options struct {
	Config func() *config.Config // in force
	Ledger *ledger.Ledger
	Dir    string       // of the store
	Egress *http.Client // through Envoy
	Secret func() string
	Events *event.Sink
	Log    *slog.Logger
	Chain  Opener // reads the chain; nil: Socket is used
	Socket string // of the process that reads the chain

	Sessions *session.Book // bound what delegates may spend; nil: no sessions
}

// Identities are the links, and verifiers of linked callers. A nil Identities has neither.
type Identities struct {
	API       *api.Identities
	verifiers auth.Chain
	store     *identity.Store
	reader    *reader // nil: agents are not configured
}

// Open opens the store of links; nil if no identities are configured.
func Open(ctx context.Context, o Options) (*Identities, error) {
	cfg := o.Config()
	if cfg.Auth.Privy == nil && cfg.Auth.ERC8004 == nil {
		return nil, nil //nolint:nilnil // none configured
	}
	store, err := identity.Open(ctx, filepath.Join(o.Dir, file))
	if err != nil {
		return nil, err
	}
	all := &Identities{API: &api.Identities{Book: identity.New(store, accounts{o.Ledger}, nil)}, store: store}
	if p := cfg.Auth.Privy; p != nil {
		all.addPrivy(o, p)
	}
	if err := all.addAgents(ctx, &o, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("auth.erc8004: %w", err), all.Close())
	}
	return all, nil
}

// Verifiers appends the verifiers of identities to a chain.
func (i *Identities) Verifiers(c auth.Chain) auth.Chain {
	if i == nil {
		return c
	}
	return append(c, i.verifiers...)
}

// Links is the client API of the links; nil if there are none.
func (i *Identities) Links() *api.Identities {
	if i == nil {
		return nil
	}
	return i.API
}

// Close stops the reader, and closes the store.
func (i *Identities) Close() error {
	if i == nil {
		return nil
	}
	i.reader.close()
	return i.store.Close()
}

func (i *Identities) addPrivy(o Options, p *config.Privy) {
	v := privy.New(privy.Options{
		App: p.AppID, Issuer: p.Issuer, Refresh: p.Refresh, Owners: users{i.API.Book},
		Fetch: func(ctx context.Context) ([]byte, error) { return keySet(ctx, &o) },
	})
	i.API.Privy = v
	i.verifiers = append(i.verifiers, v)
}

// accounts adapts the ledger's keys to identity.Accounts.
type accounts struct{ books *ledger.Ledger }

var _ identity.Accounts = accounts{}

// Principal implements identity.Accounts.
func (a accounts) Principal(ctx context.Context, of policy.Account) (policy.Principal, bool, error) {
	row, ok, err := a.books.Key(ctx, of)
	return row.Principal(), ok && !row.Revoked(), err
}

// Generation implements identity.Accounts.
func (a accounts) Generation() uint64 { return a.books.Generation() }

// users adapts the links of Privy users to privy.Owners.
type users struct{ book *identity.Book }

var _ privy.Owners = users{}

// Owner implements privy.Owners.
func (u users) Owner(ctx context.Context, subject string) (policy.Principal, bool, error) {
	_, p, ok, err := u.book.Owner(ctx, identity.Privy+identity.Subject(subject))
	return p, ok, err
}

// Knows implements privy.Owners.
func (u users) Knows(subject string) bool {
	return u.book.Knows(identity.Privy + identity.Subject(subject))
}

// keySet fetches the key set of the configured Privy app, through Envoy.
func keySet(ctx context.Context, o *Options) ([]byte, error) {
	p := o.Config().Auth.Privy
	if p == nil {
		return nil, errors.New("auth.privy is not configured any more")
	}
	return o.fetch(ctx, settings.PrivyCluster(p), ".privy")
}

// fetch gets a key set through Envoy. who names the caller to Envoy.
func (o *Options) fetch(ctx context.Context, c settings.Cluster, who string) (b []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://egress"+c.URL.Path, nil)
	if err != nil {
		return nil, err
	}
	req.Host = c.URL.Host
	req.Header.Set(state.HeaderCluster, string(c.ID))
	req.Header.Set(state.HeaderExchange, o.Secret()+who)
	resp, err := o.Egress.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if why := resp.Header.Get(state.HeaderFailure); why != "" || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the key set was answered with status %d", resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, jwks.MaxKeySet+1))
}
