package cache

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/policy"
)

// Market is the state of the market that an answer is about, as the agent that asked names it. The zero value is that of a request of no agent.
type Market struct{ Agent, Regime string }

// agrees reports whether two markets may be in the same regime.
func (m Market) agrees(o Market) bool {
	return m.Regime == "" || o.Regime == "" || m.Regime == o.Regime
}

// markets are the regimes in which a tenant's agents are. The zero value knows none.
type markets struct {
	regimes *simplelru.LRU[string, string]
}

// maxAgents is how many agents of a tenant have a regime that is remembered.
const maxAgents = 4096

// holds reports whether an answer from a market is still about the present one, as far as that is known.
func (m *markets) holds(of Market) bool {
	if of.Agent == "" || m.regimes == nil {
		return true
	}
	now, ok := m.regimes.Get(of.Agent)
	return !ok || now == of.Regime
}

// Enter notes the regime that a tenant's agent names; "" if it names none. If the regime has changed, the agent's stored answers from other ones are
// deleted. It returns the market that the agent is in now.
func (s *Store) Enter(name policy.Account, agent, regime string) Market {
	if agent == "" {
		return Market{}
	}
	sh := s.shard(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if regime == "" {
		return Market{agent, sh.regimeOf(s, name, agent)}
	}
	t := sh.tenant(s, name)
	if t.markets.regimes == nil {
		t.markets.regimes, _ = simplelru.NewLRU[string, string](maxAgents, nil) // only fails for sizes below 1
	}
	if before, ok := t.markets.regimes.Get(agent); !ok || before != regime {
		t.markets.regimes.Add(agent, regime)
		for _, e := range t.entries.Values() {
			if e.Market.Agent == agent && e.Market.Regime != regime {
				sh.remove(s, t, e)
			}
		}
		if s.shared != nil {
			s.shared.Entered(name, Market{agent, regime})
		}
	}
	return Market{agent, regime}
}

// regimeOf is the regime of a tenant's agent, as far as it is known. The shard is locked.
func (sh *shard) regimeOf(s *Store, name policy.Account, agent string) string {
	t, ok := sh.tenants[name]
	if !ok || t.markets.regimes == nil {
		return ""
	}
	t.extend(s.now())
	regime, _ := t.markets.regimes.Get(agent)
	return regime
}
