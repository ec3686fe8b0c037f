package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func wantTaken(t *testing.T, path string, taken, exists bool) {
	t.Helper()
	if gotTaken, gotExists, err := IsTaken(path); err != nil || gotTaken != taken || gotExists != exists {
		t.Errorf("taken %v, exists %v, %v; want %v and %v", gotTaken, gotExists, err, taken, exists)
	}
}

func wantTry(t *testing.T, f *File, want bool) {
	t.Helper()
	if ok, err := f.Try(); err != nil || ok != want {
		t.Errorf("%v, %v, want %v", ok, err, want)
	}
}

// TestAFileIsLockedOnce: until it is released. Checks take nothing, also concurrent ones.
func TestAFileIsLockedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	wantTaken(t, path, false, false)
	one, other := &File{Path: path}, &File{Path: path}
	wantTry(t, one, true)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	wantTaken(t, path, true, true)
	wantTry(t, other, false)
	if other.Exists() || !one.Exists() {
		t.Error("the lock belongs to the one that has not taken it")
	}
	for _, f := range []*File{other, one, one} {
		if err := f.Release(); err != nil {
			t.Error(err)
		}
	}
	wantTaken(t, path, false, true)
	check, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = check.Close() }()
	if ok, err := flock(check, syscall.LOCK_SH); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	wantTaken(t, path, false, true) // another check runs
}

// TestALockWhoseFileIsGoneIsNone, or another one in its place: other processes would lock that one.
func TestALockWhoseFileIsGoneIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := &File{Path: path}
	wantTry(t, f, true)
	defer func() { _ = f.Release() }()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if f.Exists() {
		t.Error("it was removed")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.Exists() {
		t.Error("it was replaced")
	}
}

func TestALockWaitsForAnotherProcess(t *testing.T) {
	for name, row := range map[string]struct {
		release, cancel, want time.Duration // zero means never
		err                   error
	}{
		"that releases it":        {release: 9 * time.Second, want: 9 * time.Second},
		"ten seconds":             {want: takeTimeout, err: ErrTaken},
		"until its context's end": {cancel: time.Second, want: time.Second, err: ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "lock")
				one, other := &File{Path: path}, &File{Path: path}
				wantTry(t, one, true)
				var releasing sync.WaitGroup
				if row.release > 0 {
					releasing.Go(func() {
						<-time.After(row.release - time.Millisecond)
						_ = one.Release()
					})
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if row.cancel > 0 {
					time.AfterFunc(row.cancel, cancel)
				}
				began := time.Now()
				if err := other.Take(ctx); !errors.Is(err, row.err) || time.Since(began) != row.want {
					t.Errorf("%v after %s, want %v after %s", err, time.Since(began), row.err, row.want)
				}
				releasing.Wait()
				_ = errors.Join(one.Release(), other.Release())
			})
		})
	}
	missing := &File{Path: filepath.Join(t.TempDir(), "missing", "lock")}
	if err := missing.Take(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// TestWritersTakeTurns: one that has just written queues again behind those that wait.
func TestWritersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		order := make(chan string, 3)
		open := func() *Turn {
			turn, err := OpenTurn(store)
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		busy, waiting := open(), open()
		take := func(turn *Turn, name string) {
			if err := turn.Take(); err != nil {
				t.Error(err)
			}
			order <- name
		}
		take(busy, "busy")
		done := make(chan struct{})
		go func() {
			defer close(done)
			take(waiting, "waiting")
			<-time.After(time.Second)
			waiting.Release()
		}()
		<-time.After(time.Second)
		busy.Release()
		began := time.Now()
		take(busy, "busy again")
		if took := time.Since(began); took < time.Second || took > time.Second+time.Millisecond {
			t.Errorf("it waited for %s", took)
		}
		<-done
		for _, want := range []string{"busy", "waiting", "busy again"} {
			if name := <-order; name != want {
				t.Errorf("%s, want %s", name, want)
			}
		}
		if err := errors.Join(busy.Close(), waiting.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestAWriterThatHangsIsNotWaitedForLong: after five seconds the store's own lock decides.
func TestAWriterThatHangsIsNotWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := filepath.Join(t.TempDir(), "store")
		hangs, err := OpenTurn(store)
		other, err2 := OpenTurn(store)
		third, err3 := OpenTurn(store)
		if err := errors.Join(err, err2, err3, hangs.Take()); err != nil {
			t.Fatal(err)
		}
		for _, turn := range []*Turn{other, third} {
			began := time.Now()
			if err := turn.Take(); err != nil || time.Since(began).Round(time.Millisecond) != turnTimeout {
				t.Errorf("%v after %s", err, time.Since(began))
			}
			turn.Release()
		}
		if err := errors.Join(hangs.Close(), other.Close(), third.Close()); err != nil {
			t.Error(err)
		}
		none := (*Turn)(nil) // a database
		none.Release()
		if err := errors.Join(none.Take(), none.Close()); err != nil {
			t.Error(err)
		}
	})
}

func TestALockThatCannotBeOpenedIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if taken, exists, err := IsTaken(filepath.Join(path, "below")); taken || exists || !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("%v, %v, %v", taken, exists, err)
	}
	for _, half := range []string{".queue.lock", ".write.lock"} {
		if err := os.Mkdir(path+half, 0o700); err != nil {
			t.Fatal(err)
		}
		if turn, err := OpenTurn(path); turn != nil || !errors.Is(err, syscall.EISDIR) {
			t.Errorf("%v, %v", turn, err)
		}
		if err := os.Remove(path + half); err != nil {
			t.Fatal(err)
		}
	}
}
