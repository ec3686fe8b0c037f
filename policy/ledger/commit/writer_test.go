package commit

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/postgres"
	"bardo.money/gateway/policy/ledger/postgres/postgrestest"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

func TestMain(m *testing.M) {
	code := m.Run()
	postgrestest.StopShared()
	os.Exit(code)
}

// TestPostgres runs the tests on PostgreSQL too.
func TestPostgres(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"AChangeThatFailsIsRevertedAlone":              TestAChangeThatFailsIsRevertedAlone,
		"ALostTransactionFailsItsWholeGroup":           TestALostTransactionFailsItsWholeGroup,
		"ASingleChangeIsCommittedByItsSender":          TestASingleChangeIsCommittedByItsSender,
		"ChangesThatQueueDuringACommitAreOneGroup":     TestChangesThatQueueDuringACommitAreOneGroup,
		"EntriesWaitInTheLogUntilTheStoreCanBeWritten": TestEntriesWaitInTheLogUntilTheStoreCanBeWritten,
		"AFailedRecoveryKeepsEntriesAndFailsChanges":   TestAFailedRecoveryKeepsEntriesAndFailsChanges,
		"ARecoveryOfAnExpelledGatewayCommitsNothing":   TestARecoveryOfAnExpelledGatewayCommitsNothing,
		"TheLogKeepsEntriesThatAreNotApplied":          TestTheLogKeepsEntriesThatAreNotApplied,
		"TheLogOutlivesAWriterWhoseEntriesWait":        TestTheLogOutlivesAWriterWhoseEntriesWait,
		"ALogForAnotherStoreHasTheEntriesThatWait":     TestALogForAnotherStoreHasTheEntriesThatWait,
		"TooManyWaitingEntriesAreAnOutage":             TestTooManyWaitingEntriesAreAnOutage,
		"ALogThatTakesNoEntryIsAnOutage":               TestALogThatTakesNoEntryIsAnOutage,
		"AWriterWithoutALogTakesChangesOnly":           TestAWriterWithoutALogTakesChangesOnly,
		"AClosedLogHasTheEntriesThatWereInMemory":      TestAClosedLogHasTheEntriesThatWereInMemory,
		"EntriesAreCommittedInGroups":                  TestEntriesAreCommittedInGroups,
		"TheStoreIsTriedAgainAndAgain":                 TestTheStoreIsTriedAgainAndAgain,
		"TheEndOfAWriterTriesTheStoreOnceMore":         TestTheEndOfAWriterTriesTheStoreOnceMore,
		"OnlyEntriesThatTheStoreRefusesAreReported":    TestOnlyEntriesThatTheStoreRefusesAreReported,
		"ChangesThatAreAppliedTogetherAreAppliedOnce":  TestChangesThatAreAppliedTogetherAreAppliedOnce,
		"AnErrorOfAChangeIsNoOutage":                   TestAnErrorOfAChangeIsNoOutage,
	} {
		t.Run(name, test)
	}
}

// bookOf opens a new store, in PostgreSQL where TestPostgres runs the test.
func bookOf(t *testing.T) *store.Book {
	t.Helper()
	var d *store.Database
	var err error
	if strings.Contains(t.Name(), "Postgres/") {
		name := postgrestest.URL(t)
		u, failed := url.Parse(name)
		if failed != nil {
			t.Fatal(failed)
		}
		dir := filepath.Join(u.Query().Get("host"), "files-of-"+path.Base(u.Path))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		d, err = store.PostgreSQL(name, postgres.Connect, dir)
	} else {
		d, err = store.SQLite(filepath.Join(t.TempDir(), "bardo.db"))
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(t.Name(), "Postgres/") {
		b.State.Lease = &store.Lease{Length: time.Minute}
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// started returns a gateway's writer to a new store, which runs until the test ends.
func started(t *testing.T, o Options) *Writer {
	t.Helper()
	w := start(t, o)
	t.Cleanup(func() {
		w.Stop()
		if left, err := w.CloseLog(); err != nil || left.Charges > 0 {
			t.Errorf("%s wait, %v", left, err)
		}
	})
	return w
}

// start is started for a writer that the test ends.
func start(t *testing.T, o Options) *Writer {
	t.Helper()
	b := bookOf(t)
	o.Gateway = true
	w := New(b, usage.NewTally(), o)
	var err error
	if b.Instance, err = b.Join(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := w.PlaceLog(chargelog.PrefixOf(b.Path, b.Instance), true); err != nil {
		t.Fatal(err)
	}
	w.Start()
	return w
}

var errMine = errors.New("mine")

// asOneGroup runs changes in one commit, and returns their errors.
func asOneGroup(t *testing.T, w *Writer, changes ...func() error) []error {
	t.Helper()
	busy, begun := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.Do(func() error { close(begun); <-busy; return nil }, nil)
	}()
	<-begun
	ops := make([]*Op, len(changes))
	for i, change := range changes {
		ops[i] = &Op{Apply: change, reply: make(chan error, 1)}
		if _, err := w.send(ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	close(busy)
	errs := make([]error, len(ops))
	for i, o := range ops {
		errs[i] = <-o.reply
	}
	return errs
}

func addAccount(w *Writer, name string) func() error {
	return func() error {
		_, err := w.book.Exec(`INSERT INTO account (name) VALUES (?)`, name)
		return err
	}
}

// accounts are the names of the accounts that addAccount has added.
func accounts(t *testing.T, w *Writer) (names []string) {
	t.Helper()
	w.exclusive(func() {
		var err error
		names, err = store.ReadAll(t.Context(), w.book, store.Text, `SELECT name FROM account WHERE name NOT LIKE 'operator:%' ORDER BY name`)
		if err != nil {
			t.Error(err)
		}
	})
	return names
}

func wantAccounts(t *testing.T, w *Writer, want ...string) {
	t.Helper()
	if have := accounts(t, w); !slices.Equal(have, want) {
		t.Errorf("the accounts are %q, want %q", have, want)
	}
}

func TestAChangeThatFailsIsRevertedAlone(t *testing.T) {
	w := started(t, Options{})
	errs := asOneGroup(t, w, addAccount(w, "a"),
		func() error { return errors.Join(addAccount(w, "undone")(), errMine) },
		addAccount(w, "b"))
	if errs[0] != nil || !errors.Is(errs[1], errMine) || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	wantAccounts(t, w, "a", "b")
}

func TestALostTransactionFailsItsWholeGroup(t *testing.T) {
	w := started(t, Options{})
	errs := asOneGroup(t, w, addAccount(w, "a"),
		func() error { return errors.Join(w.book.Do("ROLLBACK"), errMine) }, // as SQLite does when the disk is full
		addAccount(w, "b"))
	for i, err := range errs {
		if err == nil {
			t.Errorf("change %d was acknowledged", i)
		}
	}
	wantAccounts(t, w)
	polltest.Until(t, "the store is tried again", func() bool { return w.StoreFailure() == nil })
	if errs := asOneGroup(t, w, addAccount(w, "c")); errs[0] != nil {
		t.Errorf("the writer did not recover: %v", errs[0])
	}
	wantAccounts(t, w, "c")
}

func TestASingleChangeIsCommittedByItsSender(t *testing.T) {
	w := New(bookOf(t), usage.NewTally(), Options{}) // its goroutine does not run
	if err := w.Do(addAccount(w, "a"), nil); err != nil {
		t.Fatal(err)
	}
	wantAccounts(t, w, "a")
}

func TestThoseWhoWaitForTheBookGetItBeforeLaterSenders(t *testing.T) {
	for name, wait := range map[string]func(*Writer){
		"to look":      func(w *Writer) { w.entering++ },
		"for a commit": func(w *Writer) { w.waiters++ },
	} {
		w := New(nil, nil, Options{})
		wait(w)
		o := &Op{reply: make(chan error, 1)}
		if group, err := w.send(o); group != nil || err != nil {
			t.Errorf("somebody waits %s: a later sender got %d ops to commit, %v", name, len(group), err)
		}
	}
}

func TestChangesThatQueueDuringACommitAreOneGroup(t *testing.T) {
	var groups []int
	w := started(t, Options{Committed: func(_ time.Duration, n int) { groups = append(groups, n) }})
	asOneGroup(t, w, addAccount(w, "a"), addAccount(w, "b"), addAccount(w, "c"))
	w.exclusive(func() {
		if maximum := slices.Max(groups); maximum != 3 {
			t.Errorf("commits of %v changes, want one of 3", groups)
		}
	})
}

// TestEntriesWaitInTheLogUntilTheStoreCanBeWritten: an entry is taken while the store fails, and is applied once when it works again.
func TestEntriesWaitInTheLogUntilTheStoreCanBeWritten(t *testing.T) {
	w := started(t, Options{Flush: time.Millisecond})
	failing := true
	w.exclusive(func() {
		w.book.Hook = func() error {
			if failing {
				return context.DeadlineExceeded
			}
			return nil
		}
	})
	done := make(chan error, 1)
	o := &Op{
		Entry: &chargelog.Entry{Charge: &chargelog.Charge{RequestID: "r", Account: "a", Amount: 5}},
		Apply: addAccount(w, "a"), Done: func(err error) { done <- err },
	}
	if err := w.Append(o); err != nil {
		t.Fatal(err)
	}
	w.WaitSynced(o)
	polltest.Until(t, "the failure is noticed", func() bool { return w.StoreFailure() != nil })
	if err := w.Do(addAccount(w, "b"), nil); !IsUnwritable(err) {
		t.Errorf("a change without an entry: %v", err)
	}
	if u := w.Unwritten(); u.Charges != 1 || u.Amount != 5 || u.InMemory.Charges != 0 {
		t.Errorf("%s wait", u)
	}
	w.exclusive(func() { failing = false })
	if err := <-done; err != nil {
		t.Error(err)
	}
	polltest.Until(t, "nothing waits", func() bool { return w.StoreFailure() == nil && w.Unwritten().Charges == 0 })
	wantAccounts(t, w, "a")
}

// failCommits has all commits fail with a cause until end is called.
func failCommits(w *Writer, cause func() error) (end func()) {
	var ended atomic.Bool
	w.exclusive(func() {
		w.book.Hook = func() error {
			if ended.Load() {
				return nil
			}
			return cause()
		}
	})
	return func() { ended.Store(true) }
}

// charge is an entry of the charge log, which adds an account, and counts in committed.
func charge(w *Writer, name string, committed *atomic.Int64) *Op {
	return &Op{
		Entry: &chargelog.Entry{Charge: &chargelog.Charge{RequestID: name, Account: "a", Amount: 5}},
		Apply: addAccount(w, name), Done: func(err error) {
			if err == nil {
				committed.Add(1)
			}
		},
	}
}

// TestAFailedRecoveryKeepsEntriesAndFailsChanges: the entries are committed by a later one, and the sender of another change gets an error.
func TestAFailedRecoveryKeepsEntriesAndFailsChanges(t *testing.T) {
	w := started(t, Options{Flush: time.Millisecond})
	var full atomic.Bool
	end := failCommits(w, func() error {
		if full.Load() {
			return syscall.ENOSPC
		}
		return context.DeadlineExceeded
	})
	var committed atomic.Int64
	for _, name := range []string{"a", "b"} {
		if err := w.Append(charge(w, name, &committed)); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Until(t, "the failure is noticed", func() bool { return w.StoreFailure() != nil })
	since := w.StoreFailure().Since
	full.Store(true)
	change := &Op{Apply: addAccount(w, "c"), reply: make(chan error, 1)}
	w.exclusive(func() {
		if _, err := w.send(change); err != nil { // its sender has not seen the failure
			t.Error(err)
		}
		if w.recover() {
			t.Error("it recovered")
		}
		select {
		case err := <-change.reply:
			if !IsUnwritable(err) {
				t.Errorf("the change: %v", err)
			}
		default:
			t.Error("the change has no result")
		}
	})
	if u := w.Unwritten(); u.Charges != 2 {
		t.Errorf("%s wait", u)
	}
	if f := w.StoreFailure(); f == nil || f.Reason != store.Full || !f.Since.Equal(since) {
		t.Errorf("%v", f)
	}
	end()
	polltest.Until(t, "the entries are committed", func() bool { return committed.Load() == 2 })
	polltest.Until(t, "nothing waits", func() bool { return w.StoreFailure() == nil && w.Unwritten().Charges == 0 })
	wantAccounts(t, w, "a", "b")
	w.backlog.mu.Lock()
	defer w.backlog.mu.Unlock()
	if w.backlog.ops != 0 || w.backlog.bytes != 0 {
		t.Errorf("%d entries of %d bytes count as waiting", w.backlog.ops, w.backlog.bytes)
	}
}

// wantInLog checks which entries of a writer's charge log are not applied.
func wantInLog(t *testing.T, w *Writer, want ...string) {
	t.Helper()
	log, err := chargelog.Read(chargelog.PrefixOf(w.book.Path, w.book.Instance))
	var have []string
	for _, e := range log.Unapplied() {
		have = append(have, e.Charge.RequestID)
	}
	if err != nil || !slices.Equal(have, want) {
		t.Errorf("the log has %q, want %q, %v", have, want, err)
	}
}

// TestTheLogKeepsEntriesThatAreNotApplied, also where later ones are: those are applied again, once.
func TestTheLogKeepsEntriesThatAreNotApplied(t *testing.T) {
	w := started(t, Options{Flush: time.Hour})
	var committed atomic.Int64
	refused, early, applied, late := charge(w, "refused", &committed), charge(w, "early", &committed), charge(w, "applied", &committed), charge(w, "late", &committed)
	refused.Apply = func() error { return errMine } // so that the others are applied one by one
	add, tries := early.Apply, 0
	early.Apply = func() error {
		if tries++; tries == 1 {
			return syscall.ENOSPC
		}
		return add()
	}
	for _, o := range []*Op{refused, early, applied} {
		if err := w.Append(o); err != nil {
			t.Fatal(err)
		}
	}
	w.exclusive(func() {
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		if err := w.Append(late); err != nil {
			t.Fatal(err)
		}
		if w.Commit(group) || committed.Load() != 1 {
			t.Errorf("%d entries were committed", committed.Load())
		}
		wantInLog(t, w, "early", "applied", "late")
	})
	polltest.Until(t, "the others are committed", func() bool { return committed.Load() == 3 && w.StoreFailure() == nil })
	wantAccounts(t, w, "applied", "early", "late")
}

// TestTheLogOutlivesAWriterWhoseEntriesWait.
func TestTheLogOutlivesAWriterWhoseEntriesWait(t *testing.T) {
	w := start(t, Options{Flush: time.Millisecond})
	failCommits(w, func() error { return syscall.ENOSPC })
	var committed atomic.Int64
	if err := w.Append(charge(w, "waits", &committed)); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the failure is noticed", func() bool { return w.StoreFailure() != nil })
	w.Stop()
	if left, err := w.CloseLog(); err != nil || left.Charges != 1 {
		t.Errorf("%s wait, %v", left, err)
	}
	wantInLog(t, w, "waits")
}

// TestARecoveryOfAnExpelledGatewayCommitsNothing until it has registered again: its blocks may be another's.
func TestARecoveryOfAnExpelledGatewayCommitsNothing(t *testing.T) {
	rejoins := 0
	w := started(t, Options{Flush: time.Millisecond, Expelled: func() error {
		if rejoins++; rejoins <= 2 {
			return syscall.ENOSPC // it keeps the connection
		}
		return nil
	}})
	end := failCommits(w, func() error { return syscall.ENOSPC })
	var committed atomic.Int64
	if err := w.Append(charge(w, "a", &committed)); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the failure is noticed", func() bool { return w.StoreFailure() != nil })
	w.exclusive(func() {
		end()
		w.book.State.Expelled = true
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		if w.Commit(group) || committed.Load() != 0 {
			t.Error("it commits without a recovery")
		}
		for range 2 {
			if w.recover() || committed.Load() != 0 || !w.book.State.Expelled {
				t.Error("it recovered")
			}
		}
		if !w.recover() || committed.Load() != 1 || w.book.State.Expelled || rejoins != 3 {
			t.Errorf("%d entries were committed after %d attempts to register", committed.Load(), rejoins)
		}
	})
	wantAccounts(t, w, "a")
}

// TestPausesBetweenRecoveries double up to two seconds, and begin anew ten seconds after the end of an outage.
func TestPausesBetweenRecoveries(t *testing.T) {
	w := New(nil, nil, Options{})
	got := []time.Duration{w.firstPause()}
	for range 6 {
		got = append(got, w.nextPause())
	}
	for _, ago := range []time.Duration{0, calm + time.Second} {
		w.lastRecovery = time.Now().Add(-ago)
		got = append(got, w.firstPause())
	}
	const ms = time.Millisecond
	if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 2000 * ms, 2000 * ms, 2000 * ms, 100 * ms}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
