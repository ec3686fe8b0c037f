package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Limits of live streams. A browser reconnects when one ends.
const (
	liveBacklog   = 256 // finished requests queued for a slow browser
	statsInterval = 2 * time.Second
	liveMaxAge    = 10 * time.Minute
	liveRows      = 40 // past requests on the page initially

	maxStreams       = 64
	maxViewerStreams = 6
)

// liveData is the initial content of the live page.
type liveData struct {
	Rows  []row
	Stats stats
	Names map[policy.Account]string
}

// stats are the numbers above the live requests.
type stats struct {
	Live          int64  `json:"live"`
	RequestsToday int64  `json:"requests"`
	CostToday     string `json:"cost"`
	SavedToday    string `json:"saved"`
	Down          int    `json:"down"` // providers
	Lost          uint64 `json:"lost"` // requests that were dropped because the browser is slow
}

func (s *Server) live(w http.ResponseWriter, r *http.Request, v *viewer) error {
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	accounts, err := v.accountsFor("")
	if err != nil {
		return err
	}
	found, err := s.find(r.Context(), accounts, ledger.RequestFilter{Limit: liveRows})
	if err != nil {
		return err
	}
	d := liveData{Names: names}
	for i := range found {
		d.Rows = append(d.Rows, rowOf(&found[i], names))
	}
	if d.Stats, err = s.stats(r.Context(), v); err != nil {
		return err
	}
	s.render(w, http.StatusOK, v, "live", view{Title: "Live", Data: d})
	return nil
}

// stats returns today's totals of what the viewer may see.
func (s *Server) stats(ctx context.Context, v *viewer) (out stats, err error) {
	accounts, err := v.accountsFor("")
	if err != nil {
		return out, err
	}
	days, err := s.usage(ctx, accounts, dayOf(s.o.Now(), 0), ledger.ByDay)
	if err != nil {
		return out, err
	}
	var today ledger.UsageRow
	for i := range days {
		add(&today, &days[i])
	}
	out.RequestsToday, out.CostToday, out.SavedToday = today.Requests, usd(today.Cost), usd(today.Saved)
	if v.Operator {
		out.Live, _ = s.o.Load()
	}
	for _, p := range s.shownProviders(v) {
		if p.State == "down" || p.State == "credential_refused" {
			out.Down++
		}
	}
	return out, nil
}

// liveRow is a finished request as formatted for the page's script.
type liveRow struct {
	ID        string `json:"id"`
	At        string `json:"at"`
	Status    int    `json:"status"`
	Verdict   string `json:"verdict"`
	Mood      string `json:"mood"`
	Requested string `json:"requested"`
	Model     string `json:"model"`
	Route     string `json:"route"`
	Key       string `json:"key"`
	Cache     string `json:"cache"`
	Tokens    string `json:"tokens"`
	Cost      string `json:"cost"`
	Took      string `json:"took"`
}

func liveRowOf(f *record.Finished, names map[policy.Account]string) liveRow {
	out := liveRow{
		ID: f.ID, At: f.At.UTC().Format(time.RFC3339), Status: f.Status, Verdict: verdict(f.Status, f.Code, f.Outcome), Mood: moodOf(f.Status, f.Outcome, len(f.Attempts)),
		Requested: f.RequestedModel, Model: string(f.Model), Route: routeOf(f.Attempts), Key: names[f.Account], Cache: f.Cache,
		Tokens: count(f.InputTokens) + " / " + count(f.OutputTokens), Cost: usd(f.Cost), Took: millis(f.LatencyMS),
	}
	if out.Route == "" {
		out.Route = string(f.Provider)
	}
	return out
}

// verdict is the status, with the error code or the outcome if it was not a success.
func verdict(status int, code, outcome string) string {
	text := fmt.Sprint(status)
	switch {
	case code != "":
		return text + " " + code
	case outcome != "" && outcome != record.OK:
		return text + " " + outcome
	}
	return text
}

// streams counts open streams. The zero value is ready to use. Safe for concurrent use.
type streams struct {
	mu  sync.Mutex
	all []string // the session token of each stream
}

func (o *streams) open(token string) (ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := 0
	for _, t := range o.all {
		if t == token {
			own++
		}
	}
	if len(o.all) >= maxStreams || own >= maxViewerStreams {
		return false
	}
	o.all = append(o.all, token)
	return true
}

func (o *streams) close(token string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.all, token); i >= 0 {
		o.all = slices.Delete(o.all, i, i+1)
	}
}

// liveEvents streams the live page's events.
func (s *Server) liveEvents(w http.ResponseWriter, r *http.Request, v *viewer) error {
	if !s.streams.open(v.token) {
		return fault.New(fault.Overloaded, "Too many live pages are open.", nil)
	}
	defer s.streams.close(v.token)
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), liveMaxAge)
	defer cancel()
	watcher := s.o.Finished.Watch(liveBacklog)
	defer watcher.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := eventWriter{w: w, conn: http.NewResponseController(w)}
	tick := time.NewTicker(statsInterval)
	defer tick.Stop()
	for alive := out.send("hello", struct{}{}); alive; {
		select {
		case f := <-watcher.Events():
			if v.maySee(f.Account) {
				alive = out.send("request", liveRowOf(&f, names))
			}
		case <-tick.C:
			v, names, alive = s.sendStats(ctx, r, &out, watcher.Lost())
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// sendStats sends the current numbers. It returns the viewer's current rights; alive is false if the viewer has none any more, the gateway drains, or the
// browser has disconnected.
func (s *Server) sendStats(ctx context.Context, r *http.Request, out *eventWriter, lost uint64) (v *viewer, names map[policy.Account]string, alive bool) {
	v, err := s.viewer(r)
	if err != nil || s.o.Draining() {
		return nil, nil, false
	}
	if names, err = s.keyNames(ctx, v); err != nil {
		return v, nil, out.send("away", struct{}{}) // the ledger does not answer; the stream continues
	}
	now, err := s.stats(ctx, v)
	if err != nil {
		return v, names, out.send("away", struct{}{})
	}
	now.Lost = lost
	return v, names, out.send("stats", now)
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w    http.ResponseWriter
	conn *http.ResponseController
}

// send writes an event, and reports whether the browser is still connected. JSON has no line breaks.
func (e *eventWriter) send(name string, data any) bool {
	b, err := json.Marshal(data)
	if err != nil {
		return false
	}
	_, err = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b)
	return err == nil && e.conn.Flush() == nil
}
