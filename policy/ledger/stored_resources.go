package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
)

// StoredResource is a resource that a provider stores.
type StoredResource = chargelog.StoredResource

// AddStoredResources stores the owners of resources until RemoveStoredResource, and returns once they are on disk. The first account to store a resource owns it; later
// calls for it change nothing.
func (l *Ledger) AddStoredResources(ctx context.Context, resources ...StoredResource) error {
	if err := ctx.Err(); err != nil || len(resources) == 0 {
		return err
	}
	e := &chargelog.Entry{Resources: resources, ResourcesAt: l.o.Now().UnixMicro()}
	o := &commit.Op{
		Entry: e,
		Apply: func() error { return l.book.storeResources(e) },
		Done:  func(error) { l.pending.remove(e) },
	}
	l.pending.add(e)
	if err := l.writer.Append(o); err != nil {
		l.pending.remove(e)
		return fmt.Errorf("store the owner of %s: %w", resources[0].ID, err)
	}
	l.writer.WaitSynced(o)
	return nil
}

func (b *book) storeResources(e *chargelog.Entry) error {
	for _, r := range e.Resources {
		if _, err := b.Exec(`INSERT INTO kept (id, account, provider, at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, r.ID, r.Account, r.Provider, e.ResourcesAt); err != nil {
			return err
		}
	}
	return nil
}

// StoredResource finds a resource by its id; ok is false if it is unknown. The first account that stored it is its owner, so the store takes precedence over waiting
// entries.
func (l *Ledger) StoredResource(ctx context.Context, id string) (r StoredResource, ok bool, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	waiting, waits := l.pending.resource(id)
	r.ID = id
	err = l.reads.QueryRowContext(ctx, `SELECT account, provider FROM kept WHERE id = ?`, id).Scan(&r.Account, &r.Provider)
	if errors.Is(err, sql.ErrNoRows) {
		return waiting, waits, nil
	}
	if err != nil {
		return StoredResource{}, false, fmt.Errorf("owner of %s: %w", id, err)
	}
	return r, true, nil
}

// StoredResources finds several resources by their ids. Unknown ones are missing in the result.
func (l *Ledger) StoredResources(ctx context.Context, ids []string) (known map[string]StoredResource, err error) {
	defer asUnavailable(&err)
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	known = make(map[string]StoredResource, len(ids))
	for _, id := range ids {
		if r, ok := l.pending.resource(id); ok {
			known[id] = r
		}
	}
	rows, err := l.reads.QueryContext(ctx, `SELECT id, account, provider FROM kept WHERE id `+l.reads.InList, l.reads.StringList(ids))
	if err != nil {
		return nil, fmt.Errorf("owner of %s…: %w", ids[0], err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r StoredResource
		if err := rows.Scan(&r.ID, &r.Account, &r.Provider); err != nil {
			return nil, err
		}
		known[r.ID] = r
	}
	return known, rows.Err()
}

// RemoveStoredResource deletes a resource that its provider has deleted.
func (l *Ledger) RemoveStoredResource(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := l.do(func(b *book) error {
		_, err := b.Exec(`DELETE FROM kept WHERE id = ?`, id)
		return err
	}, nil)
	if err != nil {
		return fmt.Errorf("remove the owner of %s: %w", id, err)
	}
	return nil
}
