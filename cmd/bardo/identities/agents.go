package identities

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/guard"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/remote"
	"bardo.money/gateway/policy/session"
)

// Opener creates a client of a node for the registries of agents. It does not connect yet.
type Opener func(ctx context.Context, o identity.NodeOptions) (identity.Chain, error)

// reader refreshes the links of agents until it is closed.
type reader struct {
	stop context.CancelFunc
	done chan struct{}
}

// addAgents adds agents of the configured registry.
func (i *Identities) addAgents(ctx context.Context, o *Options, cfg *config.Config) error {
	e := cfg.Auth.ERC8004
	if e == nil {
		return nil
	}
	node, err := nodeOptions(cfg)
	if err != nil {
		return err
	}
	chain, err := o.connect(ctx, node)
	if err != nil {
		return err
	}
	a := identity.NewAgents(i.API.Book, identity.AgentOptions{
		Realm: node.Realm, Chain: chain, Refresh: e.Refresh, LinkTTL: e.LinkTTL,
		Ended:  func(l identity.Link, why error) { reportEnded(o.Events, o.Log, l, why) },
		Failed: func(err error) { o.Log.Warn("linked agents cannot be read at the moment", "error", err) },
	})
	i.API.Agents = a
	if e.Delegation {
		i.verifiers = append(i.verifiers, identity.NewDelegates(a, delegatedSessions{o.Sessions}))
	}
	i.reader = startReader(a)
	return nil
}

// connect creates the client of the registries, in this process or through the process that reads the chain.
func (o *Options) connect(ctx context.Context, node identity.NodeOptions) (chain identity.Chain, err error) {
	if o.Chain == nil {
		chain = remote.NewAgents(o.Socket)
	} else if chain, err = o.Chain(ctx, node); err != nil {
		return nil, err
	}
	return chain, checkChain(ctx, chain, o.Log)
}

// Registries returns the registries of agents for a data path in another process; nil if none are configured.
func Registries(ctx context.Context, cfg *config.Config, open Opener, log *slog.Logger) (identity.Chain, error) {
	if cfg.Auth.ERC8004 == nil {
		return nil, nil //nolint:nilnil // none configured
	}
	node, err := nodeOptions(cfg)
	if err == nil {
		var chain identity.Chain
		if chain, err = (&Options{Chain: open, Log: log}).connect(ctx, node); err == nil {
			return chain, nil
		}
	}
	return nil, fmt.Errorf("auth.erc8004: %w", err)
}

// startReader refreshes linked agents until the reader is closed.
func startReader(a *identity.Agents) *reader {
	ctx, stop := context.WithCancel(context.Background())
	r := &reader{stop, make(chan struct{})}
	guard.Go(func() {
		defer close(r.done)
		_ = guard.Again(ctx, func() error { a.Run(ctx); return nil })()
	})
	return r
}

func (r *reader) close() {
	if r != nil {
		r.stop()
		<-r.done
	}
}

var eventUnlinked = event.Declare[ended]("identity:unlinked", "A link of an agent ended of its own accord.").Audited()

// ended is the event of a link that the gateway ended.
type ended struct {
	Subject identity.Subject `json:"subject"`
	Reason  string           `json:"reason"`
}

func reportEnded(events *event.Sink, log *slog.Logger, l identity.Link, why error) {
	log.Info("a link of an agent has ended", "subject", l.Subject, "account", l.Account, "reason", why)
	eventUnlinked.Emit(events, l.Account, ended{l.Subject, why.Error()})
}

// checkChain rejects a node of another chain, and registries that do not belong together. A node that does not answer is only logged, and retried later.
func checkChain(ctx context.Context, chain identity.Chain, log *slog.Logger) error {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := chain.Check(ctx)
	if _, ok := errors.AsType[*pay.Mismatch](err); ok {
		return err
	}
	if err != nil {
		log.Warn("agents cannot be read at the moment", "error", err)
	}
	return nil
}

// registries are the contracts of the reference deployment, by network: identities, and reputation.
var registries = map[string][2]string{
	"base":         {"0x8004a169fb4a3325136eb29fa0ceb6d2e539a432", "0x8004baa17c55a88189ae136b182e5fda19de9b63"},
	"base-sepolia": {"0x8004a818bfb912233c491871b3d84c89a494bd9e", "0x8004b663056a597dffe9eccc1965a193b7388713"},
}

func nodeOptions(cfg *config.Config) (o identity.NodeOptions, err error) {
	e := cfg.Auth.ERC8004
	known, ok := pay.FindNetwork(e.Network)
	if !ok {
		return o, fmt.Errorf("the network %q is not known", e.Network)
	}
	o = identity.NodeOptions{URL: e.RPC.Reveal(), Realm: identity.Realm{Network: known.Network, Audience: e.Audience}, Tags: e.Tags, Scale: e.Scale}
	if o.Realm.Audience == "" {
		o.Realm.Audience = cfg.Listen.PublicURL.String()
	}
	addresses := registries[e.Network]
	if e.Identities != "" {
		addresses = [2]string{e.Identities, e.Reputation}
	}
	if o.Realm.Registry, err = pay.ParseAddress(addresses[0]); err != nil {
		return o, err
	}
	if o.Reputation, err = pay.ParseAddress(addresses[1]); err != nil {
		return o, err
	}
	for _, text := range e.Reviewers {
		a, err := pay.ParseAddress(text)
		if err != nil {
			return o, err
		}
		o.Reviewers = append(o.Reviewers, a)
	}
	return o, nil
}

// delegatedSessions adapts the sessions of delegates to identity.Sessions.
type delegatedSessions struct{ book *session.Book }

var _ identity.Sessions = delegatedSessions{}

// Begun implements identity.Sessions.
func (d delegatedSessions) Begun(ctx context.Context, id string) (bool, error) {
	_, err := d.book.Find(ctx, id)
	if errors.Is(err, session.ErrUnknown) {
		return false, nil
	}
	return err == nil, err
}

// Begin implements identity.Sessions.
func (d delegatedSessions) Begin(ctx context.Context, s identity.DelegatedSession) error {
	return d.book.Begin(ctx, &session.Session{ID: s.ID, Account: s.Account, Golem: s.Agent, Models: s.Models, Budget: &s.Budget, Expires: s.Expires})
}
