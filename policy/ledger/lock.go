package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// fileLock is an exclusive lock on a file. The system releases it when the process ends, and it does not depend on process ids. It works on one
// machine, not on network file systems, where SQLite's WAL mode does not work either.
type fileLock struct {
	path string
	file *os.File
}

// openTimeout is how long Open waits for another process that is opening the store, or for a busy store.
const openTimeout = 10 * time.Second

// take waits up to openTimeout for the lock. The error is ErrInUse if another process keeps it.
func (f *fileLock) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		ok, err := f.try()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ErrInUse
		case <-retry.C:
		}
	}
}

// try takes the lock if it is free.
func (f *fileLock) try() (bool, error) {
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("lock: %w", err)
	}
	ok, err := flock(file, syscall.LOCK_EX)
	if !ok {
		return false, errors.Join(err, file.Close())
	}
	f.file = file
	return true, nil
}

// release releases the lock if it is taken. The file stays.
func (f *fileLock) release() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

// exists reports whether the lock's file still exists at its path.
func (f *fileLock) exists() bool {
	if f.file == nil {
		return false
	}
	own, err := f.file.Stat()
	if err != nil {
		return false
	}
	seen, err := os.Stat(f.path)
	return err == nil && os.SameFile(own, seen)
}

// isTaken reports whether a process has the lock on a file, without disturbing concurrent checks, and whether the file is there.
func isTaken(path string) (taken, there bool, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	free, err := flock(file, syscall.LOCK_SH)
	return !free, true, errors.Join(err, file.Close())
}

// flock takes a lock if it is free.
func flock(file *os.File, how int) (bool, error) {
	err := syscall.Flock(int(file.Fd()), how|syscall.LOCK_NB)
	if err == nil {
		return true, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w", file.Name(), err)
}
