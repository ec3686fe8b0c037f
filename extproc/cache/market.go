package cache

import (
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"bardo.money/gateway/policy"
)

// Market is an agent and the market regime that it declared for its request. The zero value is that of a request without an agent.
type Market struct{ Agent, Regime string }

// agrees reports whether two markets may be in the same regime.
func (m Market) agrees(o Market) bool {
	return m.Regime == "" || o.Regime == "" || m.Regime == o.Regime
}

// markets holds the current regimes of a tenant's agents. The zero value is empty.
type markets struct {
	regimes *simplelru.LRU[string, string]
}

// maxAgents bounds the agents of a tenant whose regimes are remembered.
const maxAgents = 4096

// isCurrent reports whether an answer's market is still its agent's current one. An unknown regime counts as the current one.
func (m *markets) isCurrent(of Market) bool {
	if of.Agent == "" || m.regimes == nil {
		return true
	}
	now, ok := m.regimes.Get(of.Agent)
	return !ok || now == of.Regime
}

// Enter records the regime that a tenant's agent declares, "" for none. If the regime has changed, the agent's stored answers from other regimes are
// deleted. It returns the agent's current market.
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

// regimeOf is the current regime of a tenant's agent, "" if it is unknown. The shard is locked.
func (sh *shard) regimeOf(s *Store, name policy.Account, agent string) string {
	t, ok := sh.tenants[name]
	if !ok || t.markets.regimes == nil {
		return ""
	}
	t.extend(s.now())
	regime, _ := t.markets.regimes.Get(agent)
	return regime
}
