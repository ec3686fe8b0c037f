package identity_test

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy/identity"
)

// TestPitfall23ALinkIsOfOneGatewayOneHolderAndOneTime: a claim for another gateway is refused; after a transfer, or after its time, neither the link
// nor an unused claim of the earlier owner is valid.
func TestPitfall23ALinkIsOfOneGatewayOneHolderAndOneTime(t *testing.T) {
	l := newLab(t)
	elsewhere := realm
	elsewhere.Audience = "https://other.example"
	c := l.claim(t, 0, owner, "a")
	if _, err := l.Link(t.Context(), c, sign(owner, c.Digest(&elsewhere))); !errors.Is(err, identity.ErrSignature) || l.Of("a") != nil {
		t.Errorf("a claim for another gateway: %v", err)
	}
	l.mustLink(t, owner, "a")
	unused := l.claim(t, 0, owner, "b")
	l.chain.set(func() { l.chain.agents[id(0)] = identity.Agent{Owner: stranger} })
	if err := l.Refresh(t.Context()); err != nil || l.Of("a") != nil {
		t.Errorf("after the transfer the link is there: %v", err)
	}
	if _, err := l.Link(t.Context(), unused, sign(owner, unused.Digest(&realm))); !errors.Is(err, identity.ErrHolder) || l.Of("b") != nil {
		t.Errorf("after the transfer the earlier owner's claim: %v", err)
	}
	l.chain.set(func() { l.chain.agents[id(0)] = identity.Agent{Owner: owner} })
	late := l.claim(t, 0, owner, "b")
	l.now = l.now.Add(24 * time.Hour)
	if _, err := l.Link(t.Context(), late, sign(owner, late.Digest(&realm))); !errors.Is(err, identity.ErrWindow) || l.Of("b") != nil {
		t.Errorf("after its time: %v", err)
	}
}
