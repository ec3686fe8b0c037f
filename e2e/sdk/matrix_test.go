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
						l.witness(t, r, rep)
					}
					mu.Lock()
					defer mu.Unlock()
					reports[r.name()] = rep
				})
			}
		}
	})
	l.gateway.AssertSound(t)
	compare(t, reports)
	if len(reports) == 3*len(clients) { // not with -run of some
		checkTable(t, "clients", matrix(reports))
		checkTable(t, "errors", raised(reports))
	}
}

// compare checks the errors that were raised through the gateway, for every client that ran.
func compare(t *testing.T, reports map[string]report) {
	t.Helper()
	for _, c := range clients {
		rs := c.targets()
		direct, ran := reports[rs[2].name()]
		for _, r := range rs[:2] {
			if through, also := reports[r.name()]; ran && also {
				t.Run("errors of "+r.name(), func(t *testing.T) { checkParity(t, r, through, direct) })
			}
		}
	}
}
