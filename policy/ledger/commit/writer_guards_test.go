package commit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// TestTheBookIsUsedByOneAtATime.
func TestTheBookIsUsedByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(nil, nil, Options{})
		var others atomic.Int64
		w.exclusive(func() {
			for range 2 {
				go w.exclusive(func() {
					if others.Add(1); !w.busy {
						t.Error("the book counts as free")
					}
				})
			}
			synctest.Wait()
			if n := others.Load(); n > 0 {
				t.Errorf("%d others use it", n)
			}
		})
		synctest.Wait()
		if n := others.Load(); n != 2 || w.busy {
			t.Errorf("%d others have used it, busy %v", n, w.busy)
		}
	})
}

// TestAChangeDoesNotWaitDuringAnOutage, even if the book is in use: an attempt to recover may take long.
func TestAChangeDoesNotWaitDuringAnOutage(t *testing.T) {
	w := started(t, Options{})
	w.exclusive(func() {
		w.backlog.beginStoreOutage(syscall.ENOSPC)
		if err := w.Do(addAccount(w, "a"), nil); !IsUnwritable(err) {
			t.Errorf("%v", err)
		}
	})
}

// TestEntriesAreCommittedInGroups of at most 512: by their interval, or as soon as a group is full, also one that fills during a commit.
func TestEntriesAreCommittedInGroups(t *testing.T) {
	var groups []int
	w := started(t, Options{Flush: time.Hour, Poll: time.Hour, Committed: func(_ time.Duration, n int) { groups = append(groups, n) }})
	var committed atomic.Int64
	var names []string
	for i := range groupLimit {
		names = append(names, fmt.Sprintf("free %03d", i))
	}
	appendAll(t, w, &committed, names...)
	polltest.Until(t, "a full group", func() bool { return committed.Load() == groupLimit })
	w.exclusive(func() {
		for i := range names {
			names[i] = fmt.Sprintf("busy %03d", i)
		}
		appendAll(t, w, &committed, append(names, "one", "more")...)
	})
	polltest.Until(t, "a group that filled during a commit", func() bool { return committed.Load() == 2*groupLimit })
	w.write(false)
	w.exclusive(func() {
		if want := []int{groupLimit, groupLimit}; !slices.Equal(groups, want) || committed.Load() != 2*groupLimit {
			t.Errorf("groups of %v, want %v", groups, want)
		}
	})
	if err := w.Do(addAccount(w, "with the rest"), nil); err != nil || committed.Load() != 2*groupLimit+2 {
		t.Errorf("%d are committed, %v", committed.Load(), err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiters != 0 || len(w.queue) > 0 {
		t.Errorf("%d wait for %d ops", w.waiters, len(w.queue))
	}
}

// TestEveryFlushIntervalCommits: the second one too.
func TestEveryFlushIntervalCommits(t *testing.T) {
	w := started(t, Options{Flush: time.Millisecond})
	var committed atomic.Int64
	for i, name := range []string{"a", "b"} {
		appendAll(t, w, &committed, name)
		polltest.Until(t, name, func() bool { return committed.Load() == int64(i+1) })
	}
}

// TestTheStoreIsTriedAgainAndAgain.
func TestTheStoreIsTriedAgainAndAgain(t *testing.T) {
	w := started(t, Options{Flush: time.Millisecond})
	tries := 0
	failCommits(w, func() error {
		if tries++; tries <= 3 {
			return syscall.ENOSPC
		}
		return nil
	})
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	polltest.Until(t, "the third attempt", func() bool { return committed.Load() == 1 })
}

// TestTheEndOfAWriterTriesTheStoreOnceMore.
func TestTheEndOfAWriterTriesTheStoreOnceMore(t *testing.T) {
	commits := 0
	w := start(t, Options{Flush: time.Hour, Committed: func(time.Duration, int) { commits++ }})
	end := failCommits(w, func() error { return syscall.ENOSPC })
	var committed atomic.Int64
	appendAll(t, w, &committed, "a")
	w.write(true)
	w.exclusive(func() {
		if commits != 0 {
			t.Error("a commit that failed counts")
		}
	})
	wantUnwritten(t, w, 1, 0)
	end()
	w.Stop()
	if left, err := w.CloseLog(); err != nil || left.Charges > 0 || committed.Load() != 1 {
		t.Errorf("%s wait, %v", left, err)
	}
}

// TestCommitsOfOthersAreNoticedOnce, from the start on, and its own are none.
func TestCommitsOfOthersAreNoticedOnce(t *testing.T) {
	var changes atomic.Int64
	var logged bytes.Buffer
	b := bookOf(t)
	w := New(b, usage.NewTally(), Options{Poll: time.Hour, Changed: func() { changes.Add(1) }, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	other, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	elsewhere := New(other, usage.NewTally(), Options{})
	want := func(what string, n int64) {
		t.Helper()
		w.exclusive(func() {
			w.PollChanges()
			w.PollChanges()
		})
		if got := changes.Load(); got != n {
			t.Errorf("%s: %d changes, want %d", what, got, n)
		}
	}
	w.Start()
	want("at the start", 0)
	if err := w.Do(addAccount(w, "own"), nil); err != nil {
		t.Fatal(err)
	}
	want("its own", 0)
	if err := elsewhere.Do(addAccount(elsewhere, "another's"), nil); err != nil {
		t.Fatal(err)
	}
	want("another's", 1)
	w.exclusive(func() {
		closed, err := b.Open(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		_ = closed.Close()
		for range 2 {
			w.book = closed
			w.PollChanges()
			w.PollChanges()
			w.book = b
			w.PollChanges()
		}
	})
	want("a store that cannot be read", 1)
	if n := strings.Count(logged.String(), "cannot be read"); n != 2 || w.StoreFailure() != nil {
		t.Errorf("it was logged %d times: %v", n, w.StoreFailure())
	}
	w.Stop()
}

// TestCommitsOfOthersAreLookedFor, more often while other gateways use the store. A connection that is lost is an outage.
func TestCommitsOfOthersAreLookedFor(t *testing.T) {
	var changes atomic.Int64
	w := started(t, Options{Poll: time.Millisecond, Changed: func() { changes.Add(1) }})
	if w.pollInterval() != time.Millisecond {
		t.Errorf("%s", w.pollInterval())
	}
	slow := New(nil, nil, Options{Poll: time.Hour})
	for shared, want := range map[bool]time.Duration{true: sharedPoll, false: time.Hour} {
		if slow.SetShared(shared); slow.pollInterval() != want {
			t.Errorf("%s, want %s", slow.pollInterval(), want)
		}
	}
	var other *store.Book
	w.exclusive(func() {
		var err error
		if other, err = w.book.Open(t.Context()); err != nil {
			t.Error(err)
		}
	})
	elsewhere := New(other, usage.NewTally(), Options{})
	if err := elsewhere.Do(addAccount(elsewhere, "another's"), nil); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "it is noticed", func() bool { return changes.Load() > 0 })
	if err := other.Close(); err != nil {
		t.Error(err)
	}
	w.exclusive(func() {
		used := w.book
		w.book = other
		if w.PollChanges(); w.StoreFailure() == nil || w.StoreFailure().Reason != store.Unreachable {
			t.Errorf("%v", w.StoreFailure())
		}
		w.book = used
		w.backlog.endStoreOutage()
	})
}

// TestOnlyEntriesThatTheStoreRefusesAreReported.
func TestOnlyEntriesThatTheStoreRefusesAreReported(t *testing.T) {
	var refused []string
	w := started(t, Options{Flush: time.Hour, Refused: func(e *chargelog.Entry, err error) {
		refused = append(refused, fmt.Sprint(e.Charge.RequestID, " ", err))
	}})
	var committed atomic.Int64
	appendAll(t, w, &committed, "fine")
	wrong := charge(w, "wrong", &committed)
	wrong.Apply = func() error { return errMine }
	if err := w.Append(wrong); err != nil {
		t.Fatal(err)
	}
	errs := asOneGroup(t, w, func() error { return errMine })
	w.exclusive(func() {
		if !errors.Is(errs[0], errMine) || !slices.Equal(refused, []string{"wrong mine"}) || committed.Load() != 1 {
			t.Errorf("%v, refused %q, %d committed", errs, refused, committed.Load())
		}
	})
	bare := started(t, Options{Flush: time.Hour})
	wrong = charge(bare, "wrong", &committed)
	wrong.Apply = func() error { return errMine }
	if err := bare.Append(wrong); err != nil {
		t.Fatal(err)
	}
	bare.write(true)
	wantUnwritten(t, bare, 0, 0)
}

// TestChangesThatAreAppliedTogetherAreAppliedOnce: what an attempt that fails has changed is reverted, and an error of an earlier attempt is forgotten.
func TestChangesThatAreAppliedTogetherAreAppliedOnce(t *testing.T) {
	var w *Writer
	together := errMine
	w = started(t, Options{Flush: time.Hour, Together: func(ops []*Op) (int, error) {
		if together != nil {
			return 0, errors.Join(addAccount(w, "reverted")(), together)
		}
		for _, o := range ops {
			if o.Entry != nil {
				if err := addAccount(w, o.Entry.Charge.RequestID+" together")(); err != nil {
					return 0, err
				}
			}
		}
		return len(ops), nil
	}})
	var committed atomic.Int64
	first, second := charge(w, "a", &committed), charge(w, "b", &committed)
	second.Apply = func() error { return syscall.ENOSPC }
	for _, o := range []*Op{first, second} {
		if err := w.Append(o); err != nil {
			t.Fatal(err)
		}
	}
	w.exclusive(func() {
		w.mu.Lock()
		group := w.gather()
		w.mu.Unlock()
		if w.Commit(group) || committed.Load() != 1 {
			t.Errorf("%d are committed", committed.Load())
		}
		together = nil
	})
	polltest.Until(t, "the second attempt", func() bool { return committed.Load() == 2 })
	wantAccounts(t, w, "a", "b together")
}

// TestAnErrorOfAChangeIsNoOutage, also if its commit fails: its sender gets it, others the outage. An outage during one change is that of its whole group.
func TestAnErrorOfAChangeIsNoOutage(t *testing.T) {
	w := started(t, Options{})
	applied := 0
	if err := w.Do(func() error { applied++; return errMine }, nil); !errors.Is(err, errMine) || applied != 1 {
		t.Errorf("%v after %d attempts", err, applied)
	}
	end := failCommits(w, func() error { return syscall.ENOSPC })
	commitAll := func(changes ...func() error) (errs []error) {
		var ops []*Op
		for _, change := range changes {
			ops = append(ops, &Op{Apply: change, Done: func(err error) { errs = append(errs, err) }})
		}
		w.exclusive(func() { w.Commit(ops) })
		return errs
	}
	if errs := commitAll(func() error { return errMine }, addAccount(w, "a")); len(errs) != 2 || !errors.Is(errs[0], errMine) || IsUnwritable(errs[0]) || !IsUnwritable(errs[1]) {
		t.Errorf("%v", errs)
	}
	end()
	polltest.Until(t, "the store is written again", func() bool { return w.StoreFailure() == nil })
	if errs := commitAll(addAccount(w, "b"), func() error { return syscall.ENOSPC }); len(errs) != 2 || !IsUnwritable(errs[0]) || !IsUnwritable(errs[1]) {
		t.Errorf("%v", errs)
	}
	polltest.Until(t, "the store is written again", func() bool { return w.StoreFailure() == nil })
	wantAccounts(t, w)
}

func TestReasonsOfOutages(t *testing.T) {
	for err, want := range map[error]string{
		errLogMissing: store.Missing, errBacklog: ReasonBacklog, errDiskFull: store.Full, store.ErrExpelled: store.Expelled, errMine: "",
	} {
		if reason, out := outageOf(err); reason != want || out != (want != "") || isOutage(err) != out {
			t.Errorf("%v: %q, %v, want %q", err, reason, out, want)
		}
	}
	if reason := reasonOf(errMine); reason != reasonOther {
		t.Errorf("%q", reason)
	}
	for reason, want := range map[string]bool{
		store.Full: true, store.Locked: true, store.Slow: true, store.Expelled: true,
		store.Missing: false, store.ReadOnly: false, store.DiskFails: false, store.Damaged: false, store.Unreachable: false, store.Denied: false, reasonOther: false,
	} {
		if keepsConnection(reason) != want {
			t.Errorf("%s: want %v", reason, want)
		}
	}
	err := error(&UnwritableError{Reason: store.Full, cause: errDiskFull})
	if f := fault.From(err); f.Kind != fault.Unavailable || f.RetryAfter != RetryAfter || !errors.Is(err, errDiskFull) || !IsUnwritable(err) || IsUnwritable(errDiskFull) {
		t.Errorf("%+v", f)
	}
}
