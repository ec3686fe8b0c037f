package run

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"bardo.money/gateway/cmd/bardo/cli"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/policy/ledger"
)

const (
	// watchBacklog is how many finished requests wait for a watcher that is slow to read.
	watchBacklog = 256
	// watchPatience bounds how long one that does not read at all is waited for.
	watchPatience = 10 * time.Second
	// watchEvery is the time between two looks at the whole.
	watchEvery = time.Second
)

// serveWatch streams what happens, until the watcher leaves or the gateway ends.
func (g *gateway) serveWatch(w http.ResponseWriter, r *http.Request) {
	watcher := g.finished.Watch(watchBacklog)
	defer watcher.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, conn := json.NewEncoder(w), http.NewResponseController(w)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var line any = control.GatewayLine{Type: control.LineGateway, Version: cli.Version, PID: cmp.Or(g.by, os.Getpid()), Home: string(g.home), Started: g.started}
	for first := true; ; first = false {
		if conn.SetWriteDeadline(time.Now().Add(watchPatience)) != nil || out.Encode(line) != nil || conn.Flush() != nil {
			return // the watcher has gone
		}
		if first {
			line = g.status(r.Context(), 0)
			continue
		}
		select {
		case f := <-watcher.Events():
			line = control.RequestLine{Type: control.LineRequest, Finished: f}
		case <-tick.C:
			line = g.status(r.Context(), watcher.Lost())
		case <-r.Context().Done():
			return
		}
	}
}

func (g *gateway) status(ctx context.Context, lost uint64) control.StatusLine {
	now := time.Now()
	s := control.StatusLine{
		Type: control.LineStatus, At: now.UTC(), Draining: g.draining.Load(), Live: g.gate.Live(), Served: g.gate.Served(),
		Providers: g.providerStates(), Lost: lost,
	}
	s.Holds, s.Held = g.books.Holds()
	days, err := g.books.Usage(ctx, ledger.Filter{Since: now.UTC()}, ledger.ByDay)
	if err != nil {
		g.log.Debug("today's usage was not read", "error", err)
	}
	for _, d := range days {
		s.RequestsToday += d.Requests
		s.CostToday += d.Cost
		s.ProviderToday += d.ProviderCost
	}
	return s
}
