package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/keys"
	"bardo.money/gateway/policy/ledger/store"
)

type (
	// KeyRow is an API key's row. A limit of zero means the configured default.
	KeyRow = keys.Row
	// KeyRules are restrictions of a key beyond the columns of its row. The zero value restricts nothing.
	KeyRules = keys.Rules
	// Group is a project, which groups keys, or an owner, which groups projects. A limit of zero means none.
	Group = keys.Group
)

// Errors of keys and groups.
var (
	// ErrUnknownKey says that there is no such key.
	ErrUnknownKey = keys.ErrUnknown
	// ErrKeyExists says that a key's id is taken.
	ErrKeyExists = keys.ErrExists
	// ErrPrepaid says that a key with a balance cannot become metered.
	ErrPrepaid = keys.ErrPrepaid
	// ErrAmount says that an amount is out of range.
	ErrAmount = keys.ErrAmount
	// ErrRules says that a key's rules contradict each other.
	ErrRules = keys.ErrRules
	// ErrUnknownGroup says that there is no such project or owner.
	ErrUnknownGroup = keys.ErrUnknownGroup
	// ErrGroupExists says that the id of a project or owner is taken.
	ErrGroupExists = keys.ErrGroupExists
	// ErrGroupID says that an id of a project or owner is invalid.
	ErrGroupID = keys.ErrGroupID
)

// CreateKey stores a key and its account. A prepaid key may start with an opening balance. The error is ErrKeyExists,
// ErrMetered for a balance of a metered key, ErrAmount, ErrClosed, or the store's.
func (l *Ledger) CreateKey(ctx context.Context, k KeyRow, opening policy.Micro) error {
	if k.ID == "" || strings.Contains(string(k.ID), ":") {
		return fmt.Errorf("create key %q: an id is not empty and has no colon", k.ID)
	}
	if k.CreatedAt.IsZero() {
		k.CreatedAt = l.o.Now()
	}
	err := l.changeKeys(ctx, func(b *book) error { return b.createKey(k, opening) })
	if err != nil {
		return fmt.Errorf("create key %s: %w", k.ID, err)
	}
	return nil
}

// CreateFirstKey stores a metered key if the store has no key, including revoked ones; of several gateways that
// start concurrently, one creates it. The error is as CreateKey's.
func (l *Ledger) CreateFirstKey(ctx context.Context, k KeyRow) (created bool, err error) {
	k.CreatedAt = l.o.Now()
	err = l.changeKeys(ctx, func(b *book) error {
		created = false // the function may run twice
		if n, err := keys.Count(b.Book); err != nil || n > 0 {
			return err
		}
		created = true
		return b.createKey(k, 0)
	})
	if err != nil {
		return false, fmt.Errorf("create key %s: %w", k.ID, err)
	}
	return created, nil
}

// UpdateKey reads a key, applies change and stores it atomically. The id, the creation time and Publishable cannot be changed. The error
// is ErrUnknownKey, what change returned, ErrPrepaid, ErrAmount when the balance is below the new credit, ErrClosed, or
// the store's.
func (l *Ledger) UpdateKey(ctx context.Context, id policy.Account, change func(*KeyRow) error) error {
	err := l.changeKeys(ctx, func(b *book) error { return keys.Update(b.Book, id, change) })
	if err != nil {
		return fmt.Errorf("change key %s: %w", id, err)
	}
	return nil
}

// RevokeKey revokes a key permanently; its balance stays in the books. Revoking it again changes nothing.
func (l *Ledger) RevokeKey(ctx context.Context, id policy.Account) error {
	return l.UpdateKey(ctx, id, func(k *KeyRow) error {
		if !k.Revoked() {
			k.RevokedAt = l.o.Now()
		}
		return nil
	})
}

// changeKeys commits a change of keys and increments the generation.
func (l *Ledger) changeKeys(ctx context.Context, change func(*book) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.do(change, func(err error) {
		if err == nil {
			l.generation.Add(1)
		}
	})
}

// Generation is incremented after any key was created, changed or revoked: immediately for changes of this handle, within a second for those of other
// processes, whose other writes also increment it. A key that is read afterwards shows the change. It is an atomic load.
func (l *Ledger) Generation() uint64 { return l.generation.Load() }

// Key reads a key; ok is false when there is none. While the database is known to be unreachable, it returns an error immediately.
func (l *Ledger) Key(ctx context.Context, id policy.Account) (k KeyRow, ok bool, err error) {
	defer asUnavailable(&err)
	if f := l.StoreFailure(); f != nil && f.Reason == store.Unreachable {
		return KeyRow{}, false, fmt.Errorf("key %s: %w", id, f)
	}
	k, err = keys.Find(ctx, l.reads, id)
	if errors.Is(err, ErrUnknownKey) {
		return KeyRow{}, false, nil
	}
	if err != nil {
		return KeyRow{}, false, fmt.Errorf("key %s: %w", id, err)
	}
	return k, true, nil
}

// Keys reads all keys, the oldest first.
func (l *Ledger) Keys(ctx context.Context) (all []KeyRow, err error) {
	defer asUnavailable(&err)
	all, err = keys.All(ctx, l.reads)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return all, nil
}

// createKey stores a key and its account, with an opening balance.
func (b *book) createKey(k KeyRow, opening policy.Micro) error {
	if err := keys.Create(b.Book, &k); err != nil || opening == 0 {
		return err
	}
	_, err := b.deposit(k.ID, opening, "opening", k.CreatedAt)
	return err
}

// CreateGroup stores a project or an owner. The error is ErrGroupID, ErrGroupExists, ErrUnknownGroup for the owner of a project, ErrAmount, ErrClosed, or the
// store's.
func (l *Ledger) CreateGroup(ctx context.Context, g Group) error {
	if g.CreatedAt.IsZero() {
		g.CreatedAt = l.o.Now()
	}
	err := l.changeKeys(ctx, func(b *book) error { return keys.CreateGroup(b.Book, &g) })
	if err != nil {
		return fmt.Errorf("create %s %s: %w", g.Kind, g.ID, err)
	}
	return nil
}

// UpdateGroup reads a group, applies change and stores it atomically. Kind, id and creation time cannot be changed. The error is ErrUnknownGroup, also for an
// unknown owner, the one that change returned, ErrAmount, ErrClosed, or the store's.
func (l *Ledger) UpdateGroup(ctx context.Context, kind policy.Holder, id string, change func(*Group) error) error {
	err := l.changeKeys(ctx, func(b *book) error { return keys.UpdateGroup(b.Book, kind, id, change) })
	if err != nil {
		return fmt.Errorf("change %s %s: %w", kind, id, err)
	}
	return nil
}

// Groups reads all projects, or all owners, sorted by id.
func (l *Ledger) Groups(ctx context.Context, kind policy.Holder) (groups []Group, err error) {
	defer asUnavailable(&err)
	groups, err = keys.Groups(ctx, l.reads, kind, "")
	if err != nil {
		return nil, fmt.Errorf("%ss: %w", kind, err)
	}
	return groups, nil
}
