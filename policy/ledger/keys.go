package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
)

// KeyRow is an API key's row. A limit of zero means the configured default.
type KeyRow struct {
	ID            policy.Account
	Name          string
	Tier          policy.Tier
	Hash          string // for verification; opaque here
	PepperVersion int
	Prepaid       bool         // has a balance; a key without one is metered
	Credit        policy.Micro // how far below zero a balance may go
	ReadOnly      bool
	RPM           int
	TokensPerHour int64
	SpendDay      policy.Micro
	Networks      []netip.Prefix
	Guards        policy.Guards
	CreatedAt     time.Time // zero means now
	RevokedAt     time.Time // zero if not revoked
	KeyRules
	Project string // "" for none

	groups keyGroups // of the project, as the row was read
}

// Revoked reports whether the key was revoked.
func (k KeyRow) Revoked() bool { return !k.RevokedAt.IsZero() }

// Principal is the identity of the key's requests.
func (k KeyRow) Principal() policy.Principal {
	return policy.Principal{
		Account: k.ID, Name: k.Name, Tier: k.Tier, Prepaid: k.Prepaid, ReadOnly: k.ReadOnly, Networks: k.Networks,
		Limits: policy.Limits{RPM: k.RPM, TokensPerHour: k.TokensPerHour, SpendPerDay: k.SpendDay}, Guards: k.Guards,
		Scope: k.Scope, Budgets: k.budgets(), Publishable: k.Publishable,
	}
}

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

// CreateFirstKey stores a metered key if the store has no key at all, revoked ones included; of several gateways that
// start at the same time, one makes it. The error is as CreateKey's.
func (l *Ledger) CreateFirstKey(ctx context.Context, k KeyRow) (created bool, err error) {
	k.CreatedAt = l.o.Now()
	err = l.changeKeys(ctx, func(b *book) error {
		created = false // the function may run twice
		var keys int64
		if err := b.Row(`SELECT count(*) FROM "key"`).Scan(&keys); err != nil || keys > 0 {
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

// UpdateKey reads a key, applies change and stores it atomically. The id, the creation time and whether it is publishable stay. The error
// is ErrUnknownKey, what change returned, ErrPrepaid, ErrAmount when the balance is below the new credit, ErrClosed, or
// the store's.
func (l *Ledger) UpdateKey(ctx context.Context, id policy.Account, change func(*KeyRow) error) error {
	err := l.changeKeys(ctx, func(b *book) error {
		k, err := scanKey(b.Row(selectKeys+` WHERE k.id = ?`, id))
		if err != nil {
			return err
		}
		before := k
		if err := change(&k); err != nil {
			return err
		}
		if before.Prepaid && !k.Prepaid {
			return ErrPrepaid
		}
		k.ID, k.CreatedAt, k.Publishable = before.ID, before.CreatedAt, before.Publishable
		return b.storeKey(k)
	})
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
	return l.writer.do(change, func(err error) {
		if err == nil {
			l.generation.Add(1)
		}
	})
}

// Generation is incremented after any key was created, changed or revoked: immediately by this handle, within a second by other processes, whose
// other writes also increment it. A key that is read afterwards shows the change. It is an atomic load.
func (l *Ledger) Generation() uint64 { return l.generation.Load() }

// Key reads a key; ok is false when there is none. While a database is known not to answer, the error comes without a wait for it.
func (l *Ledger) Key(ctx context.Context, id policy.Account) (k KeyRow, ok bool, err error) {
	if f := l.writer.backlog.storeFailure(); reasonOf(f) == store.Away {
		return KeyRow{}, false, fmt.Errorf("key %s: %w", id, f)
	}
	k, err = scanKey(l.reads.QueryRowContext(ctx, selectKeys+` WHERE k.id = ?`, id))
	if errors.Is(err, ErrUnknownKey) {
		return KeyRow{}, false, nil
	}
	if err != nil {
		return KeyRow{}, false, fmt.Errorf("key %s: %w", id, err)
	}
	return k, true, nil
}

// Keys reads all keys, the oldest first.
func (l *Ledger) Keys(ctx context.Context) ([]KeyRow, error) {
	keys, err := store.ReadAll(ctx, l.reads, scanKey, selectKeys+` ORDER BY k.created_at, k.id`)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return keys, nil
}

func (b *book) createKey(k KeyRow, opening policy.Micro) error {
	_, err := b.Exec(`INSERT INTO account (name) VALUES (?)`, k.ID)
	if store.IsUnique(err) {
		return ErrKeyExists
	}
	if err != nil {
		return err
	}
	if err := b.storeKey(k); err != nil || opening == 0 {
		return err
	}
	_, err = b.deposit(k.ID, opening, "opening", k.CreatedAt)
	return err
}

// storeKey writes a key's row and, for a prepaid one, creates its balance if it is missing. The key's account exists.
func (b *book) storeKey(k KeyRow) error {
	var revoked sql.NullInt64
	if k.Revoked() {
		revoked = sql.NullInt64{Int64: k.RevokedAt.UnixMicro(), Valid: true}
	}
	rules, err := k.text()
	if err := errors.Join(err, k.check(), b.checkProject(&k)); err != nil {
		return err
	}
	if _, err := b.Exec(`INSERT INTO "key" (id, name, tier, hash, pepper_version, prepaid, read_only,
	rpm, tokens_per_hour, spend_per_day, networks, injection, pii, rules, project, created_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULLIF(CAST(? AS TEXT), ''), ?, ?)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tier = excluded.tier, hash = excluded.hash, pepper_version = excluded.pepper_version,
	prepaid = excluded.prepaid, read_only = excluded.read_only, rpm = excluded.rpm, tokens_per_hour = excluded.tokens_per_hour,
	spend_per_day = excluded.spend_per_day, networks = excluded.networks, injection = excluded.injection, pii = excluded.pii, rules = excluded.rules, project = excluded.project,
	created_at = excluded.created_at, revoked_at = excluded.revoked_at`,
		k.ID, k.Name, k.Tier, k.Hash, k.PepperVersion, k.Prepaid, k.ReadOnly,
		k.RPM, k.TokensPerHour, k.SpendDay, joinNetworks(k.Networks), k.Guards.Injection, k.Guards.PII, rules, k.Project, k.CreatedAt.UnixMicro(), revoked); err != nil {
		return err
	}
	if !k.Prepaid {
		return nil
	}
	_, err = b.Exec(`INSERT INTO balance (account, credit) SELECT id, CAST(?2 AS BIGINT) FROM account WHERE name = ?1
ON CONFLICT (account) DO UPDATE SET credit = excluded.credit`, k.ID, k.Credit)
	if store.IsCheck(err) {
		return fmt.Errorf("%w: the balance is below a credit of %s USD", ErrAmount, k.Credit)
	}
	return err
}

const selectKeys = `SELECT k.id, k.name, k.tier, k.hash, k.pepper_version, k.prepaid, coalesce(b.credit, 0), k.read_only,
	k.rpm, k.tokens_per_hour, k.spend_per_day, k.networks, k.injection, k.pii, k.rules, k.created_at, k.revoked_at, ` + selectGroups + `
FROM "key" k JOIN account a ON a.name = k.id LEFT JOIN balance b ON b.account = a.id` + joinGroups

// scanKey reads a row of selectKeys. The error is ErrUnknownKey when there is none.
func scanKey(row store.Scanner) (k KeyRow, err error) {
	var networks, rules string
	var created int64
	var revoked sql.NullInt64
	var groups keyGroups
	err = row.Scan(append([]any{
		&k.ID, &k.Name, &k.Tier, &k.Hash, &k.PepperVersion, &k.Prepaid, &k.Credit, &k.ReadOnly,
		&k.RPM, &k.TokensPerHour, &k.SpendDay, &networks, &k.Guards.Injection, &k.Guards.PII, &rules, &created, &revoked,
	}, groups.fields()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return KeyRow{}, ErrUnknownKey
	}
	if err != nil {
		return KeyRow{}, err
	}
	if k.Project = groups.project.ID; k.Project != "" {
		k.groups = groups
	}
	k.CreatedAt = time.UnixMicro(created)
	if revoked.Valid {
		k.RevokedAt = time.UnixMicro(revoked.Int64)
	}
	if err := k.parse(rules); err != nil {
		return KeyRow{}, err
	}
	k.Networks, err = splitNetworks(networks)
	return k, err
}

func joinNetworks(networks []netip.Prefix) string {
	parts := make([]string, len(networks))
	for i, n := range networks {
		parts[i] = n.String()
	}
	return strings.Join(parts, " ")
}

func splitNetworks(s string) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for part := range strings.FieldsSeq(s) {
		n, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, err
		}
		networks = append(networks, n)
	}
	return networks, nil
}
