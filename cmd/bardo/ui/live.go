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

// How live streams behave: a browser opens the next one when one has ended.
const (
	liveBacklog = 256 // requests that wait for a browser that reads slowly
	liveEvery   = 2 * time.Second
	liveLife    = 10 * time.Minute
	liveRows    = 40 // past requests on the page at first

	maxStreams       = 64
	maxViewerStreams = 6
)

// liveData is the page of live requests as it is loaded.
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
	Lost          uint64 `json:"lost"` // requests that this stream was too slow for
}

func (s *Server) live(w http.ResponseWriter, r *http.Request, v *viewer) error {
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	accounts, err := v.selected("")
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

// stats are today's sums of what the viewer sees.
func (s *Server) stats(ctx context.Context, v *viewer) (out stats, err error) {
	accounts, err := v.selected("")
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

// liveRow is a finished request as the page's script gets it: texts that it puts into cells.
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

// verdict is how a request ended, in few words.
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

// streams counts the open ones. The zero value is ready to use. Safe for concurrent use.
type streams struct {
	mu  sync.Mutex
	all []string // the tokens of their viewers
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

// liveEvents is the stream of the page of live requests.
func (s *Server) liveEvents(w http.ResponseWriter, r *http.Request, v *viewer) error {
	if !s.streams.open(v.token) {
		return fault.New(fault.Overloaded, "Too many live pages are open.", nil)
	}
	defer s.streams.close(v.token)
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), liveLife)
	defer cancel()
	watcher := s.o.Finished.Watch(liveBacklog)
	defer watcher.Close()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	out := eventWriter{w: w, conn: http.NewResponseController(w)}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for alive := out.send("hello", struct{}{}); alive; {
		select {
		case f := <-watcher.Events():
			if v.sees(f.Account) {
				alive = out.send("request", liveRowOf(&f, names))
			}
		case <-tick.C:
			v, names, alive = s.beat(ctx, r, &out, watcher.Lost())
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// beat sends the numbers of the moment. It returns what the viewer may see now, and ends the stream of one who may see nothing more, or of a gateway that stops.
func (s *Server) beat(ctx context.Context, r *http.Request, out *eventWriter, lost uint64) (v *viewer, names map[policy.Account]string, alive bool) {
	v, err := s.viewer(r)
	if err != nil || s.o.Draining() {
		return nil, nil, false
	}
	if names, err = s.keyNames(ctx, v); err != nil {
		return v, nil, out.send("away", struct{}{}) // the books do not answer; the stream goes on
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

// send reports whether the browser is still there. JSON has no line breaks.
func (e *eventWriter) send(name string, data any) bool {
	b, err := json.Marshal(data)
	if err != nil {
		return false
	}
	_, err = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, b)
	return err == nil && e.conn.Flush() == nil
}
