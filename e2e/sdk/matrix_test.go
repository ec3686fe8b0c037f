package sdk

import (
	"sync"
	"testing"
)

// TestClients runs every client through the gateway, over a provider of its own dialect and over one of the other, and
// against its own provider, whose errors the gateway's must be raised like.
func TestClients(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var mu sync.Mutex
	reports := map[string]report{}
	t.Run("run", func(t *testing.T) {
		for _, c := range clients {
			for _, r := range c.targets() {
				t.Run(r.name(), func(t *testing.T) {
					t.Parallel()
					rep := l.drive(t, r)
					if !r.direct {
						l.witness(t, r)
					}
					mu.Lock()
					defer mu.Unlock()
					reports[r.name()] = rep
				})
			}
		}
	})
	l.gateway.AssertSound(t)
}
