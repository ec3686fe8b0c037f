package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
)

// Kept is a resource that a provider stores (a file, batch or response) and the account that owns it. Several accounts may share the
// provider's key, which can access all of them.
type Kept struct {
	ID       string // issued by the provider
	Account  policy.Account
	Provider policy.ProviderID
}

// Keep stores the owners of resources until Drop, and returns once that is durable or deferred. The first account to claim a resource owns it;
// later claims change nothing.
func (l *Ledger) Keep(ctx context.Context, things ...Kept) error {
	if err := ctx.Err(); err != nil || len(things) == 0 {
		return err
	}
	n := &note{Kept: things, At: l.o.Now().UnixMicro()}
	err := l.writer.await(&op{
		apply:      func(b *book) error { return b.keep(n) },
		done:       func(error) { l.waiting.removeThings(things) },
		note:       n,
		onDeferred: func() { l.waiting.addThings(things) },
	})
	if err != nil && !errors.Is(err, errDeferred) {
		return fmt.Errorf("keep %s: %w", things[0].ID, err)
	}
	return nil
}

func (b *book) keep(n *note) error {
	for _, k := range n.Kept {
		if _, err := b.exec(`INSERT INTO kept (id, account, provider, at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, k.ID, k.Account, k.Provider, n.At); err != nil {
			return err
		}
	}
	return nil
}

// Kept finds a resource by its id; ok is false if it is unknown.
func (l *Ledger) Kept(ctx context.Context, id string) (k Kept, ok bool, err error) {
	if k, ok := l.waiting.thing(id); ok {
		return k, true, nil
	}
	k.ID = id
	err = l.reads.QueryRowContext(ctx, `SELECT account, provider FROM kept WHERE id = ?`, id).Scan(&k.Account, &k.Provider)
	if errors.Is(err, sql.ErrNoRows) {
		return Kept{}, false, nil
	}
	if err != nil {
		return Kept{}, false, fmt.Errorf("kept %s: %w", id, err)
	}
	return k, true, nil
}

// KeptOf finds several resources by their ids. Unknown ones are missing in the result.
func (l *Ledger) KeptOf(ctx context.Context, ids []string) (known map[string]Kept, err error) {
	known = make(map[string]Kept, len(ids))
	if len(ids) == 0 {
		return known, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	rows, err := l.reads.QueryContext(ctx, `SELECT id, account, provider FROM kept WHERE id IN (SELECT value FROM json_each(?))`, string(list))
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
	err := l.writer.do(func(b *book) error {
		_, err := b.exec(`DELETE FROM kept WHERE id = ?`, id)
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("drop %s: %w", id, err)
	}
	return nil
}
