package budget

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
)

// Cycle is one dream cycle of an agent.
type Cycle struct {
	Agent Agent
	ID    string // as the agent names it
}

// maxCycles bounds how many dream cycles are remembered: those seen longest ago begin anew.
const maxCycles = 16_384

// Cycles counts what the searches of the web of dream cycles cost, in memory: it begins anew with the process. The zero value works. Safe for
// concurrent use.
type Cycles struct {
	mu    sync.Mutex
	spent *lru.Cache[Cycle, policy.Micro] // what requests under way may cost included
}

// Take sets a cost aside, unless the cycle would have cost more than most with it.
func (c *Cycles) Take(k Cycle, cost, most policy.Micro) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent, _ = lru.New[Cycle, policy.Micro](maxCycles) // fails for sizes below 1 only
	}
	spent, _ := c.spent.Get(k)
	if cost > most-spent {
		return false
	}
	c.spent.Add(k, spent+cost)
	return true
}

// Settle turns a cost that was set aside into what it came to.
func (c *Cycles) Settle(k Cycle, taken, cost policy.Micro) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spent, ok := c.spent.Get(k); ok {
		c.spent.Add(k, max(spent-taken+cost, 0))
	}
}
