package budget

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
)

// Cycle is one dream cycle of an agent.
type Cycle struct {
	Agent Agent
	ID    string // the agent's name for it
}

// maxCycles limits how many dream cycles are remembered. The count of a forgotten one starts again at zero.
const maxCycles = 16_384

// Cycles counts the cost of the web searches of dream cycles, in memory: the count starts again at zero with the process. The zero value works. Safe
// for concurrent use.
type Cycles struct {
	mu    sync.Mutex
	spent *lru.Cache[Cycle, policy.Micro] // including the maximum cost of requests in flight
}

// Take reserves a cost. It returns false, and reserves nothing, if the cycle's total would exceed limit.
func (c *Cycles) Take(k Cycle, cost, limit policy.Micro) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent, _ = lru.New[Cycle, policy.Micro](maxCycles) // fails for sizes below 1 only
	}
	spent, _ := c.spent.Get(k)
	if cost > limit-spent {
		return false
	}
	c.spent.Add(k, spent+cost)
	return true
}

// Settle replaces a reserved cost by the actual one.
func (c *Cycles) Settle(k Cycle, taken, cost policy.Micro) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spent, ok := c.spent.Get(k); ok {
		c.spent.Add(k, max(spent-taken+cost, 0))
	}
}
