// Package lock has the file locks by which the processes of one machine detect that another one runs or opens the store (File), and by which
// they take turns to write to it (Turn). It does not know the store.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// File is an exclusive lock on a file. The system releases it when the process ends, and it does not depend on process ids. It works on one
// machine, not on network file systems, where SQLite's WAL mode does not work either.
type File struct {
	Path string
	file *os.File
}

// takeTimeout is how long Take waits for another process.
const takeTimeout = 10 * time.Second

// ErrTaken says that another process has the lock.
var ErrTaken = errors.New("another process has the lock")

// Take waits up to 10 seconds for the lock. The error is ErrTaken if another process still has it.
func (f *File) Take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for {
		ok, err := f.Try()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ErrTaken
		case <-retry.C:
		}
	}
}

// Try takes the lock if it is free, and reports whether it did.
func (f *File) Try() (bool, error) {
	file, err := os.OpenFile(f.Path, os.O_RDWR|os.O_CREATE, 0o600)
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

// Release releases the lock if it is taken. The file stays.
func (f *File) Release() error {
	if f.file == nil {
		return nil
	}
	file := f.file
	f.file = nil
	return file.Close()
}

// Exists reports whether the lock is taken, and its file still exists at its path.
func (f *File) Exists() bool {
	own, _ := f.file.Stat() // after an error nothing, which is no file
	seen, _ := os.Stat(f.Path)
	return os.SameFile(own, seen)
}

// IsTaken reports whether a process has the lock on a file, without disturbing concurrent checks, and whether the file exists.
func IsTaken(path string) (taken, exists bool, err error) {
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
