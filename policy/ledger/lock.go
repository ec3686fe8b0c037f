package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// runLock is a lock on a file beside the store. Whoever has it is the one gateway that runs on the store, or a tool
// that made sure for a moment that none does. The system drops it when its process dies.
type runLock struct {
	path string
	file *os.File
}

// lockPatience is how long a starting gateway waits for a tool that has the lock for a moment.
const lockPatience = 2 * time.Second

// take waits a little for the lock. The error is ErrInUse when another gateway has it.
func (r *runLock) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		ok, err := r.try()
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
func (r *runLock) try() (bool, error) {
	f, err := os.OpenFile(r.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false, fmt.Errorf("run lock: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		r.file = f
		return true, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, f.Close()
	}
	return false, errors.Join(fmt.Errorf("run lock %s: %w", r.path, err), f.Close())
}

// ifFree runs something while no gateway can start, and not at all when one runs. The lock is not kept.
func (r *runLock) ifFree(run func() error) error {
	short := runLock{path: r.path}
	free, err := short.try()
	if err != nil || !free {
		return err
	}
	return errors.Join(run(), short.drop())
}

// drop gives the lock back if it is taken.
func (r *runLock) drop() error {
	if r.file == nil {
		return nil
	}
	f := r.file
	r.file = nil
	return f.Close()
}
