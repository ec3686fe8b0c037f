package ledger

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// turn lets the processes that write to a store take turns. SQLite's own way of waiting is to sleep and try again, ever
// longer: beside a busy writer it may never get the lock. Whoever is next here waits at the head of the queue, and the
// one who has just written gets in line behind. It is about fairness alone: SQLite's lock guards the store.
type turn struct{ queue, write *os.File }

// turnTimeout is how long to wait for a process that does not progress. After it SQLite's own locking decides.
const turnTimeout = 5 * time.Second

func openTurn(store string) (*turn, error) {
	queue, err := os.OpenFile(store+".queue.lock", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // the operator names the store
	if err != nil {
		return nil, err
	}
	write, err := os.OpenFile(store+".write.lock", os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // as above
	if err != nil {
		return nil, errors.Join(err, queue.Close())
	}
	return &turn{queue: queue, write: write}, nil
}

// take waits for the turn.
func (t *turn) take() error {
	if t == nil {
		return nil
	}
	deadline := time.Now().Add(turnTimeout)
	if err := wait(t.queue, deadline); err != nil {
		return err
	}
	return errors.Join(wait(t.write, deadline), unlock(t.queue))
}

// drop ends the turn. It cannot fail on a file that is open; and what was written is written.
func (t *turn) drop() {
	if t != nil {
		_ = unlock(t.write)
	}
}

func (t *turn) close() error {
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
