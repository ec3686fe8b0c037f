// Package objectstore exports usage from the ledger to an S3-compatible object store: an object of CSV for each UTC day that is over. It reads the ledger as a
// command does, beside the gateway, and keeps in a file which days the store has: one that is slow or away delays days and nothing else. The program bardo alone
// contains it.
package objectstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/ledger/usage"
)

const (
	// closing is how long after a day its usage is exported: what was under way at its end is charged by then.
	closing = 15 * time.Minute
	// firstDays is how many days are exported of the time before the export was configured.
	firstDays = 7
	// interval is the time between two looks at the calendar.
	interval = time.Minute
	// longestWait bounds the wait after failures in a row.
	longestWait = 10 * time.Minute
	// stateFile keeps how far the export has come.
	stateFile = "objectstore.json"
)

// state is how far the export to a bucket has come.
type state struct {
	To  string `json:"to"`  // endpoint, bucket and prefix
	Day string `json:"day"` // the last one that the store has
	// Sums are the SHA-256 hashes of the objects of the last days, by day: one whose usage has changed since is stored again.
	Sums map[string]string `json:"sums,omitempty"`
}

// Run exports what the configuration in force says until ctx is done.
func Run(ctx context.Context, o *export.UsageOptions) error {
	for failures := 0; ; {
		cfg, wait := o.Config(), interval
		err := Export(ctx, o, cfg, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			o.Log.Warn("usage was not exported to the object store, and will be", "error", o.Redact(err.Error()))
			wait = min(time.Second<<min(failures, 10), longestWait)
			failures++
		default:
			failures = 0
		}
		if !o.Pause(ctx, wait, cfg) {
			return nil
		}
	}
}

// Export stores the days that are over at a time, and that the store has not, and with them those of the last days to which something was charged since. A day is
// stored again where it is not sure that the store has it: its object replaces itself.
func Export(ctx context.Context, o *export.UsageOptions, cfg *config.Config, now time.Time) (err error) {
	c := &cfg.Telemetry.ObjectStore
	if c.Endpoint.Host == "" {
		return nil
	}
	s := state{}
	if err := readState(o, &s); err != nil {
		return err
	}
	if to := c.Endpoint.String() + " " + c.Bucket + " " + c.Prefix; s.To != to {
		s = state{To: to}
	}
	days := due(s.Day, now.UTC())
	if len(days) == 0 {
		return nil
	}
	days = append(s.again(days[0]), days...)
	books, err := o.Home.OpenLedger(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, books.Close()) }()
	store := newBucket(c)
	for _, day := range days {
		if err := s.store(ctx, books, store, day, now); err != nil {
			return fmt.Errorf("usage of %s: %w", day.Format(time.DateOnly), err)
		}
		if err := o.Home.Keep(stateFile, s); err != nil {
			return err
		}
	}
	return nil
}

// again are the days that the store has of the last few before one.
func (s *state) again(before time.Time) (days []time.Time) {
	for day := before.AddDate(0, 0, -firstDays); day.Before(before); day = day.AddDate(0, 0, 1) {
		if s.Sums[day.Format(time.DateOnly)] != "" {
			days = append(days, day)
		}
	}
	return days
}

// store stores the usage of a day, unless the store has it.
func (s *state) store(ctx context.Context, books *ledger.Ledger, b *bucket, day, now time.Time) error {
	text, err := report(ctx, books, day)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(text)
	name, sum := day.Format(time.DateOnly), hex.EncodeToString(hash[:])
	if s.Sums[name] == sum {
		return nil
	}
	if err := b.put(ctx, "usage/"+name+".csv", text, now); err != nil {
		return err
	}
	if s.Sums == nil {
		s.Sums = map[string]string{}
	}
	s.Sums[name] = sum
	delete(s.Sums, day.AddDate(0, 0, -firstDays-1).Format(time.DateOnly))
	s.Day = max(s.Day, name)
	return nil
}

// due are the days that are over behind the last one that the store has. Without one, they are the last few.
func due(last string, now time.Time) (days []time.Time) {
	over := now.Add(-closing).Truncate(24 * time.Hour) // the first day that is not over
	from, err := time.Parse(time.DateOnly, last)
	if err != nil {
		from = over.AddDate(0, 0, -firstDays-1)
	}
	for day := from.AddDate(0, 0, 1); day.Before(over); day = day.AddDate(0, 0, 1) {
		days = append(days, day)
	}
	return days
}

// report is the usage of a day by key and model.
func report(ctx context.Context, books *ledger.Ledger, day time.Time) ([]byte, error) {
	by := []usage.By{usage.ByProject, usage.ByKey, usage.ByModel}
	sums, err := books.Sums(ctx, ledger.Query{Filter: ledger.Filter{Since: day, Until: day}, By: by})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = usage.TableOf(by, sums).CSV(&b)
	return b.Bytes(), err
}

func readState(o *export.UsageOptions, into *state) error {
	b, err := os.ReadFile(o.Home.Path(stateFile))
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	return nil
}
