package ledger

import (
	"context"

	"bardo.money/gateway/policy"
)

// news is what a gateway must hear of a key of which it may have money in memory: it was blocked, or another gateway is
// short of its money.
type news struct {
	account  policy.Account
	blocked  bool
	shortAt  int64
	answered int64 // the last shortAt that this gateway answered
}

// readChanges is called by the writer's goroutine when another process changed the store.
func (l *Ledger) readChanges() {
	l.generation.Add(1)
	if !l.o.Gateway || l.Writable() != nil { // at the end of an outage it is called again
		return
	}
	all, err := readAll(context.Background(), l.writer.book.conn, scanNews, `SELECT a.name, b.blocked, b.short_at, coalesce(k.answered, b.short_at)
FROM balance b JOIN account a ON a.id = b.account LEFT JOIN block k ON k.account = b.account AND k.instance = ?
WHERE b.blocked = 1 OR b.short_at > 0`, l.instance.Load())
	if err != nil {
		l.o.Log.Error("ledger: what other gateways need cannot be read", "error", err)
		return
	}
	var answers []*op
	for _, n := range all {
		if a := l.known(n.account); a != nil {
			answers = append(answers, l.follow(a, n)...)
		}
	}
	l.writer.commit(answers)
}

func scanNews(row scanner) (n news, err error) {
	err = row.Scan(&n.account, &n.blocked, &n.shortAt, &n.answered)
	return n, err
}

// known is an account that was used since the start, or nil.
func (l *Ledger) known(name policy.Account) *account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[name]
}

// follow does what the news of a key ask for, as far as memory goes, and returns what is to be written.
func (l *Ledger) follow(a *account, n news) []*op {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.blocked {
		a.ready = false // ask the store at each reserve, until a deposit
	}
	if n.shortAt <= n.answered || a.row == 0 {
		return nil
	}
	free, row := a.free, a.row
	a.free = 0
	return []*op{{
		apply: func(b *book) error { return b.answer(row, free, n.shortAt) },
		done:  func(err error) { a.restore(free, err) },
	}}
}

// restore takes back what could not be given away.
func (a *account) restore(free policy.Micro, err error) {
	if err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += free
}

// answer gives back what a gateway is short of, or says that nothing is free.
func (b *book) answer(account int64, free policy.Micro, shortAt int64) error {
	_, err := b.exec(`UPDATE block SET answered = ? WHERE account = ? AND instance = ?`, shortAt, account, b.instance)
	if err != nil || free == 0 {
		return err
	}
	return b.returnFree(account, free)
}
