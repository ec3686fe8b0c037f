package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"bardo.money/gateway/policy"
)

// lockOf names the file whose lock an instance has while it lives.
func lockOf(store string, instance int64) string {
	return store + "." + strconv.FormatInt(instance, 10) + ".lock"
}

// enter makes this handle an instance of the store, under a number of its own. A handle that is one already gets a new
// number: its lock file was taken away, so that others may think that it is dead. When they have given its blocks back,
// whatever it still has in memory is not backed any more, and the free part of it is forgotten.
func (l *Ledger) enter(b *book) error {
	var lock fileLock
	var backed bool
	earlier := b.instance
	err := b.atomically(func(b *book) (err error) { lock, backed, err = b.join(l.o.Now()); return err })
	if err != nil {
		b.instance = earlier
		return errors.Join(err, lock.drop())
	}
	if !backed {
		l.forgetFree()
	}
	err = l.alive.drop()
	l.alive = lock
	l.instance.Store(b.instance)
	if err := l.writer.backlog.follow(b.path, b.instance); err != nil {
		l.o.Log.Warn("ledger: charges that have to wait for the store will be in memory alone", "error", err)
	}
	return err
}

// renew joins a store that lies where the one of before was, such as one that was restored from a backup. Nothing that memory holds is
// backed there.
func (l *Ledger) renew(b *book) error {
	reads, err := openReads(context.Background(), b.path)
	if err != nil {
		return err
	}
	l.reads.replace(reads)
	b.instance = 0
	l.mu.Lock()
	for _, a := range l.accounts {
		a.forget()
	}
	l.mu.Unlock()
	l.generation.Add(1)
	return l.enter(b)
}

// join adds the instance's row, and takes the lock before anybody can see it, so that no living instance ever looks dead.
// The blocks of the handle's earlier number become the new one's; backed is false when they are gone.
func (b *book) join(at time.Time) (lock fileLock, backed bool, err error) {
	const tries = 100
	for range tries {
		var id int64
		if err := b.row(`INSERT INTO instance (at) VALUES (?) RETURNING id`, at.UnixMicro()).Scan(&id); err != nil {
			return fileLock{}, false, err
		}
		lock = fileLock{path: lockOf(b.path, id)}
		ok, err := lock.try()
		if err != nil {
			return fileLock{}, false, err
		}
		if ok {
			backed, err := b.inherit(id)
			return lock, backed, err
		}
		// A gateway on a store that lay here before has this number: the row is given up, and the number with it.
		if _, err := b.exec(`DELETE FROM instance WHERE id = ?`, id); err != nil {
			return fileLock{}, false, err
		}
	}
	return fileLock{}, false, fmt.Errorf("%d lock files beside the store are taken, the last is %s", tries, lock.path)
}

func (b *book) inherit(id int64) (backed bool, err error) {
	earlier := b.instance
	b.instance = id
	if earlier == 0 {
		return true, nil
	}
	if _, err := b.exec(`UPDATE block SET instance = ? WHERE instance = ?`, id, earlier); err != nil {
		return false, err
	}
	n, err := b.exec(`DELETE FROM instance WHERE id = ?`, earlier)
	return n == 1, err
}

// bury gives the blocks of instances back and removes them. Instances that are gone already are left alone, so that of all
// who find one dead a single one gives its money back. The lock file goes first: an instance without one is dead.
func (b *book) bury(dead []int64) error {
	for _, id := range dead {
		if err := b.returnBlocks(id); err != nil {
			return err
		}
		if err := os.Remove(lockOf(b.path, id)); err != nil && !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the operator names the store
			return err
		}
		_, err := b.exec(`DELETE FROM instance WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM block WHERE instance = ?1)`, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// returnBlocks gives every block of an instance back. One that its balance does not hold is left for an audit to find.
func (b *book) returnBlocks(instance int64) error {
	blocks, err := readAll(context.Background(), b.conn, scanEntry,
		`SELECT k.account, k.micro FROM block k JOIN balance b ON b.account = k.account WHERE k.instance = ? AND b.held >= k.micro`, instance)
	if err != nil {
		return err
	}
	for _, k := range blocks {
		if _, err := b.exec(`UPDATE balance SET held = held - ? WHERE account = ?`, k.amount, k.account); err != nil {
			return err
		}
		if _, err := b.exec(`DELETE FROM block WHERE account = ? AND instance = ?`, k.account, instance); err != nil {
			return err
		}
	}
	return nil
}

func scanEntry(row scanner) (e entry, err error) {
	err = row.Scan(&e.account, &e.amount)
	return e, err
}

// census tells the store's instances apart: those whose lock is taken live, the others do not any more and never will again.
// The handle's own number is in neither; here says whether it is there.
type census struct {
	alive, dead []int64
	here        bool
}

func (l *Ledger) census() (c census, err error) {
	all, err := readAll(context.Background(), l.reads, scanNumber, `SELECT id FROM instance ORDER BY id`)
	if err != nil {
		return census{}, err
	}
	own := l.instance.Load()
	for _, id := range all {
		if id == own {
			c.here = true
			continue
		}
		taken, err := isTaken(lockOf(l.path, id))
		if err != nil {
			return census{}, err
		}
		if taken {
			c.alive = append(c.alive, id)
		} else {
			c.dead = append(c.dead, id)
		}
	}
	return c, nil
}

func scanNumber(row scanner) (n int64, err error) {
	err = row.Scan(&n)
	return n, err
}

// attend is what a living gateway does for the store every second: it makes sure that the store is there, recovers what dead gateways
// left, and makes sure that it does not look dead itself.
func (l *Ledger) attend() {
	if l.Writable() != nil {
		return
	}
	if err := l.writer.between((*book).present); err != nil {
		l.writer.fail(err)
		return
	}
	c, err := l.recoverDead(l.write)
	if isUnwritable(err) {
		return
	}
	if err != nil {
		l.o.Log.Error("ledger: what stopped gateways have left held was not given back", "error", err)
		return
	}
	if len(c.dead) > 0 {
		l.o.Log.Info("ledger: gave back what stopped gateways had left held", "gateways", len(c.dead))
	}
	l.writer.company.Store(len(c.alive) > 0)
	if c.here && l.alive.isThere() {
		return
	}
	l.o.Log.Error("ledger: this gateway's lock file was removed while it ran; it takes another one", "file", l.alive.path)
	if err := l.writer.between(l.enter); err != nil {
		l.o.Log.Error("ledger: no lock could be taken beside the store", "error", err)
	}
}

// write commits a change together with others.
func (l *Ledger) write(change func(*book) error) error { return l.writer.do(change, nil) }

// forgetFree drops what is free of all blocks.
func (l *Ledger) forgetFree() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.loseBlock()
	}
}

// heldByOthers is what other gateways' blocks hold of a key.
func (l *Ledger) heldByOthers(ctx context.Context, account int64) (sum policy.Micro, err error) {
	err = l.reads.QueryRowContext(ctx, `SELECT coalesce(sum(micro), 0) FROM block WHERE account = ? AND instance <> ?`,
		account, l.instance.Load()).Scan(&sum)
	return sum, err
}
