package ledger

import (
	"context"
	"maps"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
)

// keyChange is a change by another process that affects a key's money in memory: the key was blocked, or another gateway needs money of it.
type keyChange struct {
	account  policy.Account
	blocked  bool
	shortAt  int64
	answered int64 // the last shortAt that this gateway has answered
}

// readChanges is called by the writer, with exclusive use of the book, after another process changed the store.
func (l *Ledger) readChanges() {
	l.generation.Add(1)
	if !l.o.Gateway || l.StoreFailure() != nil { // at the end of an outage it is called again
		return
	}
	if err := l.refreshBalances(); err != nil {
		l.o.Log.Error("ledger: what other processes have changed cannot be read", "error", err)
	}
	all, err := store.ReadAll(context.Background(), l.book, scanKeyChange, `SELECT a.name, b.blocked, b.short_at, coalesce(k.answered, b.short_at)
FROM balance b JOIN account a ON a.id = b.account LEFT JOIN block k ON k.account = b.account AND k.instance = ?
WHERE b.blocked = 1 OR b.short_at > 0`, l.instance.Load())
	if err != nil {
		l.o.Log.Error("ledger: what other gateways need cannot be read", "error", err)
		return
	}
	var answers []*commit.Op
	for _, n := range all {
		if a := l.inMemory(n.account); a != nil {
			answers = append(answers, l.applyKeyChange(a, n)...)
		}
	}
	l.writer.Commit(answers)
}

// refreshBalances reads the balances of keys in use, which other processes may have changed. Nothing is being committed, so that the store has exactly
// the charges whose ops have ended.
func (l *Ledger) refreshBalances() error {
	used := l.inUse()
	if len(used) == 0 {
		return nil
	}
	b := l.book
	rows, err := store.ReadAll(context.Background(), b, scanEntry,
		`SELECT account, micro FROM balance WHERE account `+b.InList, b.IntList(slices.Collect(maps.Keys(used))))
	for _, r := range rows {
		used[r.account].setStored(r.amount)
	}
	return err
}

// inUse returns the accounts with money in memory, by their ids in the store.
func (l *Ledger) inUse() map[int64]*account {
	l.mu.Lock()
	defer l.mu.Unlock()
	used := map[int64]*account{}
	for _, a := range l.accounts {
		if row, ok := a.inUse(); ok {
			used[row] = a
		}
	}
	return used
}

func (a *account) inUse() (row int64, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.row, a.row != 0 && (a.free > 0 || a.openHolds > 0)
}

func scanKeyChange(row store.Scanner) (n keyChange, err error) {
	err = row.Scan(&n.account, &n.blocked, &n.shortAt, &n.answered)
	return n, err
}

// inMemory is an account that was used since the start, or nil.
func (l *Ledger) inMemory(name policy.Account) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[name]
}

// applyKeyChange applies a change to memory and returns the ops to be written.
func (l *Ledger) applyKeyChange(a *account, n keyChange) []*commit.Op {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.blocked {
		a.ready = false // each reserve reads the store, until a deposit
	}
	if n.shortAt <= n.answered || a.row == 0 {
		return nil
	}
	free, row := a.free, a.row
	a.free = 0
	return []*commit.Op{{
		Apply: func() error { return l.book.returnAndAnswer(row, free, n.shortAt) },
		Done:  func(err error) { a.restoreFree(free, err) },
	}}
}

// restoreFree adds money back that could not be returned to the balance.
func (a *account) restoreFree(free policy.Micro, err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += free
}

// returnAndAnswer returns free money that another gateway needs, or records that there is none.
func (b *book) returnAndAnswer(account int64, free policy.Micro, shortAt int64) error {
	_, err := b.Exec(`UPDATE block SET answered = ? WHERE account = ? AND instance = ?`, shortAt, account, b.Instance)
	if err != nil || free == 0 {
		return err
	}
	return b.returnFree(account, free)
}
