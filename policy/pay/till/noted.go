package till

import (
	"sync"
	"time"
)

// counts are numbers of payments by their ids, for several goroutines: a facilitator is handed many payments at once.
type counts struct {
	mu   sync.Mutex
	byID map[int64]int
}

func (c *counts) of(id int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

func (c *counts) add(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[int64]int{}
	}
	c.byID[id]++
}

func (c *counts) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, id)
}

// times are moments of payments by their ids, for several goroutines.
type times struct {
	mu   sync.Mutex
	byID map[int64]time.Time
}

// since is the moment that is noted for a payment: now, if none is.
func (t *times) since(id int64, now time.Time) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID == nil {
		t.byID = map[int64]time.Time{}
	}
	if _, ok := t.byID[id]; !ok {
		t.byID[id] = now
	}
	return t.byID[id]
}

func (t *times) forget(id int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byID, id)
}
