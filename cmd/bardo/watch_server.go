package main

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"time"

	"bardo.money/gateway/extproc"
	"bardo.money/gateway/policy"
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

// The lines of a watcher's stream, one JSON object each. Their types tell them apart.
const (
	lineGateway = "gateway"
	lineRequest = "request"
	lineStatus  = "status"
)

// gatewayLine is the first line: who is watched.
type gatewayLine struct {
	Type    string    `json:"type"`
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Home    string    `json:"home"`
	Started time.Time `json:"started_at"`
}

// requestLine is a request that ended.
type requestLine struct {
	Type string `json:"type"`
	extproc.Finished
}

// statusLine is the gateway as a whole, once a second.
type statusLine struct {
	Type          string          `json:"type"`
	At            time.Time       `json:"at"`
	Draining      bool            `json:"draining"`
	Live          int64           `json:"under_way"`
	Served        uint64          `json:"served"` // requests with a body since the gateway's start
	RequestsToday int64           `json:"requests_today"`
	CostToday     policy.Micro    `json:"cost_today_usd"`
	ProviderToday policy.Pico     `json:"provider_cost_today_usd"`
	Holds         int             `json:"holds"`
	Held          policy.Micro    `json:"held_usd"`
	Providers     []providerState `json:"providers"`
	Lost          uint64          `json:"lost"` // request lines that this watcher was too slow for
}

// serveWatch streams what happens, until the watcher leaves or the gateway ends.
func (g *gateway) serveWatch(w http.ResponseWriter, r *http.Request) {
	watcher := g.finished.Watch(watchBacklog)
	defer watcher.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, conn := json.NewEncoder(w), http.NewResponseController(w)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var line any = gatewayLine{Type: lineGateway, Version: version, PID: os.Getpid(), Home: string(g.home), Started: g.started}
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
			line = requestLine{lineRequest, f}
		case <-tick.C:
			line = g.status(r.Context(), watcher.Lost())
		case <-r.Context().Done():
			return
		}
	}
}

func (g *gateway) status(ctx context.Context, lost uint64) statusLine {
	now := time.Now()
	s := statusLine{
		Type: lineStatus, At: now.UTC(), Draining: g.draining.Load(), Live: g.gate.Live(), Served: g.gate.Served(),
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
