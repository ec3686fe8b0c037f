package budget

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// Agent identifies the holder of a budget: one of the agents that use a key.
type Agent struct {
	Account policy.Account // "" for callers without a key
	ID      string         // "" where the key has a single agent, which need not identify itself
}

// Spent reads what the parts of an agent were charged on the UTC day of a time, by their names, including charges that are still being written.
type Spent func(ctx context.Context, agent Agent, day time.Time) (map[string]policy.Micro, error)

// Options configure a meter. The zero value works.
type Options struct {
	Agents  int           // agents in memory; zero means 16,384
	Spent   Spent         // called for an agent that is not in memory, and every Refresh; nil means that nothing is booked anywhere
	Refresh time.Duration // maximum age of other processes' bookings; zero means 5 seconds
}

// Meter counts agents' spending of the day in memory. Spending from before the start, or by other processes, is read from the store. Beyond
// Options.Agents the least recently seen are dropped, with the reservations of their requests in flight; their spending is read again. Safe for
// concurrent use.
type Meter struct {
	o    Options
	days *lru.Cache[Agent, *agentDay]
}

// NewMeter returns a meter.
func NewMeter(o Options) *Meter {
	const usual = 16_384
	if o.Agents <= 0 {
		o.Agents = usual
	}
	if o.Refresh <= 0 {
		o.Refresh = 5 * time.Second
	}
	days, _ := lru.New[Agent, *agentDay](o.Agents) // fails for sizes below 1 only
	return &Meter{o: o, days: days}
}

// agentDay is an agent's spending of one day. Its lock is held while the store is read, because the agent's other requests need the result.
type agentDay struct {
	sync.Mutex
	day       time.Time
	queriedAt time.Time // time of the last store query; zero means none
	spent     tally     // by this process
	others    tally     // by other processes
	held      tally     // by requests in flight
}

// tally has an amount for each part, and one for the stake.
type tally [parts + 1]policy.Micro

// Look returns what a subsystem has used today. The fault is Unavailable if the store cannot be read.
func (m *Meter) Look(ctx context.Context, now time.Time, agent Agent, p Part) (Use, error) {
	w, err := m.open(ctx, now, agent)
	if err != nil {
		return Use{}, err
	}
	defer w.Unlock()
	return w.use(p), nil
}

// Hold is the reservation of a request in flight. The zero value reserves nothing. Not safe for concurrent use.
type Hold struct {
	agent  *agentDay
	part   Part
	day    time.Time
	amount policy.Micro
}

// Enter decides about a request by what its part has used without it, and reserves the request's maximum cost in h unless it is refused. That replaces
// what h reserved; h is unchanged if the request is refused. The fault is Unavailable if the store cannot be read. The hold must be ended with Done.
func (m *Meter) Enter(ctx context.Context, now time.Time, agent Agent, p Part, maxCost policy.Micro, h *Hold, decide func(Use) Decision) (Decision, error) {
	w, err := m.open(ctx, now, agent)
	if err != nil {
		return Decision{}, err
	}
	defer w.Unlock()
	before := w.held
	if h.agent == w && w.day.Equal(h.day) {
		w.held[h.part] -= h.amount
	}
	d := decide(w.use(p))
	if d.Action == Refuse {
		w.held = before
		return d, nil
	}
	maxCost = max(maxCost, 0)
	w.held[p] += maxCost
	*h = Hold{agent: w, part: p, day: w.day, amount: maxCost}
	return d, nil
}

// Done replaces the reservation by the charge, zero if the request was not served, and returns what its part has used. Only the first call has an
// effect; ok is false for later ones. A request counts on the day on which it started.
func (h *Hold) Done(charged policy.Micro) (u Use, ok bool) {
	w := h.agent
	if w == nil {
		return Use{}, false
	}
	h.agent = nil
	w.Lock()
	defer w.Unlock()
	if w.day.Equal(h.day) {
		w.held[h.part] -= h.amount
		w.spent[h.part] += max(charged, 0)
	}
	return w.use(h.part), true
}

// open finds an agent's current day, with the spending of other processes, and locks it.
func (m *Meter) open(ctx context.Context, now time.Time, agent Agent) (*agentDay, error) {
	w, ok := m.days.Get(agent)
	if !ok {
		w = &agentDay{}
		if before, had, _ := m.days.PeekOrAdd(agent, w); had {
			w = before
		}
	}
	w.Lock()
	w.roll(now)
	if err := m.refresh(ctx, now, agent, w); err != nil {
		w.Unlock()
		return nil, fault.New(fault.Unavailable, "what this agent has spent cannot be read at the moment", err)
	}
	return w, nil
}

// roll starts a new day. A clock that is set back does not restart an old one.
func (w *agentDay) roll(now time.Time) {
	if day := now.UTC().Truncate(24 * time.Hour); day.After(w.day) {
		w.day, w.queriedAt = day, time.Time{}
		w.spent, w.others, w.held = tally{}, tally{}, tally{}
	}
}

// refresh reads the spending from the store if it is unknown or too old. It includes this process's charges, which are written before their
// reservations end.
func (m *Meter) refresh(ctx context.Context, now time.Time, agent Agent, w *agentDay) error {
	if m.o.Spent == nil || now.Sub(w.queriedAt) < m.o.Refresh {
		return nil
	}
	booked, err := m.o.Spent(ctx, agent, w.day)
	if err != nil {
		return err
	}
	w.queriedAt = now
	for p := Heartbeat; p <= Stake; p++ {
		w.others[p] = max(booked[p.String()]-w.spent[p], 0)
	}
	return nil
}

func (w *agentDay) use(p Part) Use {
	return Use{Spent: w.spent[p] + w.others[p], Held: max(w.held[p], 0)}
}
