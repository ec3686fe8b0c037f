package objectstore_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/objectstore"
	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/s3test"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// lab is a gateway's state directory with a ledger, and a fake object store.
type lab struct {
	*s3test.Store

	t    *testing.T
	home home.Dir
	cfg  *config.Config
	n    int

	clock bool // the store uses the exporter's time
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{Store: s3test.Start(t), t: t, home: home.Dir(t.TempDir()), cfg: new(config.Config), clock: true}
	l.cfg.Store.Ledger = "sqlite://$BARDO_HOME/bardo.db"
	host, _ := strings.CutPrefix(l.URL, "http://")
	l.cfg.Telemetry.ObjectStore = config.ObjectStore{
		Endpoint: config.URL{Scheme: "http", Host: host}, Region: s3test.Region, Bucket: s3test.Bucket, Prefix: "of/bardo-1_",
		AccessKey: secret.New(s3test.Access), SecretKey: secret.New(s3test.Secret),
	}
	return l
}

// spend charges an amount to a key at a time.
func (l *lab) spend(at time.Time, key policy.Account, amount policy.Micro) {
	l.t.Helper()
	books, err := ledger.Open(l.t.Context(), filepath.Join(string(l.home), "bardo.db"), ledger.Options{Gateway: true, Dir: string(l.home), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }})
	if err != nil {
		l.t.Fatal(err)
	}
	l.n++
	c := ledger.Charge{RequestID: "r" + time.Duration(l.n).String(), Account: key, Amount: amount, At: at, Model: "m", Provider: "p", Tokens: ledger.Tokens{Input: 7}}
	if err := books.Record(c); err != nil {
		l.t.Fatal(err)
	}
	if err := books.Close(); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) export(now time.Time) error {
	if l.clock {
		l.Now = func() time.Time { return now }
	}
	o := &export.UsageOptions{Home: l.home, Config: func() *config.Config { return l.cfg }, Redact: func(s string) string { return s }, Log: slog.New(slog.DiscardHandler)}
	return objectstore.Export(l.t.Context(), o, l.cfg, now)
}

func (l *lab) exports(now time.Time) {
	l.t.Helper()
	if err := l.export(now); err != nil {
		l.t.Fatal(err)
	}
}

// has checks which days are stored below a prefix, and the number of puts.
func (l *lab) has(about, prefix string, puts int, days ...string) {
	l.t.Helper()
	want := make([]string, len(days))
	for i, day := range days {
		want[i] = prefix + "usage/" + day + ".csv"
	}
	if names, n := l.Objects(); !slices.Equal(names, want) || n != puts {
		l.t.Errorf("%s: %v by %d puts, want %v by %d", about, names, n, want, puts)
	}
}

// at is a time in November 2026.
func at(day, hour, minute int) time.Time {
	return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC)
}

const head = "project,key,model,requests,input_tokens,cached_tokens,cache_write_tokens,output_tokens,reasoning_tokens,cost_usd,provider_cost_usd,refused,saved_usd,full_price_usd\n"

// TestB16TheUsageOfEachDayIsInTheObjectStore, once the day is over and requests in flight are charged: also days before the export was configured, and days on
// which the gateway or the store was down. The store verifies each signature.
func TestB16TheUsageOfEachDayIsInTheObjectStore(t *testing.T) {
	l := newLab(t)
	l.spend(at(26, 0, 0), "alice", 3*policy.USD)
	l.spend(at(26, 23, 59), "alice", policy.USD/2)
	l.spend(at(26, 12, 0), "bob", policy.USD)
	l.spend(at(27, 0, 0), "bob", 9*policy.USD)
	const prefix = "of/bardo-1_"
	l.exports(at(27, 0, 14))
	l.has("before the last charges", prefix, 7, "2026-11-19", "2026-11-20", "2026-11-21", "2026-11-22", "2026-11-23", "2026-11-24", "2026-11-25")
	l.Refuse(1)
	if err := l.export(at(27, 0, 15)); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("refused: %v", err)
	}
	l.exports(at(27, 0, 16))
	l.exports(at(27, 23, 0))
	names, puts := l.Objects()
	if last := names[len(names)-1]; puts != 8 || last != prefix+"usage/2026-11-26.csv" {
		t.Errorf("%v by %d puts", names, puts)
	}
	want := head + ",alice,m,2,14,0,0,0,0,3.500000,0,0,0.000000,3.500000\n,bob,m,1,7,0,0,0,0,1.000000,0,0,0.000000,1.000000\n"
	if got := l.Object(prefix + "usage/2026-11-26.csv"); got != want {
		t.Errorf("the day before:\n%s\nwant\n%s", got, want)
	}
	if got := l.Object(prefix + "usage/2026-11-25.csv"); got != head {
		t.Errorf("a day without usage: %q", got)
	}
	l.exports(at(30, 1, 0)) // three days of downtime
	if names, puts := l.Objects(); puts != 11 || len(names) != 11 || !strings.Contains(l.Object(prefix+"usage/2026-11-27.csv"), "9.000000") {
		t.Errorf("after three days: %v by %d puts", names, puts)
	}
	l.cfg.Telemetry.ObjectStore.Prefix = ""
	l.exports(at(30, 2, 0))
	if names, puts := l.Objects(); puts != 18 || names[0] != prefix+"usage/2026-11-19.csv" || names[len(names)-1] != "usage/2026-11-29.csv" {
		t.Errorf("with another prefix: %v by %d puts", names, puts)
	}
}

// TestB16WhatIsChargedToADayLaterIsInItsObject, when the next day is exported, for a week; a day whose usage did not change is put once.
func TestB16WhatIsChargedToADayLaterIsInItsObject(t *testing.T) {
	l := newLab(t)
	l.cfg.Telemetry.ObjectStore.Prefix = ""
	l.spend(at(20, 9, 0), "alice", policy.USD)
	l.exports(at(21, 1, 0))
	_, first := l.Objects()
	l.spend(at(20, 23, 59), "alice", 2*policy.USD)
	l.exports(at(21, 2, 0)) // no day has ended since
	if _, puts := l.Objects(); puts != first {
		t.Errorf("%d puts before the next day, want %d", puts, first)
	}
	l.Refuse(1)
	if err := l.export(at(22, 1, 0)); err == nil || !strings.Contains(err.Error(), "usage of 2026-11-20") {
		t.Errorf("refused: %v", err)
	}
	for day := 22; day < 30; day++ {
		l.exports(at(day, 2, 0))
	}
	if _, puts := l.Objects(); puts != first+1+8 {
		t.Errorf("%d puts, want the late day again and eight days", puts-first)
	}
	if got := l.Object("usage/2026-11-20.csv"); !strings.Contains(got, ",alice,m,2,14,0,0,0,0,3.000000,") {
		t.Errorf("the late day:\n%s", got)
	}
	l.spend(at(20, 12, 0), "bob", policy.USD) // more than a week late
	l.spend(at(23, 12, 0), "bob", policy.USD) // a week late
	l.exports(at(30, 2, 0))
	if a, b := l.Object("usage/2026-11-20.csv"), l.Object("usage/2026-11-23.csv"); strings.Contains(a, "bob") || !strings.Contains(b, "bob") {
		t.Errorf("after a week:\n%s\n%s", a, b)
	}
	b, err := os.ReadFile(filepath.Join(string(l.home), "objectstore.json"))
	if n := strings.Count(string(b), `"2026-`); err != nil || n > 10 {
		t.Errorf("%d days are kept, %v: %s", n, err, b)
	}
}

// TestB16AStoreThatRefusesGetsTheDayLater: a day that the store rejected does not count as stored, and no error contains a secret.
func TestB16AStoreThatRefusesGetsTheDayLater(t *testing.T) {
	for about, row := range map[string]struct {
		change func(l *lab, s *config.ObjectStore)
		want   string
	}{
		"another secret": {func(_ *lab, s *config.ObjectStore) { s.SecretKey = secret.New("PLANTED-other") }, "SignatureDoesNotMatch"},
		"another key":    {func(_ *lab, s *config.ObjectStore) { s.AccessKey = secret.New("PLANTED-other") }, "InvalidAccessKeyId"},
		"another region": {func(_ *lab, s *config.ObjectStore) { s.Region = "us-east-1" }, "InvalidAccessKeyId"},
		"another bucket": {func(_ *lab, s *config.ObjectStore) { s.Bucket = "none" }, "NoSuchBucket"},
		"another clock": {func(l *lab, _ *config.ObjectStore) {
			l.clock, l.Now = false, func() time.Time { return at(27, 3, 0) }
		}, "RequestTimeTooSkewed"},
		"nobody who hears": {func(_ *lab, s *config.ObjectStore) { s.Endpoint.Host = "127.0.0.1:1" }, "connect"},
	} {
		l := newLab(t)
		l.spend(at(26, 12, 0), "alice", policy.USD)
		usual := l.cfg.Telemetry.ObjectStore
		row.change(l, &l.cfg.Telemetry.ObjectStore)
		err := l.export(at(27, 1, 0))
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "PLANTED-other") || strings.Contains(err.Error(), s3test.Secret) {
			t.Errorf("%s: %v", about, err)
		}
		l.has(about, "", 0)
		l.cfg.Telemetry.ObjectStore, l.clock = usual, true
		l.exports(at(27, 1, 1))
		if _, puts := l.Objects(); puts != 7 {
			t.Errorf("%s: %d puts afterwards", about, puts)
		}
	}
}

// TestB16WithoutAnObjectStoreNothingIsExported, and no state is written.
func TestB16WithoutAnObjectStoreNothingIsExported(t *testing.T) {
	l := newLab(t)
	l.cfg.Telemetry.ObjectStore.Endpoint = config.URL{}
	l.exports(at(27, 1, 0))
	l.has("without an endpoint", "", 0)
}
