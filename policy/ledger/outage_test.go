package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
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
	if err := l.writer.between(func(b *book) error { b.hook = f.hook; return nil }); err != nil {
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

func wantWritten(t testing.TB, l *Ledger) {
	t.Helper()
	eventually(t, "the store is written again", func() bool { return l.Writable() == nil })
	if u := l.Unwritten(); u.Charges != 0 {
		t.Errorf("%s wait", u)
	}
}

func TestD82AFailedCommitClosesTheLedgerUntilItIsWrittenAgain(t *testing.T) {
	outages := make(chan Outage, 2)
	l, f := breakableWith(t, storePath(t), Options{Now: func() time.Time { return monday }, Outage: func(o Outage) { outages <- o }})
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "paid", usd)
	f.set(errFull)
	if r := capture(t, l, h, usd/2); r != (Receipt{Charged: usd / 2, Balance: 5*usd - usd/2, Late: true}) {
		t.Errorf("%+v", r)
	}
	wantUnwritable(t, l, reasonFull)
	if err := l.Record(Charge{RequestID: "metered", Account: "m", Amount: usd}); err != nil {
		t.Error(err)
	}
	for id, key := range map[string]policy.Account{"paid": "k", "metered": "m"} {
		if r, err := l.Request(t.Context(), key, id); err != nil || r.Charged != r.Amount {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if u := l.Unwritten(); u.Charges != 2 || u.Amount != 3*usd/2 || u.InMemory.Charges != 0 {
		t.Errorf("%s wait", u)
	}
	if b, err := l.Balance(t.Context(), "k"); err != nil || b.Amount != 5*usd || b.Held != usd {
		t.Errorf("the reserve is not held: %+v, %v", b, err)
	}
	f.set(nil)
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 9 * usd / 2, Available: 9 * usd / 2})
	wantBlockMatchesMemory(t, l, "k")
	if rows, err := l.Usage(t.Context(), Filter{}, ByDay); err != nil || len(rows) != 1 || rows[0].Requests != 2 || rows[0].Cost != 3*usd/2 {
		t.Errorf("%+v, %v", rows, err)
	}
	if begun, over := <-outages, <-outages; begun.Ended || !over.Ended || over.Written != 2 {
		t.Errorf("told %+v and %+v, want a beginning and an end", begun, over)
	}
	wantClean(t, l)
}

func TestD82WhatNeedsTheStoreIsUnavailableDuringAnOutage(t *testing.T) {
	l, f := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	f.set(errFull)
	_, reserved := l.Reserve(t.Context(), "k", "r", usd)
	if h, err := l.Reserve(t.Context(), "k", "free", 0); err != nil {
		t.Errorf("a request that costs nothing: %v", err)
	} else if _, err := l.Capture(t.Context(), h, Charge{}); err != nil {
		t.Errorf("a request that costs nothing: %v", err)
	}
	_, deposited := l.Deposit(t.Context(), "k", usd, "d")
	for what, err := range map[string]error{
		"reserve": reserved, "deposit": deposited, "create": l.CreateKey(t.Context(), KeyRow{ID: "n"}, 0), "drop": l.Drop(t.Context(), "x"),
	} {
		if f := fault.From(err); f.Kind != fault.Unavailable || f.HTTPStatus() != 503 || f.RetryAfter <= 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if sum, err := l.SpentSince(t.Context(), "k", time.Now()); err != nil || sum != 0 {
		t.Errorf("spent: %s, %v", sum, err)
	}
	if _, err := l.SpentByPart(t.Context(), "k", "", time.Now()); err != nil {
		t.Errorf("spent by part: %v", err)
	}
	if err := l.Keep(t.Context(), Kept{ID: "file-1", Account: "k", Provider: "p"}); err != nil {
		t.Error(err)
	}
	if k, ok, err := l.Kept(t.Context(), "file-1"); err != nil || !ok || k.Account != "k" {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	f.set(nil)
	wantWritten(t, l)
	if k, ok, err := tool(t, l.Path()).Kept(t.Context(), "file-1"); err != nil || !ok || k.Account != "k" {
		t.Errorf("afterwards: %+v, %v, %v", k, ok, err)
	}
	reserve(t, l, "k", "r", usd)
}

func TestAMistakeInAChangeIsNoOutage(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	for what, err := range map[string]error{
		"a key that exists":  l.CreateKey(t.Context(), KeyRow{ID: "k"}, 0),
		"a balance too low":  l.UpdateKey(t.Context(), "k", func(k *KeyRow) error { k.Credit = -1; return nil }),
		"an unknown key":     errorOf(l.Deposit(t.Context(), "nobody", usd, "d")),
		"what a caller says": l.UpdateKey(t.Context(), "k", func(*KeyRow) error { return errMine }),
	} {
		if err == nil || isUnwritable(err) {
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
		err := l.writer.between(func(b *book) error {
			var n int
			return b.row("PRAGMA max_page_count = " + limit).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pages("1") // it becomes what the store has
	if _, err := l.Capture(t.Context(), h, Charge{Amount: usd, Record: make([]byte, 1<<20)}); err != nil {
		t.Fatal(err)
	}
	wantUnwritable(t, l, reasonFull)
	pages("1000000")
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

func TestD82ALockThatAnotherProcessHolds(t *testing.T) {
	path := storePath(t)
	l, _ := breakable(t, path)
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	unlock := lockStore(t, path)
	capture(t, l, h, usd)
	wantUnwritable(t, l, reasonLocked)
	unlock()
	wantWritten(t, l)
	wantClean(t, l)
}

// lockStore takes SQLite's write lock as another program would.
func lockStore(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite3", dsn(path, nil))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err == nil {
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
	wantUnwritable(t, l, reasonGone)
	if err := os.Rename(dir+".gone", dir); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

// TestD82AFolderThatWasDeletedAndIsRestored: another file lies there than the gateway had open, and it goes on with that.
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
	wantUnwritable(t, l, reasonGone)
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
	if len(must(spillFiles(path))) != 1 {
		t.Error("the gateway has no spill file there")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		v = *new(T)
	}
	return v
}

func TestD82AStoreThatIsReadOnly(t *testing.T) {
	outages := make(chan Outage, 2)
	l, _ := breakableWith(t, storePath(t), Options{Outage: func(o Outage) { outages <- o }})
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	if err := l.writer.between(func(b *book) error { return b.do("PRAGMA query_only = on") }); err != nil {
		t.Fatal(err)
	}
	capture(t, l, h, usd)
	if o := <-outages; o.Err == nil || o.Err.Reason != reasonReadOnly {
		t.Errorf("%+v, want the beginning of an outage: %s", o, reasonReadOnly)
	}
	wantWritten(t, l) // on another connection
	wantClean(t, l)
}

func TestD82TooManyWaitingChargesAreRefused(t *testing.T) {
	l, f := breakable(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", usd)
	first := reserve(t, l, "k", "first", usd)
	f.set(errFull)
	capture(t, l, first, usd)
	l.writer.backlog.mu.Lock()
	l.writer.backlog.bytes = backlogBytes
	l.writer.backlog.mu.Unlock()
	if _, err := l.Capture(t.Context(), h, Charge{Amount: usd}); fault.From(err).Kind != fault.Unavailable {
		t.Errorf("%v", err)
	}
	if err := l.Record(Charge{RequestID: "m", Amount: 1}); err != nil && fault.From(err).Kind != fault.Unavailable {
		t.Errorf("%v", err)
	}
	l.Release(h) // its answer was not delivered
	f.set(nil)
	wantWritten(t, l)
	wantBalance(t, l, "k", Balance{Prepaid: true, Amount: 4 * usd, Available: 4 * usd})
	wantClean(t, l)
}

// crash ends a gateway as SIGKILL does, in the middle of an outage: what waits is in the spill file or lost.
func crash(t testing.TB, l *Ledger, f *faulty) {
	t.Helper()
	f.set(errFull)
	kill(t, l)
}

func TestD82ChargesInTheSpillFileOutliveACrash(t *testing.T) {
	for name, adopt := range map[string]func(t *testing.T, path string){
		"whoever opens next": func(t *testing.T, path string) { t.Helper(); tool(t, path) },
		"a gateway that runs beside it": func(t *testing.T, path string) {
			t.Helper()
			eventually(t, "it writes them", func() bool { return len(must(spillFiles(path))) == 1 })
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
			if err != nil || r.OK || r.Unwritten.Charges != 2 || r.Unwritten.Amount != 2*usd {
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

func TestASpillFileIsReadUpToWhatIsWhole(t *testing.T) {
	store := storePath(t)
	s, err := createSpill(store, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	some := func(ids ...string) (notes []*note) {
		for _, id := range ids {
			notes = append(notes, &note{Charge: &Charge{RequestID: id, Amount: 3, At: monday}, Prepaid: true, Hold: 2})
		}
		return notes
	}
	want := func(what, ids string) {
		t.Helper()
		notes, err := s.notes()
		var have []string
		for _, n := range notes {
			if n.Charge.Amount != 3 || !n.Prepaid || n.Hold != 2 || !n.Charge.At.Equal(monday) {
				t.Errorf("%s: %+v", what, n.Charge)
			}
			have = append(have, n.Charge.RequestID)
		}
		if err != nil || strings.Join(have, " ") != ids {
			t.Errorf("%s: %v, %v, want %s", what, have, err, ids)
		}
	}
	want("empty", "")
	if err := errors.Join(s.add(some("a", "b")), s.add(some("c"))); err != nil {
		t.Fatal(err)
	}
	want("two records", "a b c")
	if _, err := s.file.WriteAt([]byte{0xff}, s.end-1); err != nil {
		t.Fatal(err)
	}
	want("the last one damaged", "a b")
	if err := errors.Join(s.reset(), s.add(some("d"))); err != nil {
		t.Fatal(err)
	}
	want("in a new epoch", "d")
	if _, err := s.file.WriteAt([]byte("x"), 12); err != nil {
		t.Fatal(err)
	}
	want("a header that is damaged", "")
	if info, err := s.file.Stat(); err != nil || info.Size() < spillReserved {
		t.Logf("no space is reserved here: %v, %v", info.Size(), err)
	}
}

func TestASpillFileOfAnotherStoreIsKept(t *testing.T) {
	path := storePath(t)
	s, err := createSpill(path, 9)
	if err == nil {
		err = errors.Join(s.add([]*note{{Charge: &Charge{RequestID: "r", Account: "stranger", Amount: usd, At: monday}, Prepaid: true}}), s.close())
	}
	if err != nil {
		t.Fatal(err)
	}
	l := gateway(t, path)
	r, err := l.Audit(t.Context())
	if err != nil || r.OK {
		t.Errorf("audit: %+v, %v", r, err)
	}
	b, err := os.ReadFile(spillOf(path, 9) + refusedSuffix)
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
