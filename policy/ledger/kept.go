package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
)

// Kept is a resource that a provider stores.
type Kept = chargelog.Kept

// Keep stores the owners of resources until Drop, and returns once they are on disk. The first account to store a resource owns it; later
// calls for it change nothing.
func (l *Ledger) Keep(ctx context.Context, things ...Kept) error {
	if err := ctx.Err(); err != nil || len(things) == 0 {
		return err
	}
	e := &chargelog.Entry{Kept: things, KeptAt: l.o.Now().UnixMicro()}
	o := &commit.Op{
		Entry: e,
		Apply: func() error { return l.book.storeResources(e) },
		Done:  func(error) { l.pending.remove(e) },
	}
	l.pending.add(e)
	if err := l.writer.Append(o); err != nil {
		l.pending.remove(e)
		return fmt.Errorf("keep %s: %w", things[0].ID, err)
	}
	l.writer.WaitSynced(o)
	return nil
}

func (b *book) storeResources(e *chargelog.Entry) error {
	for _, k := range e.Kept {
		if _, err := b.Exec(`INSERT INTO kept (id, account, provider, at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, k.ID, k.Account, k.Provider, e.KeptAt); err != nil {
			return err
		}
	}
	return nil
}

// Kept finds a resource by its id; ok is false if it is unknown. The first account that stored it is its owner, so the store takes precedence over waiting
// entries.
func (l *Ledger) Kept(ctx context.Context, id string) (k Kept, ok bool, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	waiting, waits := l.pending.resource(id)
	k.ID = id
	err = l.reads.QueryRowContext(ctx, `SELECT account, provider FROM kept WHERE id = ?`, id).Scan(&k.Account, &k.Provider)
	if errors.Is(err, sql.ErrNoRows) {
		return waiting, waits, nil
	}
	if err != nil {
		return Kept{}, false, fmt.Errorf("kept %s: %w", id, err)
	}
	return k, true, nil
}

// KeptOf finds several resources by their ids. Unknown ones are missing in the result.
func (l *Ledger) KeptOf(ctx context.Context, ids []string) (known map[string]Kept, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	known = make(map[string]Kept, len(ids))
	for _, id := range ids {
		if k, ok := l.pending.resource(id); ok {
			known[id] = k
		}
	}
	rows, err := l.reads.QueryContext(ctx, `SELECT id, account, provider FROM kept WHERE id `+l.reads.InList, l.reads.StringList(ids))
	if err != nil {
		return nil, fmt.Errorf("kept %s…: %w", ids[0], err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var k Kept
		if err := rows.Scan(&k.ID, &k.Account, &k.Provider); err != nil {
			return nil, err
		}
		known[k.ID] = k
	}
	return known, rows.Err()
}

// Drop deletes a resource that its provider has deleted.
func (l *Ledger) Drop(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.do(func(b *book) error {
		_, err := b.Exec(`DELETE FROM kept WHERE id = ?`, id)
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("drop %s: %w", id, err)
	}
	return nil
}
