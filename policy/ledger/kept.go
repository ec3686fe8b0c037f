package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"bardo.money/gateway/policy"
)

// Kept is a thing that a provider keeps, such as a file, a batch or a response, and the account that made it. Several accounts may use
// the provider's key, which can reach all of them.
type Kept struct {
	ID       string // the provider's
	Account  policy.Account
	Provider policy.ProviderID
}

// Keep remembers things until Drop, and returns once that is durable. The first account that names a thing has it: a later one changes
// nothing.
func (l *Ledger) Keep(ctx context.Context, things ...Kept) error {
	if err := ctx.Err(); err != nil || len(things) == 0 {
		return err
	}
	at := l.o.Now().UnixMicro()
	err := l.writer.do(func(b *book) error {
		for _, k := range things {
			if _, err := b.exec(`INSERT INTO kept (id, account, provider, at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`, k.ID, k.Account, k.Provider, at); err != nil {
				return err
			}
		}
		return nil
	}, nil)
	if err != nil {
		return fmt.Errorf("keep %s: %w", things[0].ID, err)
	}
	return nil
}

// Kept is what is known of a thing; ok is false where nothing is.
func (l *Ledger) Kept(ctx context.Context, id string) (k Kept, ok bool, err error) {
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

// Drop forgets a thing that its provider keeps no more.
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
