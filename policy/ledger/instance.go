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
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/lock"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// lockOf is the path of an instance's lock file, which is locked while it runs.
func lockOf(store string, instance int64) string {
	return store + "." + strconv.FormatInt(instance, 10) + ".lock"
}

// joinStore registers this handle as an instance of the store, with a new id. It is called again after the lock file was removed, because others may have
// considered the gateway dead; if they have returned its blocks, its free money in memory is dropped.
func (l *Ledger) joinStore(b *book) error {
	var alive lock.File
	var backed bool
	earlier := b.Instance
	err := b.atomically(func(b *book) (err error) {
		if b.State.Expelled {
			if err := b.returnBlocks(earlier); err != nil {
				return err
			}
		}
		alive, backed, err = b.joinAs(l.o.Now())
		return err
	})
	if err != nil {
		b.Instance = earlier
		return errors.Join(err, alive.Release())
	}
	if !backed || b.State.Expelled {
		l.dropFree()
	}
	l.lease.Renew(b.State.Began)
	err = l.alive.Release()
	l.alive = alive
	l.instance.Store(b.Instance)
	return errors.Join(err, l.writer.PlaceLog(chargelog.PrefixOf(b.Path, b.Instance), earlier == 0))
}

// rejoin registers this handle in a store whose file was replaced, for instance by a backup. Money in memory is not backed by blocks there.
func (l *Ledger) rejoin(b *book) error {
	reads, err := b.OpenReads(context.Background())
	if err != nil {
		return err
	}
	l.reads.Replace(reads)
	b.Instance = 0
	l.mu.Lock()
	for _, a := range l.accounts {
		a.reset()
	}
	l.mu.Unlock()
	l.generation.Add(1)
	return l.joinStore(b)
}

// joinAs adds the instance's row and takes its lock before the row is visible, so that a running instance never looks dead. The blocks of the
// handle's earlier id are moved to the new one; backed is false if others have returned them.
func (b *book) joinAs(at time.Time) (alive lock.File, backed bool, err error) {
	const tries = 100
	for range tries {
		id, err := b.Join(at)
		if err != nil {
			return lock.File{}, false, err
		}
		alive = lock.File{Path: lockOf(b.Path, id)}
		ok, err := alive.Try()
		if err != nil {
			return lock.File{}, false, err
		}
		if ok {
			backed, err := b.takeOver(id)
			return alive, backed, err
		}
		// A gateway on an earlier file at this path has this id: delete the row and try another id.
		if _, err := b.Exec(`DELETE FROM instance WHERE id = ?`, id); err != nil {
			return lock.File{}, false, err
		}
	}
	return lock.File{}, false, fmt.Errorf("%d lock files beside the store are taken, the last is %s", tries, alive.Path)
}

func (b *book) takeOver(id int64) (backed bool, err error) {
	earlier := b.Instance
	b.Instance = id
	if earlier == 0 {
		return true, nil
	}
	if _, err := b.Exec(`UPDATE block SET instance = ? WHERE instance = ?`, id, earlier); err != nil {
		return false, err
	}
	n, err := b.Exec(`DELETE FROM instance WHERE id = ?`, earlier)
	return n == 1, err
}

// removeDead returns the blocks of instances and removes them. Instances that were removed already are skipped, so that only one of several
// gateways returns their money. The lock file is removed first: an instance without one is dead.
func (b *book) removeDead(dead []int64) error {
	for _, id := range dead {
		if err := b.returnBlocks(id); err != nil {
			return err
		}
		if err := os.Remove(lockOf(b.Path, id)); err != nil && !errors.Is(err, fs.ErrNotExist) { //nolint:gosec // the operator names the store
			return err
		}
		_, err := b.Exec(`DELETE FROM instance WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM block WHERE instance = ?1)`, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// returnBlocks returns every block of an instance to its balance. A block that exceeds the balance's held amount stays, so that an audit reports it.
func (b *book) returnBlocks(instance int64) error {
	blocks, err := store.ReadAll(context.Background(), b, scanEntry,
		`SELECT k.account, k.micro FROM block k JOIN balance b ON b.account = k.account WHERE k.instance = ? AND b.held >= k.micro`, instance)
	if err != nil {
		return err
	}
	for _, k := range blocks {
		if _, err := b.Exec(`DELETE FROM block WHERE account = ? AND instance = ?`, k.account, instance); err != nil {
			return err
		}
		if err := b.releaseHeld(k.account, k.amount); err != nil {
			return err
		}
	}
	return nil
}

func scanEntry(row store.Scanner) (e entry, err error) {
	err = row.Scan(&e.account, &e.amount)
	return e, err
}

// instances are the store's other instances. An instance is running if its lock is taken, or if it is on another machine and its lease has not ended; else it
// is dead and does not come back.
type instances struct {
	alive, dead []int64
	registered  bool
}

func (l *Ledger) otherInstances() (c instances, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	all, err := store.ReadAll(ctx, l.reads, scanEntry, `SELECT id, `+l.reads.Idle+` FROM instance ORDER BY id`)
	if err != nil {
		return instances{}, err
	}
	own := l.instance.Load()
	for _, i := range all {
		id, idle := i.account, int64(i.amount) // microseconds
		if id == own {
			c.registered = true
			continue
		}
		taken, there, err := lock.IsTaken(lockOf(l.path, id))
		if err != nil {
			return instances{}, err
		}
		if taken || !there && idle < l.o.Lease.Microseconds() {
			c.alive = append(c.alive, id)
		} else {
			c.dead = append(c.dead, id)
		}
	}
	return c, nil
}

// keepLease renews the lease of a gateway in PostgreSQL. If it may have ended, blocks are not used before the store was written again.
func (l *Ledger) keepLease() {
	switch {
	case l.lease.IsExpiring():
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, a := range l.accounts {
			a.suspend()
		}
	case l.lease.Length > 0 && l.lease.IsDue():
		_ = l.write(func(*book) error { return nil }) // an error begins an outage of the store
	}
}

// suspend makes the next reserve read the store before it uses the block.
func (a *account) suspend() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = false
}

// heartbeat runs every second in a gateway: it checks that the store exists, recovers dead gateways, and registers again if this one looks dead.
func (l *Ledger) heartbeat() {
	l.writer.CheckLog()
	l.keepLease()
	if l.StoreFailure() != nil {
		return
	}
	if !l.writer.CheckStore() {
		return
	}
	c, err := l.recoverDead(l.write)
	if commit.IsUnwritable(err) {
		return
	}
	if err != nil {
		l.o.Log.Error("ledger: what stopped gateways have left held was not given back", "error", err)
		return
	}
	if len(c.dead) > 0 {
		l.o.Log.Info("ledger: gave back what stopped gateways had left held", "gateways", len(c.dead))
	}
	l.writer.SetShared(len(c.alive) > 0)
	err = l.between(func(b *book) error { // the writer may have registered again
		if c.registered && l.alive.Exists() {
			return nil
		}
		l.o.Log.Error("ledger: this gateway's lock file was removed while it ran; it takes another one", "file", l.alive.Path)
		return l.joinStore(b)
	})
	if err != nil {
		l.o.Log.Error("ledger: no lock could be taken beside the store", "error", err)
	}
}

// dropFree drops the free part of all blocks.
func (l *Ledger) dropFree() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		a.dropFree()
	}
}

// unpaidBlock is this gateway's block of a key, less the charges that are not applied yet.
func (l *Ledger) unpaidBlock(ctx context.Context, v *usage.View, acct policy.Account, account int64) (sum policy.Micro, err error) {
	err = v.QueryRowContext(ctx, `SELECT coalesce(sum(micro), 0) FROM block WHERE account = ? AND instance = ?`,
		account, l.instance.Load()).Scan(&sum)
	for _, e := range v.Own {
		if e.Prepaid && e.IsOf(acct) {
			sum -= e.Paid
		}
	}
	return sum, err
}
