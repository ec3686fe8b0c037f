// Package objectstore exports usage from the ledger to an S3-compatible object store: one CSV object per completed UTC day. It reads the ledger as a command
// does, and records exported days in a file: a slow or unavailable store only delays the export. Only the program bardo contains it.
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
	// settleTime is how long after a day its usage is exported, so that requests in flight at its end are charged.
	settleTime = 15 * time.Minute
	// initialDays is how many past days are exported when the export is first configured.
	initialDays = 7
	// interval is the time between two checks for completed days.
	interval = time.Minute
	// maxWait bounds the backoff after consecutive failures.
	maxWait = 10 * time.Minute
	// stateFile records the progress of the export.
	stateFile = "objectstore.json"
)

// state is the progress of the export to a bucket.
type state struct {
	To  string `json:"to"`  // endpoint, bucket and prefix
	Day string `json:"day"` // the last exported day
	// Sums are the SHA-256 hashes of the objects of recent days, by day: a day whose usage has changed since is exported again.
	Sums map[string]string `json:"sums,omitempty"`
}

// Run exports as configured until ctx is done.
func Run(ctx context.Context, o *export.UsageOptions) error {
	for failures := 0; ; {
		cfg, wait := o.Config(), interval
		err := Export(ctx, o, cfg, time.Now())
		switch {
		case err != nil && ctx.Err() == nil:
			o.Log.Warn("usage was not exported to the object store, and will be", "error", o.Redact(err.Error()))
			wait = min(time.Second<<min(failures, 10), maxWait)
			failures++
		default:
			failures = 0
		}
		if !o.Pause(ctx, wait, cfg) {
			return nil
		}
	}
}

// Export exports the completed days that the store lacks, and recent days whose usage has changed since. A day may be exported twice if it is unknown whether
// the store has it: its object is overwritten.
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
	days := pendingDays(s.Day, now.UTC())
	if len(days) == 0 {
		return nil
	}
	days = append(s.recent(days[0]), days...)
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
		if err := o.Home.WriteFile(stateFile, s); err != nil {
			return err
		}
	}
	return nil
}

// recent are the exported days among the last few before a day.
func (s *state) recent(before time.Time) (days []time.Time) {
	for day := before.AddDate(0, 0, -initialDays); day.Before(before); day = day.AddDate(0, 0, 1) {
		if s.Sums[day.Format(time.DateOnly)] != "" {
			days = append(days, day)
		}
	}
	return days
}

// store exports the usage of a day, unless the store already has it.
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
	delete(s.Sums, day.AddDate(0, 0, -initialDays-1).Format(time.DateOnly))
	s.Day = max(s.Day, name)
	return nil
}

// pendingDays are the completed days after the last exported one; without one, the last few.
func pendingDays(last string, now time.Time) (days []time.Time) {
	firstOpen := now.Add(-settleTime).Truncate(24 * time.Hour) // the first day that is not completed
	from, err := time.Parse(time.DateOnly, last)
	if err != nil {
		from = firstOpen.AddDate(0, 0, -initialDays-1)
	}
	for day := from.AddDate(0, 0, 1); day.Before(firstOpen); day = day.AddDate(0, 0, 1) {
		days = append(days, day)
	}
	return days
}

// report returns a day's usage by project, key and model, as CSV.
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
