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
	// watchBacklog is how many finished requests are queued for a slow watcher.
	watchBacklog = 256
	// watchWriteTimeout bounds a write to a watcher that does not read.
	watchWriteTimeout = 10 * time.Second
	// watchInterval is the time between two status lines.
	watchInterval = time.Second
)

// serveWatch streams finished requests and the gateway's status until the watcher disconnects or the gateway stops.
func (g *gateway) serveWatch(w http.ResponseWriter, r *http.Request) {
	watcher := g.finished.Watch(watchBacklog)
	defer watcher.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, conn := json.NewEncoder(w), http.NewResponseController(w)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var line any = control.GatewayLine{Type: control.LineGateway, Version: cli.Version, PID: cmp.Or(g.parentPID, os.Getpid()), Home: string(g.home), Started: g.started}
	for first := true; ; first = false {
		if conn.SetWriteDeadline(time.Now().Add(watchWriteTimeout)) != nil || out.Encode(line) != nil || conn.Flush() != nil {
			return // the watcher has disconnected
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
