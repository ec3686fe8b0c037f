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

// Agents reads registries of agents through another process. Safe for concurrent use.
type Agents struct{ caller }

var _ identity.Chain = (*Agents)(nil)

// NewAgents returns the client of a socket. It does not connect yet.
func NewAgents(socket string) *Agents {
	a := &Agents{}
	a.connectTo(socket)
	return a
}

// Check implements identity.Chain.
func (a *Agents) Check(ctx context.Context) error {
	_, err := call[empty, empty](ctx, &a.caller, methodAgentsCheck, empty{})
	return err
}

// Agent implements identity.Chain.
func (a *Agents) Agent(ctx context.Context, id pay.Word) (identity.Agent, error) {
	return call[pay.Word, identity.Agent](ctx, &a.caller, methodAgent, id)
}

// Score implements identity.Chain.
func (a *Agents) Score(ctx context.Context, id pay.Word) (int64, error) {
	return call[pay.Word, int64](ctx, &a.caller, methodScore, id)
}

// Recover implements identity.Chain, without a call.
func (*Agents) Recover(digest pay.Word, signature []byte) (pay.Address, bool) {
	return typed.Recover(digest, signature)
}

// Confirms implements identity.Chain.
func (a *Agents) Confirms(ctx context.Context, wallet pay.Address, digest pay.Word, signature []byte) (bool, error) {
	return call[confirmRequest, bool](ctx, &a.caller, methodConfirms, confirmRequest{wallet, digest, signature})
}

// confirmRequest is the request of Confirms.
type confirmRequest struct {
	Wallet    pay.Address
	Digest    pay.Word
	Signature []byte
}

// registries serves the methods of registries of agents.
type registries struct{ identity.Chain }

func (r registries) check(ctx context.Context, _ empty) (empty, error) {
	return empty{}, r.Check(ctx)
}

func (r registries) agent(ctx context.Context, id pay.Word) (identity.Agent, error) {
	return r.Agent(ctx, id)
}

func (r registries) score(ctx context.Context, id pay.Word) (int64, error) { return r.Score(ctx, id) }

func (r registries) confirms(ctx context.Context, s confirmRequest) (bool, error) {
	return r.Confirms(ctx, s.Wallet, s.Digest, s.Signature)
}
