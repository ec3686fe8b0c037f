// Package clickhouse exports usage from the ledger, a row per request, and events from their spool, to ClickHouse. It reads the ledger as a command does, and
// records its progress in files: a slow or unavailable server only delays rows. Only the program bardo contains it.
package clickhouse

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

const (
	// batch is the maximum number of rows per insert, about 1 MB.
	batch = 2000
	// maxWait bounds the backoff after consecutive failures.
	maxWait = time.Minute
	// settleTime bounds in PostgreSQL the duration of transactions whose requests must not be missed.
	settleTime = time.Minute
	// stateFile records the progress of the export.
	stateFile = "clickhouse.json"
)

// state is the progress of the export to a table.
type state struct {
	To   string      `json:"to"` // address and table
	Mark ledger.Mark `json:"mark"`
}

// exporter exports usage under one configuration.
type exporter struct {
	*export.UsageOptions

	cfg    *config.Config
	server *server
	books  *ledger.Ledger
	counts *telemetry.Rows
	state  state

	seen   ledger.Mark // the last request at seenAt
	seenAt time.Time
}

// Run exports usage and events as configured until ctx is done, concurrently, so that neither waits for the other.
func Run(ctx context.Context, o *export.UsageOptions) error {
	counts := o.Metrics.Rows()
	var both errgroup.Group
	both.Go(func() error {
		return repeat(ctx, o, "usage was", func(cfg *config.Config) (bool, error) {
			e := &exporter{UsageOptions: o, cfg: cfg, server: newServer(&cfg.Telemetry, cfg.Telemetry.ClickHouseTable, schema), counts: counts}
			return e.run(ctx)
		})
	})
	both.Go(func() error {
		return repeat(ctx, o, "events were", func(cfg *config.Config) (bool, error) {
			if !cfg.Telemetry.ExportsEvents() {
				return true, nil
			}
			e := &events{UsageOptions: o, cfg: cfg, server: newServer(&cfg.Telemetry, cfg.Telemetry.ClickHouseEventsTable, eventsSchema), counts: counts}
			return e.run(ctx)
		})
	})
	return both.Wait()
}

// repeat calls run while a server is configured, again after each change of the configuration and each failure, until ctx is done. what begins the log line.
// run reports whether it progressed before its error; then the backoff starts anew.
func repeat(ctx context.Context, o *export.UsageOptions, what string, run func(*config.Config) (progressed bool, err error)) error {
	for failures := 0; ; {
		cfg, wait := o.Config(), time.Second
		if cfg.Telemetry.ClickHouse.Host != "" {
			progressed, err := run(cfg)
			if progressed || err == nil {
				failures = 0
			}
			if err != nil && ctx.Err() == nil {
				o.Log.Warn(what+" not exported to ClickHouse, and will be", "error", o.Redact(err.Error()))
				failures++
				wait = min(time.Second<<min(failures, 10), maxWait)
			}
		}
		if !o.Pause(ctx, wait, cfg) {
			return nil
		}
	}
}

// run exports until the configuration changes, an error, or ctx is done. progressed reports whether a step succeeded.
func (e *exporter) run(ctx context.Context) (progressed bool, err error) {
	if e.books, err = e.Home.OpenLedger(ctx, e.cfg); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.books.Close()) }()
	if err := e.resume(); err != nil {
		return false, err
	}
	return runSteps(ctx, e.UsageOptions, e.cfg, e.step)
}

// runSteps calls step immediately while there may be more to send, and else at each interval, until the configuration changes, an error, or ctx is done.
// progressed reports whether a step succeeded.
func runSteps(ctx context.Context, o *export.UsageOptions, cfg *config.Config, step func(context.Context) (more bool, err error)) (progressed bool, err error) {
	tick := time.NewTicker(cfg.Telemetry.ClickHouseInterval)
	defer tick.Stop()
	for o.Config() == cfg {
		more, err := step(ctx)
		if err != nil {
			return progressed, err
		}
		progressed = true
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return progressed, nil
		case <-tick.C:
		}
	}
	return progressed, nil
}

// resume reads the progress of the export to this table.
func (e *exporter) resume() error {
	to := e.server.at.String() + " " + e.server.table
	if err := readState(e.Home, stateFile, &e.state); err != nil {
		return err
	}
	if e.state.To != to {
		e.state = state{To: to}
	}
	return nil
}

// readState reads a state file, which may not exist.
func readState(h home.Dir, file string, into any) error {
	b, err := os.ReadFile(h.Path(file))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// step sends a batch, and reports whether there may be more. Rows are recorded as sent after the server has them; rows that are sent again after a crash
// replace themselves.
func (e *exporter) step(ctx context.Context) (more bool, err error) {
	last, err := e.settledMark(ctx)
	if err != nil || last == (ledger.Mark{}) {
		return false, err
	}
	list, next, err := e.books.RequestsAfter(ctx, e.state.Mark, last, batch)
	if err != nil || len(list) == 0 {
		return false, err
	}
	rows, err := e.rows(ctx, list)
	if err != nil {
		return false, err
	}
	err = e.server.insert(ctx, rows, fmt.Sprintf("%s-%s-%d", list[0].RequestID, next.ID, len(list)))
	e.counts.Count(len(list), err)
	if err != nil {
		return false, err
	}
	e.state.Mark = next
	return len(list) == batch, e.Home.WriteFile(stateFile, e.state)
}

// settledMark is the position up to which no earlier requests can appear any more. In SQLite that is the last request; in PostgreSQL transactions of several
// gateways may commit in another order than their numbers, so it is the last request of a minute ago.
func (e *exporter) settledMark(ctx context.Context) (ledger.Mark, error) {
	now, err := e.books.LastMark(ctx)
	if err != nil || !e.cfg.Store.Ledger.Postgres() {
		return now, err
	}
	if e.seenAt.IsZero() {
		e.seen, e.seenAt = now, time.Now()
	}
	if time.Since(e.seenAt) < settleTime {
		return ledger.Mark{}, nil
	}
	before := e.seen
	e.seen, e.seenAt = now, time.Now()
	return before, nil
}

// row is a request as a row of the table.
type row struct {
	ID        string            `json:"request_id"`
	At        string            `json:"at"`
	Key       policy.Account    `json:"key"`
	Project   string            `json:"project"` // the key's current project
	Golem     string            `json:"golem"`
	Subsystem string            `json:"subsystem"`
	Provider  policy.ProviderID `json:"provider"`
	Model     policy.ModelID    `json:"model"`
	Status    string            `json:"status"`
	ledger.Tokens
	Cost         policy.Micro `json:"cost_usd"`
	Charged      policy.Micro `json:"charged_usd"`
	ProviderCost policy.Pico  `json:"provider_cost_usd"`
	Saved        policy.Micro `json:"saved_usd"`
	Exported     string       `json:"exported_at"`
}

// timeFormat is UTC as ClickHouse parses it.
const timeFormat = "2006-01-02 15:04:05.000000"

// rows encodes requests as JSON lines, without their records.
func (e *exporter) rows(ctx context.Context, list []ledger.Request) ([]byte, error) {
	keys, err := e.books.Keys(ctx)
	if err != nil {
		return nil, err
	}
	projects := make(map[policy.Account]string, len(keys))
	for i := range keys {
		projects[keys[i].ID] = keys[i].Project
	}
	var b bytes.Buffer
	out, now := json.NewEncoder(&b), time.Now().UTC().Format(timeFormat[:23])
	for i := range list {
		r := &list[i]
		line := row{
			ID: r.RequestID, At: r.At.UTC().Format(timeFormat), Key: r.Account, Project: projects[r.Account], Golem: r.Agent, Subsystem: r.Subsystem, Provider: r.Provider,
			Model: r.Model, Status: r.Status, Tokens: r.Tokens, Cost: r.Amount, Charged: r.Charged, ProviderCost: r.ProviderCost, Exported: now,
		}
		for j := range r.Savings {
			line.Saved = line.Saved.Plus(r.Savings[j].Amount)
		}
		if err := out.Encode(&line); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
