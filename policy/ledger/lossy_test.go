package ledger

import (
	"errors"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"

	"bardo.money/gateway/policy/ledger/chargelog"
)

// sector is the size of a disk's atomic write in bytes.
const sector = 512

// lossyDisk is the disk of a gateway's charge log; it also counts the store's commits. Unsynced writes are lost in part when the power fails.
// Every write, sync and commit is a step: at a given one the disk fails for good, or for a while.
type lossyDisk struct {
	mu    sync.Mutex
	files []*lossyFile
	steps int
	fail  func(step int) error // of a step; may be nil
	dead  bool                 // all steps fail
}

var errDead = errors.New("the power is out")

// step is nil if a step succeeds. d.mu is locked.
func (d *lossyDisk) step() error {
	d.steps++
	if d.dead {
		return errDead
	}
	if d.fail == nil {
		return nil
	}
	err := d.fail(d.steps)
	d.dead = errors.Is(err, errDead)
	return err
}

// taken is the number of steps so far.
func (d *lossyDisk) taken() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.steps
}

// commit is the hook of the store's commits.
func (d *lossyDisk) commit() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.step()
}

// diesAt makes all steps fail from one on.
func (d *lossyDisk) diesAt(step int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = func(n int) error {
		if n >= step {
			return errDead
		}
		return nil
	}
}

// isFullAt makes some steps fail for lack of space.
func (d *lossyDisk) isFullAt(first, last int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = func(n int) error {
		if first <= n && n <= last {
			return syscall.ENOSPC
		}
		return nil
	}
}

// powerOff makes all further steps fail.
func (d *lossyDisk) powerOff() { d.diesAt(0) }

func (d *lossyDisk) wrap(f *os.File) chargelog.File {
	d.mu.Lock()
	defer d.mu.Unlock()
	file := &lossyFile{File: f, disk: d, path: f.Name()}
	d.files = append(d.files, file)
	return file
}

// loseUnsynced keeps in the files what was synced, and random sectors of other writes.
func (d *lossyDisk) loseUnsynced(t testing.TB, random *rand.Rand) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.files {
		image := f.synced
		for _, w := range f.unsynced {
			for from := 0; from < len(w.b); {
				to := min(len(w.b), from+sector-int(w.at+int64(from))%sector)
				if random.IntN(2) == 0 {
					image = overwrite(image, w.b[from:to], w.at+int64(from))
				}
				from = to
			}
		}
		if err := os.WriteFile(f.path, image, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// lossyFile is a file on the disk. All writes are also in the system's file, where other processes read them until the power fails.
type lossyFile struct {
	*os.File

	disk     *lossyDisk
	path     string
	synced   []byte
	unsynced []lossyWrite
}

type lossyWrite struct {
	b  []byte
	at int64
}

func overwrite(image, b []byte, at int64) []byte {
	if end := int(at) + len(b); end > len(image) {
		image = append(image, make([]byte, end-len(image))...)
	}
	copy(image[at:], b)
	return image
}

func (f *lossyFile) WriteAt(b []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		if !f.disk.dead {
			return 0, err
		}
		b = b[:len(b)/2] // the process ends in the middle of the write
		_, _ = f.File.WriteAt(b, at)
		f.unsynced = append(f.unsynced, lossyWrite{append([]byte(nil), b...), at})
		return len(b), err
	}
	f.unsynced = append(f.unsynced, lossyWrite{append([]byte(nil), b...), at})
	return f.File.WriteAt(b, at)
}

func (f *lossyFile) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.step(); err != nil {
		return err
	}
	for _, w := range f.unsynced {
		f.synced = overwrite(f.synced, w.b, w.at)
	}
	f.unsynced = nil
	return nil
}

func (f *lossyFile) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.dead {
		return errDead
	}
	f.synced = f.synced[:min(len(f.synced), int(size))]
	return f.File.Truncate(size)
}
