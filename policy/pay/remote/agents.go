package remote

import (
	"context"

	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/pay/typed"
)

// The methods about agents.
const (
	methodAgentsCheck = "agents/check"
	methodAgent       = "agents/agent"
	methodScore       = "agents/score"
	methodConfirms    = "agents/confirms"
)

// Agents are registries of agents by another process. Safe for concurrent use.
type Agents struct{ caller }

var _ identity.Chain = (*Agents)(nil)

// NewAgents is the client of a socket. It does not connect yet.
func NewAgents(socket string) *Agents {
	a := &Agents{}
	a.connectTo(socket)
	return a
}

// Check implements identity.Chain.
func (a *Agents) Check(ctx context.Context) error {
	_, err := ask[nothing, nothing](ctx, &a.caller, methodAgentsCheck, nothing{})
	return err
}

// Agent implements identity.Chain.
func (a *Agents) Agent(ctx context.Context, id pay.Word) (identity.Agent, error) {
	return ask[pay.Word, identity.Agent](ctx, &a.caller, methodAgent, id)
}

// Score implements identity.Chain.
func (a *Agents) Score(ctx context.Context, id pay.Word) (int64, error) {
	return ask[pay.Word, int64](ctx, &a.caller, methodScore, id)
}

// Recover implements identity.Chain. It asks nobody.
func (*Agents) Recover(digest pay.Word, signature []byte) (pay.Address, bool) {
	return typed.Recover(digest, signature)
}

// Confirms implements identity.Chain.
func (a *Agents) Confirms(ctx context.Context, wallet pay.Address, digest pay.Word, signature []byte) (bool, error) {
	return ask[signed, bool](ctx, &a.caller, methodConfirms, signed{wallet, digest, signature})
}

// signed is the question whether a contract wallet has signed something.
type signed struct {
	Wallet    pay.Address
	Digest    pay.Word
	Signature []byte
}

// registries answer questions about agents.
type registries struct{ identity.Chain }

func (r registries) check(ctx context.Context, _ nothing) (nothing, error) {
	return nothing{}, r.Check(ctx)
}

func (r registries) agent(ctx context.Context, id pay.Word) (identity.Agent, error) {
	return r.Agent(ctx, id)
}

func (r registries) score(ctx context.Context, id pay.Word) (int64, error) { return r.Score(ctx, id) }

func (r registries) confirms(ctx context.Context, s signed) (bool, error) {
	return r.Confirms(ctx, s.Wallet, s.Digest, s.Signature)
}
