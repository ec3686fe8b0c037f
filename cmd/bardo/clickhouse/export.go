// Package clickhouse exports usage, a row for each request, from the ledger to ClickHouse, and events from their spool. It reads the ledger as a command does, beside
// the gateway, and keeps in files how far it has come: a server that is slow or away delays rows and nothing else. The program bardo alone contains it.
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
	// batch is how many rows are sent at once at most, about 1 MB.
	batch = 2000
	// longestWait bounds the wait after failures in a row.
	longestWait = time.Minute
	// settle is how long in PostgreSQL a transaction may last whose requests are not to be missed.
	settle = time.Minute
	// stateFile keeps how far the export has come.
	stateFile = "clickhouse.json"
)

// state is how far the export to a table has come.
type state struct {
	To   string      `json:"to"` // address and table
	Mark ledger.Mark `json:"mark"`
}

// exporter exports by one configuration.
type exporter struct {
	*export.UsageOptions

	cfg    *config.Config
	server *server
	books  *ledger.Ledger
	counts *telemetry.Rows
	state  state

	seen   ledger.Mark // the last request when it was looked at
	seenAt time.Time
}

// Run exports what the configuration in force says until ctx is done: usage and events beside each other, so that neither waits for the other.
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

// repeat exports while there is a server, again after each change of the configuration and each failure, until ctx is done. what begins the line of the log. run says
// whether something went well before its error: then that is the first failure in a row.
func repeat(ctx context.Context, o *export.UsageOptions, what string, run func(*config.Config) (worked bool, err error)) error {
	for failures := 0; ; {
		cfg, wait := o.Config(), time.Second
		if cfg.Telemetry.ClickHouse.Host != "" {
			worked, err := run(cfg)
			if worked || err == nil {
				failures = 0
			}
			if err != nil && ctx.Err() == nil {
				o.Log.Warn(what+" not exported to ClickHouse, and will be", "error", o.Redact(err.Error()))
				failures++
				wait = min(time.Second<<min(failures, 10), longestWait)
			}
		}
		if !o.Pause(ctx, wait, cfg) {
			return nil
		}
	}
}

// run exports until there is another configuration, an error, or ctx is done. It has worked where a step had no error.
func (e *exporter) run(ctx context.Context) (worked bool, err error) {
	if e.books, err = e.Home.OpenLedger(ctx, e.cfg); err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.books.Close()) }()
	if err := e.resume(); err != nil {
		return false, err
	}
	return stepping(ctx, e.UsageOptions, e.cfg, e.step)
}

// stepping takes steps, at once while there may be more to send and else at each interval, until there is another configuration, an error, or ctx is done. It has worked
// where a step had no error.
func stepping(ctx context.Context, o *export.UsageOptions, cfg *config.Config, step func(context.Context) (more bool, err error)) (worked bool, err error) {
	tick := time.NewTicker(cfg.Telemetry.ClickHouseInterval)
	defer tick.Stop()
	for o.Config() == cfg {
		more, err := step(ctx)
		if err != nil {
			return worked, err
		}
		worked = true
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return worked, nil
		case <-tick.C:
		}
	}
	return worked, nil
}

// resume reads how far the export to this table has come.
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

// readState reads what was kept in a file, which may not be there.
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

// step sends a batch, and reports whether there may be more. Its rows are remembered as sent after the server has them: what is sent again after a crash replaces itself.
func (e *exporter) step(ctx context.Context) (more bool, err error) {
	last, err := e.settled(ctx)
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
	return len(list) == batch, e.Home.Keep(stateFile, e.state)
}

// settled is behind the last request before which none comes any more. In SQLite it is the last one; in PostgreSQL transactions of several gateways may end in another
// order than they numbered their requests, so that it is the last one of a minute ago.
func (e *exporter) settled(ctx context.Context) (ledger.Mark, error) {
	now, err := e.books.LastMark(ctx)
	if err != nil || !e.cfg.Store.Ledger.Postgres() {
		return now, err
	}
	if e.seenAt.IsZero() {
		e.seen, e.seenAt = now, time.Now()
	}
	if time.Since(e.seenAt) < settle {
		return ledger.Mark{}, nil
	}
	before := e.seen
	e.seen, e.seenAt = now, time.Now()
	return before, nil
}

// row is a request as the table has it.
type row struct {
	ID        string            `json:"request_id"`
	At        string            `json:"at"`
	Key       policy.Account    `json:"key"`
	Project   string            `json:"project"` // that the key belongs to now
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

// timeForm is UTC as ClickHouse reads it.
const timeForm = "2006-01-02 15:04:05.000000"

// rows are requests as lines of JSON, without their records.
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
	out, now := json.NewEncoder(&b), time.Now().UTC().Format(timeForm[:23])
	for i := range list {
		r := &list[i]
		line := row{
			ID: r.RequestID, At: r.At.UTC().Format(timeForm), Key: r.Account, Project: projects[r.Account], Golem: r.Agent, Subsystem: r.Subsystem, Provider: r.Provider,
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
