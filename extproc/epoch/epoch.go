// Package epoch coordinates the keys by which a provider finds an agent's prompts in its cache: one key per agent and epoch. An epoch is the time
// during which the stable prefix of the agent's prompts, its kernel, is expected to stay unchanged. It does not read prompts: layer L1
// (extproc/layers/align) separates kernel and tail.
package epoch

import (
	"strconv"
	"sync"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/policy"
)

// Rules determine when an epoch ends. The zero value coordinates nothing.
type Rules struct {
	On     bool
	Idle   time.Duration // time without a request after which the provider has dropped the kernel
	Dreams bool          // a dream cycle begins an epoch
	Phases bool          // a phase of life begins an epoch
}

// Reason is why an epoch began; "" if none did.
type Reason string

// The reasons.
const (
	Same            Reason = ""
	First           Reason = "first_request"
	Forgotten       Reason = "idle"
	DreamStart      Reason = "dream_cycle_start"
	PhaseTransition Reason = "phase_transition"
	Asked           Reason = "request"
)

// EventAdvanced is the event of an epoch that has begun.
var EventAdvanced = event.Declare[Advanced]("venice:epoch_advanced", "An agent's key of the prompt cache changed.")

// Advanced is the data of that event.
type Advanced struct {
	RequestID string `json:"request_id,omitempty"`
	GolemID   string `json:"golem_id"`
	Epoch     int64  `json:"epoch"`
	Reason    Reason `json:"reason"`
}

// maxAgents is the maximum number of stored agents; the longest idle one is removed first.
const maxAgents = 10_000

// Coordinator stores the epoch of each agent. The zero value is ready to use. Safe for concurrent use.
type Coordinator struct {
	mu     sync.Mutex
	agents map[agent]*state
}

type agent struct {
	account policy.Account
	id      string
}

// state is an agent's epoch.
type state struct {
	epoch int64
	cycle string // the last dream cycle that was named
	phase policy.Phase
	used  time.Time
}

// Key returns the key of a request's prompts in the agent's epoch, and the reason if the request begins one. Without rules or an agent it is "".
func (c *Coordinator) Key(r Rules, account policy.Account, h *policy.Hints, now time.Time) (key string, epoch int64, why Reason) {
	if !r.On || h.GolemID == "" {
		return "", 0, Same
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.agents[agent{account, h.GolemID}]
	if !known {
		s = c.add(agent{account, h.GolemID})
	}
	if why = s.ended(r, h, now, known); why != Same {
		s.advance(now)
	}
	s.note(h, now)
	return keyOf(h.GolemID, s.epoch), s.epoch, why
}

// ended returns why the agent's epoch ends with this request; "" if it does not.
func (s *state) ended(r Rules, h *policy.Hints, now time.Time, known bool) Reason {
	switch {
	case !known:
		return First
	case r.Idle > 0 && now.Sub(s.used) > r.Idle:
		return Forgotten
	case r.Dreams && h.DreamCycleID != "" && h.DreamCycleID != s.cycle:
		return DreamStart
	case r.Phases && h.Phase != policy.PhaseUnset && s.phase != policy.PhaseUnset && h.Phase != s.phase:
		return PhaseTransition
	}
	return Same
}

func (s *state) note(h *policy.Hints, now time.Time) {
	s.used = now
	if h.DreamCycleID != "" {
		s.cycle = h.DreamCycleID
	}
	if h.Phase != policy.PhaseUnset {
		s.phase = h.Phase
	}
}

// advance begins an epoch. Its number is the time, so that numbers of an earlier process are not reused.
func (s *state) advance(now time.Time) { s.epoch = max(s.epoch+1, now.Unix()) }

// Advance begins an agent's next epoch, and returns its number.
func (c *Coordinator) Advance(account policy.Account, golem string, now time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.agents[agent{account, golem}]
	if !ok {
		s = c.add(agent{account, golem})
	}
	s.advance(now)
	s.used = now
	return s.epoch
}

// Peek returns the current key of an agent's prompts; "" for an agent without an epoch.
func (c *Coordinator) Peek(account policy.Account, golem string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s, ok := c.agents[agent{account, golem}]; ok {
		return keyOf(golem, s.epoch)
	}
	return ""
}

// add adds an agent. The lock is held.
func (c *Coordinator) add(a agent) *state {
	if c.agents == nil {
		c.agents = map[agent]*state{}
	}
	if len(c.agents) >= maxAgents {
		c.evict()
	}
	s := &state{}
	c.agents[a] = s
	return s
}

// evict removes the longest idle agent.
func (c *Coordinator) evict() {
	var oldest agent
	var found *state
	for a, s := range c.agents {
		if found == nil || s.used.Before(found.used) {
			oldest, found = a, s
		}
	}
	delete(c.agents, oldest)
}

// keyOf returns golem:epoch.
func keyOf(golem string, epoch int64) string { return golem + ":" + strconv.FormatInt(epoch, 10) }
