package commit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// logFault fails the writes and syncs of a charge log's files while its errors are set.
type logFault struct{ write, sync atomic.Pointer[error] }

type faultyFile struct {
	*os.File

	fault *logFault
}

func (f *logFault) options() chargelog.Options {
	return chargelog.Options{Wrap: func(file *os.File) chargelog.File { return faultyFile{file, f} }}
}

func (f faultyFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.fault.write.Load(); err != nil {
		return 0, *err
	}
	return f.File.WriteAt(b, at)
}

func (f faultyFile) Sync() error {
	if err := f.fault.sync.Load(); err != nil {
		return *err
	}
	return f.File.Sync()
}

var (
	errDiskFull  error = syscall.ENOSPC
	errDiskFails error = syscall.EIO
)

// withOutages is the option that sends a writer's outages to a channel.
func withOutages(o Options) (Options, chan Outage) {
	outages := make(chan Outage, 9)
	o.Outage = func(u Outage) { outages <- u }
	return o, outages
}

// wantOutage checks the next message about an outage.
func wantOutage(t *testing.T, outages chan Outage, reason string, ended bool, written int) {
	t.Helper()
	select {
	case o := <-outages:
		if o.Err.Reason != reason || o.Ended != ended || o.Written != written || (o.Lasted > 0) != ended {
			t.Errorf("%+v: %s; want reason %q, ended %v, %d written", o, o.Err, reason, ended, written)
		}
	case <-time.After(polltest.Patience):
		t.Fatal("no outage")
	}
}

// appendAll appends entries with some names.
func appendAll(t *testing.T, w *Writer, committed *atomic.Int64, names ...string) (ops []*Op) {
	t.Helper()
	for _, name := range names {
		o := charge(w, name, committed)
		if err := w.Append(o); err != nil {
			t.Fatal(err)
		}
		ops = append(ops, o)
	}
	return ops
}

func wantUnwritten(t *testing.T, w *Writer, charges, inMemory int) {
	t.Helper()
	if u := w.Unwritten(); u.Charges != charges || u.InMemory.Charges != inMemory {
		t.Errorf("%s wait, want %d, %d of them in memory", u, charges, inMemory)
	}
}

// TestARemovedLogIsAnOutage until there is a new one, which has the entries that the store does not have.
func TestARemovedLogIsAnOutage(t *testing.T) {
	o, outages := withOutages(Options{Flush: time.Hour, MaxBacklog: 1 << 20})
	w := started(t, o)
	var committed atomic.Int64
	appendAll(t, w, &committed, "a", "b")
	w.CheckLog()
	if err := w.Failure(); err != nil {
		t.Error(err)
	}
	prefix := chargelog.PrefixOf(w.book.Path, w.book.Instance)
	for i := range 2 {
		if err := os.Remove(prefix + chargelog.Suffix(i)); err != nil {
			t.Fatal(err)
		}
	}
	w.CheckLog()
	first := w.Failure()
	w.CheckLog()
	if f := w.Failure(); f == nil || f != first {
		t.Errorf("%v, then %v", first, f)
	}
	wantOutage(t, outages, store.Missing, false, 0)
	w.exclusive(func() {
		if w.recover() || w.Failure() == nil {
			t.Error("the log's files are not there, and the outage has ended")
		}
	})
	for _, place := range []string{"", ".moved"} {
		if err := w.PlaceLog(prefix+place, false); err != nil {
			t.Fatal(err)
		}
		if log := w.Log(); !log.Exists() || log.Synced() != log.End() {
			t.Errorf("%d of %d bytes are on disk", log.Synced(), log.End())
		}
	}
	if files, err := filepath.Glob(prefix + ".[01].log"); err != nil || len(files) > 0 {
		t.Errorf("%q, %v", files, err)
	}
	if err := w.PlaceLog(prefix, false); err != nil {
		t.Fatal(err)
	}
	wantInLog(t, w, "a", "b")
	wantOutage(t, outages, store.Missing, true, 0)
	if f := w.Failure(); f != nil {
		t.Error(f)
	}
	w.CheckLog()
	if len(outages) > 0 {
		t.Errorf("%d more outages", len(outages))
	}
}

// TestALogThatIsRemovedInPartIsAnother: it cannot be renamed.
func TestALogThatIsRemovedInPartIsAnother(t *testing.T) {
	w := started(t, Options{Flush: time.Hour})
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	prefix := chargelog.PrefixOf(w.book.Path, w.book.Instance)
	if err := os.Remove(prefix + chargelog.Suffix(1)); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{".moved", ""} {
		if err := w.PlaceLog(prefix+place, false); err != nil || !w.Log().Exists() {
			t.Errorf("%v", err)
		}
	}
	wantInLog(t, w, "a")
}

// TestALogForAnotherStoreHasTheEntriesThatWait, and no others.
func TestALogForAnotherStoreHasTheEntriesThatWait(t *testing.T) {
	w := started(t, Options{Flush: time.Hour})
	var committed atomic.Int64
	appendAll(t, w, &committed, "applied")
	w.write(true)
	appendAll(t, w, &committed, "waits")
	prefix := chargelog.PrefixOf(w.book.Path, w.book.Instance)
	before := w.Log()
	if err := w.PlaceLog(prefix+".other", true); err != nil {
		t.Fatal(err)
	}
	log := w.Log()
	if log == before || log.Synced() != log.End() || before.Exists() {
		t.Error("the log is the one of the store before")
	}
	if err := w.PlaceLog(prefix, false); err != nil {
		t.Fatal(err)
	}
	if w.Log() != log {
		t.Error("a log that was only renamed is another one")
	}
	wantInLog(t, w, "waits")
}

// TestTooManyWaitingEntriesAreAnOutage: at half of the bytes the outage begins, and at all of them entries are refused. It ends below a quarter.
func TestTooManyWaitingEntriesAreAnOutage(t *testing.T) {
	const limit = 16 << 10
	o, outages := withOutages(Options{Flush: time.Hour, MaxBacklog: limit})
	w := started(t, o)
	end := failCommits(w, func() error { return syscall.ENOSPC })
	var committed atomic.Int64
	record := func(name string, size int) *Op {
		o := charge(w, name, &committed)
		o.Entry.Charge.Record = make([]byte, size)
		return o
	}
	if err := w.Append(record("a", limit/2-1025)); err != nil || w.Failure() != nil {
		t.Errorf("below half: %v, %v", err, w.Failure())
	}
	for _, o := range []*Op{record("b", 0), record("c", limit/2)} {
		if err := w.Append(o); err != nil || w.Failure() == nil || w.Failure().Reason != ReasonBacklog {
			t.Errorf("from half on: %v, %v", err, w.Failure())
		}
	}
	if err := w.Append(record("d", 0)); !IsUnwritable(err) {
		t.Errorf("above: %v", err)
	}
	wantInLog(t, w, "a", "b", "c")
	wantOutage(t, outages, ReasonBacklog, false, 0)
	w.exclusive(func() {
		if w.recover(); w.Failure() == nil {
			t.Error("as many wait as before, and the outage has ended")
		}
	})
	end()
	w.write(true)
	wantOutage(t, outages, ReasonBacklog, true, 3)
	if err := w.Append(record("e", limit/2)); err != nil {
		t.Error(err)
	}
	wantOutage(t, outages, ReasonBacklog, false, 0)
	w.write(true)
	wantOutage(t, outages, ReasonBacklog, true, 1)
	wantAccounts(t, w, "a", "b", "c", "e")
}

// TestTheNumberOfWaitingEntriesIsBounded.
func TestTheNumberOfWaitingEntriesIsBounded(t *testing.T) {
	w := started(t, Options{Flush: time.Hour})
	end := failCommits(w, func() error { return syscall.ENOSPC })
	defer end()
	w.backlog.mu.Lock()
	w.backlog.ops = maxBacklog/2 - 2
	w.backlog.mu.Unlock()
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	if f := w.Failure(); f != nil {
		t.Error(f)
	}
	appendAll(t, w, &committed, "b")
	if f := w.Failure(); f == nil || f.Reason != ReasonBacklog {
		t.Errorf("%v", f)
	}
	w.backlog.mu.Lock()
	w.backlog.ops = 2
	w.backlog.mu.Unlock()
}

// TestALogThatTakesNoEntryIsAnOutage: the entry is in memory, and in the log again, with those after it, before the outage ends.
func TestALogThatTakesNoEntryIsAnOutage(t *testing.T) {
	var fault logFault
	o, outages := withOutages(Options{Flush: time.Hour, Charges: fault.options()})
	w := started(t, o)
	var committed atomic.Int64
	w.WaitSynced(appendAll(t, w, &committed, "a")[0])
	fault.write.Store(&errDiskFull)
	ops := appendAll(t, w, &committed, "b")
	w.WaitSynced(ops[0])
	if f := w.Failure(); f == nil || f.Reason != store.Full {
		t.Errorf("%v", f)
	}
	wantUnwritten(t, w, 2, 1)
	w.exclusive(func() {
		if w.recover(); w.Failure() == nil {
			t.Error("an entry is in memory alone, and the outage has ended")
		}
	})
	wantOutage(t, outages, store.Full, false, 0)
	w.exclusive(func() { // no recovery between
		fault.write.Store(nil)
		appendAll(t, w, &committed, "c")
		w.mu.Lock()
		ops := w.gather()
		w.mu.Unlock()
		wantUnwritten(t, w, 3, 1)
		w.mu.Lock()
		w.queue, w.committing = ops, nil
		w.mu.Unlock()
	})
	wantOutage(t, outages, store.Full, true, 0)
	wantInLog(t, w, "a", "c", "b", "c")
	wantUnwritten(t, w, 3, 0)
	w.write(true)
	wantInLog(t, w)
	wantAccounts(t, w, "a", "b", "c")
}

// TestEntriesOfTheLogAreMarkedBesideOthersInMemory: those up to the first one that waits.
func TestEntriesOfTheLogAreMarkedBesideOthersInMemory(t *testing.T) {
	var fault logFault
	w := started(t, Options{Flush: time.Hour, Charges: fault.options()})
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	fault.write.Store(&errDiskFull)
	appendAll(t, w, &committed, "memory")
	w.exclusive(func() {
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		appendAll(t, w, &committed, "memory too")
		fault.write.Store(nil)
		appendAll(t, w, &committed, "late")
		if !w.Commit(group) {
			t.Error("it is not committed")
		}
		wantUnwritten(t, w, 2, 1)
		wantInLog(t, w, "late")
	})
}

// TestEntriesThatAreNotOnDiskAreAppendedAgain after a sync has failed: what the disk has of them is not known.
func TestEntriesThatAreNotOnDiskAreAppendedAgain(t *testing.T) {
	var fault logFault
	o, outages := withOutages(Options{Flush: time.Hour, Charges: fault.options()})
	w := started(t, o)
	var committed atomic.Int64
	w.WaitSynced(appendAll(t, w, &committed, "a")[0])
	fault.sync.Store(&errDiskFails)
	w.WaitSynced(appendAll(t, w, &committed, "b")[0])
	if f := w.Failure(); f == nil || f.Reason != store.DiskFails {
		t.Errorf("%v", f)
	}
	wantOutage(t, outages, store.DiskFails, false, 0)
	if err := w.SecureLog(); !errors.Is(err, errDiskFails) {
		t.Errorf("%v", err)
	}
	fault.sync.Store(nil)
	wantOutage(t, outages, store.DiskFails, true, 0)
	if log := w.Log(); log.Synced() != log.End() {
		t.Errorf("%d of %d bytes are on disk", log.Synced(), log.End())
	}
	log, err := chargelog.Read(chargelog.PrefixOf(w.book.Path, w.book.Instance))
	if left := log.Unapplied(); err != nil || len(left) < 3 || left[0].Charge.RequestID != "a" || left[len(left)-1].Charge.RequestID != "b" || left[1].Charge.RequestID != "b" {
		t.Errorf("%d entries, %v", len(left), err)
	}
}

// TestAnEntryWhoseLogIsClosedIsNotOnDisk.
func TestAnEntryWhoseLogIsClosedIsNotOnDisk(t *testing.T) {
	var fault logFault
	charges := fault.options()
	charges.Delay = time.Hour
	w := start(t, Options{Flush: time.Hour, Charges: charges})
	var committed atomic.Int64
	ops := appendAll(t, w, &committed, "a")
	fault.sync.Store(&errDiskFails)
	if err := w.Log().Close(); !errors.Is(err, errDiskFails) {
		t.Errorf("%v", err)
	}
	w.WaitSynced(ops[0])
	if w.Failure() == nil {
		t.Error("it counts as synced")
	}
	w.Stop()
}

// TestAStoreThatIsAwayIsAnOutageOfTheStore: its first time stays.
func TestAStoreThatIsAwayIsAnOutageOfTheStore(t *testing.T) {
	w := started(t, Options{})
	if !w.CheckStore() {
		t.Error("it is there")
	}
	if err := os.Rename(w.book.Path, w.book.Path+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if w.CheckStore() {
			t.Error("it is not there")
		}
	}
	f := w.StoreFailure()
	if f == nil || f.Reason != store.Missing {
		t.Errorf("%v", f)
	}
	w.backlog.beginStoreOutage(context.DeadlineExceeded)
	if now := w.StoreFailure(); now.Reason != store.Missing || !now.Since.Equal(f.Since) {
		t.Errorf("%v since %s, before since %s", now, now.Since, f.Since)
	}
	if err := os.Rename(w.book.Path+".away", w.book.Path); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it is found again", func() bool { return w.StoreFailure() == nil })
	if !w.CheckStore() {
		t.Error("it is there again")
	}
}

// TestAWriterWithoutALogTakesChangesOnly: that of a tool, one whose log has no place yet, and one that has ended.
func TestAWriterWithoutALogTakesChangesOnly(t *testing.T) {
	var committed atomic.Int64
	tool := New(bookOf(t), usage.NewTally(), Options{})
	if err := tool.Append(charge(tool, "a", &committed)); !errors.Is(err, ErrNotGateway) {
		t.Errorf("%v", err)
	}
	fails := failCommits(tool, func() error { return syscall.ENOSPC })
	if err := tool.Do(addAccount(tool, "a"), nil); !errors.Is(err, syscall.ENOSPC) || IsUnwritable(err) {
		t.Errorf("%v", err)
	}
	fails()
	early := New(bookOf(t), usage.NewTally(), Options{Gateway: true})
	for i, w := range []*Writer{tool, early} {
		if err := w.Do(addAccount(w, fmt.Sprint(i)), nil); err != nil {
			t.Error(err)
		}
		wantAccounts(t, w, fmt.Sprint(i))
		if err := w.AbandonLog(); err != nil {
			t.Error(err)
		}
		wantUnwritten(t, tool, 0, 0)
	}
	ended := start(t, Options{})
	ended.Stop()
	if err := ended.Append(charge(ended, "a", &committed)); !errors.Is(err, ErrClosed) {
		t.Errorf("an entry: %v", err)
	}
	if err := ended.Do(addAccount(ended, "a"), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("a change: %v", err)
	}
	wantUnwritten(t, ended, 0, 0)
	if err := ended.AbandonLog(); err != nil {
		t.Error(err)
	}
	log, err := chargelog.Adopt(chargelog.PrefixOf(ended.book.Path, ended.book.Instance))
	if err != nil || log == nil {
		t.Fatalf("its log is in use: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

// TestAClosedLogHasTheEntriesThatWereInMemory.
func TestAClosedLogHasTheEntriesThatWereInMemory(t *testing.T) {
	var fault logFault
	w := start(t, Options{Flush: time.Hour, Charges: fault.options()})
	failCommits(w, func() error { return syscall.ENOSPC })
	fault.write.Store(&errDiskFull)
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	w.Stop()
	fault.write.Store(nil)
	if left, err := w.CloseLog(); err != nil || left.Charges != 1 || left.InMemory.Charges != 0 {
		t.Errorf("%s wait, %v", left, err)
	}
	wantInLog(t, w, "a")
}

// TestOnlyEntriesCountAsWaiting, not other changes.
func TestOnlyEntriesCountAsWaiting(t *testing.T) {
	w := started(t, Options{Flush: time.Hour})
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	if err := w.Do(addAccount(w, "b"), nil); err != nil { // with the entry, in one group
		t.Fatal(err)
	}
	w.backlog.mu.Lock()
	defer w.backlog.mu.Unlock()
	if w.backlog.ops != 0 || w.backlog.bytes != 0 || committed.Load() != 1 {
		t.Errorf("%d entries of %d bytes count as waiting, and %d were committed", w.backlog.ops, w.backlog.bytes, committed.Load())
	}
}
