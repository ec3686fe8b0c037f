package lock

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// Turn lets the processes that write to a store take turns. SQLite itself waits by sleeping and retrying, with growing
// intervals: beside a busy writer it may never get the lock. Here the next writer waits at the head of a queue, and a
// process that has just written queues again. This provides fairness only: SQLite's lock protects the store.
type Turn struct{ queue, write *os.File }

// turnTimeout is the maximum wait for a process that makes no progress. After it SQLite's own locking decides.
const turnTimeout = 5 * time.Second

// OpenTurn opens the files beside a store by which its writers take turns.
func OpenTurn(store string) (*Turn, error) {
	queue, err := os.OpenFile(store+".queue.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	write, err := os.OpenFile(store+".write.lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	return &Turn{queue: queue, write: write}, nil
}

// Take waits for the turn.
func (t *Turn) Take() error {
	if t == nil {
		return nil
	}
	deadline := time.Now().Add(turnTimeout)
	if err := wait(t.queue, deadline); err != nil {
		return err
	}
	return errors.Join(wait(t.write, deadline), unlock(t.queue))
}

// Release ends the turn. Unlocking an open file cannot fail, and the transaction has ended already.
func (t *Turn) Release() {
	if t != nil {
		_ = unlock(t.write)
	}
}

// Close releases the files.
func (t *Turn) Close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.queue.Close(), t.write.Close())
}

// wait takes a lock, or gives up at the deadline.
func wait(file *os.File, deadline time.Time) error {
	const step = 100 * time.Microsecond // a commit takes a few milliseconds
	for {
		ok, err := flock(file, syscall.LOCK_EX)
		if ok || err != nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(step)
	}
}

func unlock(file *os.File) error { return syscall.Flock(int(file.Fd()), syscall.LOCK_UN) }
