package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
)

// faulty fails the commits of a gateway while its error is set.
type faulty struct{ err atomic.Pointer[error] }

func (f *faulty) set(err error) { f.err.Store(&err) }

func (f *faulty) hook() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// breakable is a gateway whose commits a test can fail.
func breakable(t testing.TB, path string) (*Ledger, *faulty) {
	t.Helper()
	return breakableWith(t, path, Options{})
}

func breakableWith(t testing.TB, path string, o Options) (*Ledger, *faulty) {
	t.Helper()
	o.Gateway, o.IdleReturn = true, time.Hour
	l := openWith(t, path, o)
	f := &faulty{}
	if err := l.between(func(b *book) error { b.Hook = f.hook; return nil }); err != nil {
		t.Fatal(err)
	}
	return l, f
}

var errFull = sqlite3.Error{Code: sqlite3.ErrFull}

func wantUnwritable(t testing.TB, l *Ledger, reason string) {
	t.Helper()
	var u *UnwritableError
	if err := l.Writable(); !errors.As(err, &u) || u.Reason != reason {
		t.Errorf("%v, want an UnwritableError: %s", err, reason)
	}
}

// wantStoreFails waits until the gateway has detected why its store cannot be written, and checks that charges are still safe. A busy database may seem silent at
// first; the next attempt finds the reason.
func wantStoreFails(t testing.TB, l *Ledger, reason string) {
	t.Helper()
	eventually(t, "the gateway notices: "+reason, func() bool { f := l.StoreFailure(); return f != nil && f.Reason == reason })
	if err := l.Writable(); err != nil {
		t.Error(err)
	}
}

// isEmpty reports whether the store has everything.
func (p *pending) isEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests)+len(p.resources) == 0
}

// wantWritten waits until all entries are in the store.
func wantWritten(t testing.TB, l *Ledger) {
	t.Helper()
	eventually(t, "everything is written", func() bool {
		return l.Writable() == nil && l.StoreFailure() == nil && l.pending.isEmpty()
	})
}

// faultyLog fails the writes and syncs of a gateway's charge log while its errors are set.
type faultyLog struct {
	mu          sync.Mutex
	write, sync error
}

func (f *faultyLog) set(write, sync error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.write, f.sync = write, sync
}

func (f *faultyLog) wrap(file *os.File) chargelog.File { return faultyFile{file, f} }

type faultyFile struct {
	*os.File

	fault *faultyLog
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.write != nil {
		return 0, f.fault.write
	}
	return f.File.WriteAt(b, at)
}

func (f faultyFile) Sync() error {
	f.fault.mu.Lock()
	defer f.fault.mu.Unlock()
	if f.fault.sync != nil {
		return f.fault.sync
	}
	return f.File.Sync()
}

func TestD83AStoreThatCannotBeWrittenIsNoOutage(t *testing.T) {
	path := storePath(t)
	l, f := breakable(t, path)
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "paid", usd/2)
	f.set(errFull)
	if r := capture(t, l, h, usd/2); r != (Receipt{Charged: usd / 2, Balance: 5*usd - usd/2}) {
		t.Errorf("%+v", r)
	}
	if err := l.Record(Charge{RequestID: "metered", Account: "m", Amount: usd}); err != nil {
		t.Error(err)
	}
	wantStoreFails(t, l, store.Full)
	if err := errors.Join(l.AddStoredResources(t.Context(), StoredResource{ID: "file-1", Account: "k", Provider: "p"})); err != nil {
		t.Error(err)
	}
	capture(t, l, reserve(t, l, "k", "from the block", usd/100), usd/100)
	if u := l.Unwritten(); u.Charges != 3 || u.Amount != 151*usd/100 || u.InMemory.Charges != 0 {
		t.Errorf("%s wait", u)
	}
	for _, reader := range []*Ledger{l, tool(t, path)} {
		wantUnappliedSeen(t, reader)
	}
	f.set(nil)
	wantWritten(t, l)
	wantUnappliedSeen(t, l)
	wantBlockMatchesMemory(t, l, "k")
	if k, ok, err := tool(t, path).StoredResource(t.Context(), "file-1"); err != nil || !ok || k.Account != "k" {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
}

// wantUnappliedSeen checks that reads include the charges of the test above, whether they are in the store or not.
func wantUnappliedSeen(t *testing.T, l *Ledger) {
	t.Helper()
	const left = 449 * usd / 100
	if b, err := l.Balance(t.Context(), "k"); err != nil || b.Amount != left || b.Amount-b.Held != b.Available {
		t.Errorf("%+v, %v, want a balance of %s", b, err, left)
	}
	for id, key := range map[string]policy.Account{"paid": "k", "metered": "m"} {
		if r, err := l.Request(t.Context(), key, id); err != nil || r.Charged != r.Amount || r.Amount == 0 {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if rows, err := l.Usage(t.Context(), Filter{}, ByDay); err != nil || len(rows) != 1 || rows[0].Requests != 3 || rows[0].Cost != 151*usd/100 {
		t.Errorf("%+v, %v", rows, err)
	}
	if rows, err := l.Requests(t.Context(), RequestFilter{Account: "k"}); err != nil || len(rows) != 2 || rows[1].RequestID != "paid" || rows[1].Charged != usd/2 {
		t.Errorf("%+v, %v", rows, err)
	}
	wantClean(t, l)
}

func TestD83WhatNeedsTheStoreFailsWithoutIt(t *testing.T) {
	l, f := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	f.set(errFull)
	_, reserved := l.Reserve(t.Context(), "k", "r", usd)
	_, deposited := l.Deposit(t.Context(), "k", usd, "d")
	for what, err := range map[string]error{
		"reserve": reserved, "deposit": deposited, "create": l.CreateKey(t.Context(), KeyRow{ID: "n"}, 0), "drop": l.RemoveStoredResource(t.Context(), "x"),
	} {
		if f := fault.From(err); f.Kind != fault.Unavailable || f.HTTPStatus() != 503 || f.RetryAfter <= 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if h, err := l.Reserve(t.Context(), "k", "free", 0); err != nil {
		t.Errorf("a request that costs nothing: %v", err)
	} else if _, err := l.Capture(t.Context(), h, Charge{}); err != nil {
		t.Errorf("a request that costs nothing: %v", err)
	}
	if sum, err := l.SpentSince(t.Context(), "k", time.Now()); err != nil || sum != 0 {
		t.Errorf("spent: %s, %v", sum, err)
	}
	if _, err := l.SpentByPart(t.Context(), "k", "", time.Now()); err != nil {
		t.Errorf("spent by part: %v", err)
	}
	f.set(nil)
	wantWritten(t, l)
	reserve(t, l, "k", "r", usd)
}

// TestD83AChargeAboveItsHoldWithoutTheStore: the balance pays for it when it is applied.
func TestD83AChargeAboveItsHoldWithoutTheStore(t *testing.T) {
	l, f := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	f.set(errFull)
	if r := capture(t, l, h, 6*usd); r != (Receipt{Charged: 6 * usd, Balance: -usd, Late: true}) {
		t.Errorf("%+v", r)
	}
	wantBalance(t, l, "k", Balance{Prepaid: true, Blocked: true})
	f.set(nil)
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Blocked: true})
	wantClean(t, l)
}

func TestD82ALogThatFailsClosesTheLedger(t *testing.T) {
	for name, faults := range map[string]struct{ write, sync error }{
		"at a write": {write: syscall.ENOSPC}, "at a sync": {sync: syscall.EIO},
	} {
		t.Run(name, func(t *testing.T) {
			outages := make(chan Outage, 2)
			var fault faultyLog
			path := storePath(t)
			l, store := breakableWith(t, path, Options{Outage: func(o Outage) { outages <- o }, charges: chargelog.Options{Wrap: fault.wrap}})
			withKey(t, l, "k", 5*usd)
			h := reserve(t, l, "k", "paid", usd)
			store.set(errFull)
			fault.set(faults.write, faults.sync)
			capture(t, l, h, usd/2)
			if o := <-outages; o.Ended {
				t.Errorf("%+v, want the beginning of an outage", o)
			}
			if _, err := l.Reserve(t.Context(), "k", "next", 1); !commit.IsUnwritable(err) {
				t.Errorf("reserve: %v", err)
			}
			if _, ok := l.ReserveNow("k", "next", 1); ok {
				t.Error("a request is served although its charge cannot be written")
			}
			if u := l.Unwritten(); u.Charges != 1 || (u.InMemory.Charges == 1) != (faults.write != nil) {
				t.Errorf("%s wait", u)
			}
			wantChargedOnceOrWaiting(t, l)
			fault.set(nil, nil) // the store still fails
			if o := <-outages; !o.Ended {
				t.Errorf("%+v, want the end of the outage", o)
			}
			wantClean(t, tool(t, path))
			crash(t, l, store)
			wantBalance(t, tool(t, path), "k", Balance{Prepaid: true, Amount: 9 * usd / 2, Available: 9 * usd / 2})
		})
	}
}

func wantChargedOnceOrWaiting(t *testing.T, l *Ledger) {
	t.Helper()
	if r, err := l.Request(t.Context(), "k", "paid"); err != nil || r.Charged != usd/2 {
		t.Errorf("%+v, %v", r, err)
	}
	if b, err := l.Balance(t.Context(), "k"); err != nil || b.Amount != 9*usd/2 {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestD83ADurableChargeWaitsForTheDisk: while nothing is synced no Capture returns.
func TestD83ADurableChargeWaitsForTheDisk(t *testing.T) {
	var fault faultyLog
	l := openWith(t, storePath(t), Options{Gateway: true, Durable: true, Sync: time.Hour, charges: chargelog.Options{Wrap: fault.wrap}})
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	capture(t, l, h, usd)
	if log := l.writer.Log(); log.Synced() != log.End() {
		t.Errorf("%d of %d bytes are on disk", log.Synced(), log.End())
	}
	fault.set(nil, syscall.EIO)
	capture(t, l, reserve(t, l, "k", "s", usd), usd)
	wantUnwritable(t, l, store.DiskFails)
	fault.set(nil, nil)
	wantWritten(t, l)
}

// TestWhatABlockHasIsKeptWhileTheStoreIsAway: a request above the block is refused, and smaller ones are served.
func TestWhatABlockHasIsKeptWhileTheStoreIsAway(t *testing.T) {
	l, f := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	l.Release(reserve(t, l, "k", "has a block", usd/8))
	f.set(errFull)
	for range 2 {
		if _, err := l.Reserve(t.Context(), "k", "more than the block has", 4*usd); !commit.IsUnwritable(err) {
			t.Errorf("%v", err)
		}
	}
	capture(t, l, reserve(t, l, "k", "what it has", usd/8), usd/8)
	f.set(nil)
	wantWritten(t, l)
	wantBlockMatchesMemory(t, l, "k")
	wantClean(t, l)
}

func TestAMistakeInAChangeIsNoOutage(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	for what, err := range map[string]error{
		"a key that exists":      l.CreateKey(t.Context(), KeyRow{ID: "k"}, 0),
		"a balance too low":      l.UpdateKey(t.Context(), "k", func(k *KeyRow) error { k.Credit = -1; return nil }),
		"an unknown key":         errorOf(l.Deposit(t.Context(), "nobody", usd, "d")),
		"an error of the caller": l.UpdateKey(t.Context(), "k", func(*KeyRow) error { return errMine }),
	} {
		if err == nil || commit.IsUnwritable(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.Writable(); err != nil {
		t.Error(err)
	}
}

func errorOf[T any](_ T, err error) error { return err }

// TestD82AStoreOfItsGreatestSizeIsFull is SQLite's own refusal to grow.
func TestD82AStoreOfItsGreatestSizeIsFull(t *testing.T) {
	l, _ := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	pages := func(limit string) {
		t.Helper()
		err := l.between(func(b *book) error {
			var n int
			return b.Row("PRAGMA max_page_count = " + limit).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pages("1") // it becomes what the store has
	if _, err := l.Capture(t.Context(), h, Charge{Amount: usd, Record: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	wantStoreFails(t, l, store.Full)
	pages("1000000")
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

func TestD82ALockThatAnotherProcessHolds(t *testing.T) {
	t.Parallel()
	path := storePath(t)
	if inPostgres(t) {
		path += "&lock_timeout=500ms"
	}
	l, _ := breakable(t, path)
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	unlock := lockStore(t, path)
	capture(t, l, h, usd)
	wantStoreFails(t, l, store.Locked)
	unlock()
	wantWritten(t, l)
	wantClean(t, l)
}

// lockStore takes SQLite's write lock as another program would, once the gateway's transactions have ended, however long they take.
func lockStore(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db := raw(t, path)
	conn, err := db.Conn(t.Context())
	if err == nil && inPostgres(t) {
		_, err = conn.ExecContext(t.Context(), "SET lock_timeout = 0; BEGIN; UPDATE ledger SET changes = changes + 1")
	} else if err == nil {
		_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		_, err := conn.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestD82AFolderThatWasMovedAwayAndComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, _ := breakable(t, filepath.Join(dir, "bardo.db"))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	if err := os.Rename(dir, dir+".gone"); err != nil {
		t.Fatal(err)
	}
	capture(t, l, h, usd)
	eventually(t, "it is noticed", func() bool { return l.Writable() != nil })
	wantUnwritable(t, l, store.Missing)
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

// TestD82AFolderThatWasDeletedAndIsRestored: there is another file than the gateway had open, which it uses from then on.
func TestD82AFolderThatWasDeletedAndIsRestored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "bardo.db")
	l, _ := breakable(t, path)
	withKey(t, l, "k", 5*usd)
	backup := filepath.Join(t.TempDir(), "backup.db")
	change(t, path, `VACUUM INTO '`+backup+`'`)
	h := reserve(t, l, "k", "r", usd)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is noticed without a request", func() bool { return l.Writable() != nil })
	wantUnwritable(t, l, store.Missing)
	capture(t, l, h, usd)
	b, err := os.ReadFile(backup)
	if err := errors.Join(err, os.Mkdir(dir, 0o700), os.WriteFile(path+".new", b, 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, l)
	eventually(t, "what the backup held for a gateway is given back", func() bool {
		b, err := l.Balance(t.Context(), "k")
		return err == nil && b == Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd}
	})
	capture(t, l, reserve(t, l, "k", "afterwards", usd), usd)
	wantClean(t, l)
	if len(must(chargelog.List(path))) != 1 {
		t.Error("the gateway has no charge log there")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		v = *new(T)
	}
	return v
}

func TestD82AStoreThatIsReadOnly(t *testing.T) {
	l, _ := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	if err := l.between(func(b *book) error { return b.Do("PRAGMA query_only = on") }); err != nil {
		t.Fatal(err)
	}
	capture(t, l, h, usd)
	wantWritten(t, l) // on another connection
	wantClean(t, l)
}

func TestD82TooManyWaitingChargesAreRefused(t *testing.T) {
	const limit = 10_000 // bytes
	l, f := breakableWith(t, storePath(t), Options{maxBacklog: limit})
	withKey(t, l, "k", 5*usd)
	h, second, third := reserve(t, l, "k", "r", usd/10), reserve(t, l, "k", "second", usd/10), reserve(t, l, "k", "third", usd/10)
	f.set(errFull)
	half := Charge{Amount: usd / 10, Record: make([]byte, limit/2)}
	if _, err := l.Capture(t.Context(), h, half); err != nil {
		t.Fatal(err)
	}
	wantUnwritable(t, l, commit.ReasonBacklog)
	if _, err := l.Capture(t.Context(), second, half); err != nil { // it was in flight
		t.Fatal(err)
	}
	if _, err := l.Capture(t.Context(), third, Charge{Amount: usd / 10}); fault.From(err).Kind != fault.Unavailable {
		t.Errorf("%v", err)
	}
	if err := l.Record(Charge{RequestID: "m", Amount: 1}); fault.From(err).Kind != fault.Unavailable {
		t.Errorf("%v", err)
	}
	l.Release(third) // its answer was not delivered
	f.set(nil)
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 48 * usd / 10, Available: 48 * usd / 10})
	wantClean(t, l)
}

// crash ends a gateway as SIGKILL does, during an outage of the store.
func crash(t testing.TB, l *Ledger, f *faulty) {
	t.Helper()
	f.set(errFull)
	kill(t, l)
}

func TestD83ChargesInTheLogOutliveACrash(t *testing.T) {
	for name, adopt := range map[string]func(t *testing.T, path string){
		"the next process that opens the store": func(t *testing.T, path string) { t.Helper(); tool(t, path) },
		"a gateway that runs beside it": func(t *testing.T, path string) {
			t.Helper()
			eventually(t, "it writes them", func() bool { return len(must(chargelog.List(tool(t, path).Path()))) == 1 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := storePath(t)
			if strings.HasPrefix(name, "a gateway") {
				sharing(t, path)
			}
			l, f := breakable(t, path)
			withKey(t, l, "k", 5*usd)
			h := reserve(t, l, "k", "paid", usd)
			reserve(t, l, "k", "left open", usd/8)
			f.set(errFull)
			capture(t, l, h, usd)
			if err := l.Record(Charge{RequestID: "metered", Account: "m", Amount: usd}); err != nil {
				t.Fatal(err)
			}
			cli := tool(t, path)
			r, err := cli.Audit(t.Context())
			if err != nil || !r.OK || r.Unwritten.Charges != 2 || r.Unwritten.Amount != 2*usd {
				t.Errorf("audit: %+v, %v", r, err)
			}
			crash(t, l, f)
			adopt(t, path)
			cli = tool(t, path)
			wantClean(t, cli)
			wantBalance(t, cli, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
			wantChargedOnce(t, cli, acknowledged{"k", "paid", usd})
			if r, err := cli.Request(t.Context(), "m", "metered"); err != nil || r.Charged != usd {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestALogOfAnotherStoreIsKept(t *testing.T) {
	path := storePath(t)
	files := tool(t, path).Path()
	log, err := chargelog.Create(chargelog.PrefixOf(files, 9), chargelog.Options{})
	if err == nil {
		_, err = log.Append(&chargelog.Entry{Charge: &Charge{RequestID: "r", Account: "stranger", Amount: usd, At: monday}, Prepaid: true, Paid: usd})
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	l := gateway(t, path)
	r, err := l.Audit(t.Context())
	if err != nil || r.OK {
		t.Errorf("audit: %+v, %v", r, err)
	}
	b, err := os.ReadFile(chargelog.PrefixOf(files, 9) + chargelog.RefusedSuffix)
	if err != nil || !strings.Contains(string(b), "stranger") || !strings.Contains(string(b), ErrUnknownKey.Error()) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestReadYourWritesOfRecordsThatAreWrittenBehind(t *testing.T) {
	l := openWith(t, storePath(t), Options{Gateway: true, Flush: time.Hour})
	for i := range 100 {
		c := Charge{RequestID: fmt.Sprint(i), Account: "m", Amount: usd, Record: []byte(`{}`), At: monday}
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
		if r, err := l.Request(t.Context(), "m", c.RequestID); err != nil || r.Charged != usd || string(r.Record) != `{}` {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := l.Request(t.Context(), "other", c.RequestID); !errors.Is(err, ErrUnknownRequest) {
			t.Fatalf("another account's: %v", err)
		}
	}
}

// TestAReadThatTheStoreDoesNotAnswerIsUnavailable, also the first one, before the gateway has detected the outage.
func TestAReadThatTheStoreDoesNotAnswerIsUnavailable(t *testing.T) {
	l := openWith(t, filepath.Join(t.TempDir(), "ledger.db"), Options{})
	withKey(t, l, "k", usd)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for what, read := range map[string]func() error{
		"key":       func() error { _, _, err := l.Key(ctx, "k"); return err },
		"keys":      func() error { _, err := l.Keys(ctx); return err },
		"deposited": func() error { _, err := l.Deposited(ctx, "k", "ref"); return err },
		"balance":   func() error { _, err := l.Balance(ctx, "k"); return err },
		"requests":  func() error { return l.EachRequest(ctx, RequestFilter{}, func(*Request) error { return nil }) },
	} {
		if f := fault.From(read()); f.Kind != fault.Unavailable || f.RetryAfter == 0 {
			t.Errorf("%s: %v", what, f)
		}
	}
}
