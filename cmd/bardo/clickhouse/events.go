package clickhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
)

const (
	// eventsFile records the progress of the export of events.
	eventsFile = "clickhouse-events.json"
	// eventBytes bounds a batch of events, in bytes.
	eventBytes = 1 << 20
)

// events exports the events of a spool under one configuration.
type events struct {
	*export.UsageOptions

	cfg    *config.Config
	server *server
	counts *telemetry.Rows
	sent   map[string]int64 // bytes of each segment that were sent, by segment id
}

// run exports until the configuration changes, an error, or ctx is done. progressed reports whether a step succeeded.
func (e *events) run(ctx context.Context) (progressed bool, err error) {
	e.sent = map[string]int64{}
	if err := readState(e.Home, eventsFile, &e.sent); err != nil {
		return false, err
	}
	return runSteps(ctx, e.UsageOptions, e.cfg, e.step)
}

// step sends at most one batch of each segment, and reports whether there may be more. A batch is recorded as sent after the server has it, and a segment is
// removed after all of it was sent: rows that are sent twice replace themselves.
func (e *events) step(ctx context.Context) (more bool, err error) {
	all, err := event.Segments(e.Home.Path(export.Spool))
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(e.sent, func(id string, _ int64) bool { // segments that their writer has dropped
		return !slices.ContainsFunc(all, func(g event.Segment) bool { return g.ID == id })
	})
	for i := range all {
		rest, err := e.send(ctx, &all[i])
		if more = more || rest; err != nil {
			return false, err
		}
	}
	return more, nil
}

// send sends a batch of a segment, and reports whether there may be more.
func (e *events) send(ctx context.Context, g *event.Segment) (more bool, err error) {
	from := e.sent[g.ID]
	lines, next, err := g.Lines(from, eventBytes)
	if errors.Is(err, fs.ErrNotExist) { // its writer has dropped it
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(lines) == 0 {
		return false, e.finish(g)
	}
	rows, n, err := eventRows(g.ID, from, lines)
	if err != nil {
		return false, err
	}
	if n > 0 {
		err = e.server.insert(ctx, rows, fmt.Sprintf("%s-%d-%d", g.ID, from, next))
		if e.counts.Count(n, err); err != nil {
			return false, err
		}
	}
	e.sent[g.ID] = next
	return true, e.Home.WriteFile(eventsFile, e.sent)
}

// finish removes a closed segment that was sent completely.
func (e *events) finish(g *event.Segment) error {
	if !g.Closed {
		return nil
	}
	if err := os.Remove(g.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(e.sent, g.ID)
	return e.Home.WriteFile(eventsFile, e.sent)
}

// eventRow is an event as a row of the table.
type eventRow struct {
	ID        string         `json:"event_id"`
	At        string         `json:"at"`
	Event     string         `json:"event"`
	Key       policy.Account `json:"key"`
	RequestID string         `json:"request_id"`
	Subsystem string         `json:"subsystem"`
	Data      string         `json:"data"` // JSON
	Exported  string         `json:"exported_at"`
}

// eventRows converts the lines of a segment, from an offset, to rows. A line that cannot be parsed is skipped.
func eventRows(segment string, from int64, lines [][]byte) (rows []byte, n int, err error) {
	var b bytes.Buffer
	out, now := json.NewEncoder(&b), time.Now().UTC().Format(timeFormat[:23])
	for _, text := range lines {
		at := from
		from += int64(len(text)) + 1
		var l struct {
			Time    time.Time       `json:"time"`
			Event   string          `json:"event"`
			Account policy.Account  `json:"account"`
			Data    json.RawMessage `json:"data"`
		}
		if json.Unmarshal(text, &l) != nil || l.Event == "" {
			continue
		}
		var about struct {
			RequestID string `json:"request_id"`
			Subsystem string `json:"subsystem"`
		}
		_ = json.Unmarshal(l.Data, &about) // most events have these; others have neither
		row := eventRow{
			ID: fmt.Sprintf("%s-%d", segment, at), At: l.Time.UTC().Format(timeFormat), Event: l.Event, Key: l.Account, RequestID: about.RequestID, Subsystem: about.Subsystem,
			Data: string(l.Data), Exported: now,
		}
		if err := out.Encode(&row); err != nil {
			return nil, 0, err
		}
		n++
	}
	return b.Bytes(), n, nil
}
