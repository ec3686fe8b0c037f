// Package keys has the rows of API keys in the ledger's store, and of their projects and owners, with rules and limits. It moves no money, and
// does not know how a key is verified: a hash is an opaque string here.
package keys

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

// Errors of keys and their changes.
var (
	// ErrUnknown says that there is no such key.
	ErrUnknown = errors.New("there is no such key")
	// ErrExists says that a key's id is taken.
	ErrExists = errors.New("there is a key with this id already")
	// ErrPrepaid says that a key with a balance cannot become metered.
	ErrPrepaid = errors.New("the key has a balance: it cannot become metered")
	// ErrAmount says that an amount is out of range.
	ErrAmount = errors.New("the amount is out of range")
)

// Row is an API key's row. A limit of zero means the configured default.
type Row struct {
	ID            policy.Account
	Name          string
	Tier          policy.Tier
	Hash          string // for verification; opaque here
	PepperVersion int
	Prepaid       bool         // has a balance; a key without one is metered
	Credit        policy.Micro // how far below zero the balance may fall
	ReadOnly      bool
	RPM           int
	TokensPerHour int64
	SpendDay      policy.Micro
	Networks      []netip.Prefix
	Guards        policy.Guards
	CreatedAt     time.Time // zero means now
	RevokedAt     time.Time // zero if not revoked
	Rules
	Project string // "" for none

	groups groups // set when the row is read
}

// Revoked reports whether the key was revoked.
func (k Row) Revoked() bool { return !k.RevokedAt.IsZero() }

// Principal is the identity of the key's requests.
func (k Row) Principal() policy.Principal {
	return policy.Principal{
		Account: k.ID, Name: k.Name, Tier: k.Tier, Prepaid: k.Prepaid, ReadOnly: k.ReadOnly, Networks: k.Networks,
		Limits: policy.Limits{RPM: k.RPM, TokensPerHour: k.TokensPerHour, SpendPerDay: k.SpendDay}, Guards: k.Guards,
		Scope: k.Scope, Project: k.Project, Owner: k.groups.owner.ID, Budgets: k.budgets(), Publishable: k.Publishable,
	}
}

// Create stores a new key and its account. The error is ErrExists, ErrRules, ErrUnknownGroup, or the store's.
func Create(b *store.Book, k *Row) error {
	_, err := b.Exec(`INSERT INTO account (name) VALUES (?)`, k.ID)
	if store.IsUnique(err) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	return write(b, k)
}

// Count returns the number of keys, including revoked ones.
func Count(b *store.Book) (n int64, err error) {
	err = b.Row(`SELECT count(*) FROM "key"`).Scan(&n)
	return n, err
}

// Update reads a key, applies change and stores it. The id, the creation time and Publishable cannot be changed. The error is ErrUnknown, that of change,
// ErrPrepaid, ErrAmount when the balance is below the new credit, ErrRules, ErrUnknownGroup, or the store's.
func Update(b *store.Book, id policy.Account, change func(*Row) error) error {
	k, err := scan(b.Row(selectRows+` WHERE k.id = ?`, id))
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
	return write(b, &k)
}

// Find reads a key. The error is ErrUnknown when there is none, or the store's.
func Find(ctx context.Context, reads *store.Readers, id policy.Account) (Row, error) {
	return scan(reads.QueryRowContext(ctx, selectRows+` WHERE k.id = ?`, id))
}

// All reads all keys, the oldest first.
func All(ctx context.Context, db store.Queryer) ([]Row, error) {
	return store.ReadAll(ctx, db, scan, selectRows+` ORDER BY k.created_at, k.id`)
}

// write stores a key's row and, for a prepaid one, creates its balance if it is missing. The key's account exists.
func write(b *store.Book, k *Row) error {
	var revoked sql.NullInt64
	if k.Revoked() {
		revoked = sql.NullInt64{Int64: k.RevokedAt.UnixMicro(), Valid: true}
	}
	rules, err := k.text()
	if err := errors.Join(err, k.check(), checkProject(b, k)); err != nil {
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

const selectRows = `SELECT k.id, k.name, k.tier, k.hash, k.pepper_version, k.prepaid, coalesce(b.credit, 0), k.read_only,
	k.rpm, k.tokens_per_hour, k.spend_per_day, k.networks, k.injection, k.pii, k.rules, k.created_at, k.revoked_at, ` + selectGroups + `
FROM "key" k JOIN account a ON a.name = k.id LEFT JOIN balance b ON b.account = a.id` + joinGroups

// scan scans a row of selectRows. The error is ErrUnknown when there is none.
func scan(row store.Scanner) (k Row, err error) {
	var networks, rules string
	var created int64
	var revoked sql.NullInt64
	var groups groups
	err = row.Scan(append([]any{
		&k.ID, &k.Name, &k.Tier, &k.Hash, &k.PepperVersion, &k.Prepaid, &k.Credit, &k.ReadOnly,
		&k.RPM, &k.TokensPerHour, &k.SpendDay, &networks, &k.Guards.Injection, &k.Guards.PII, &rules, &created, &revoked,
	}, groups.fields()...)...)
	if errors.Is(err, sql.ErrNoRows) {
		return Row{}, ErrUnknown
	}
	if err != nil {
		return Row{}, err
	}
	if k.Project = groups.project.ID; k.Project != "" {
		k.groups = groups
	}
	k.CreatedAt = time.UnixMicro(created)
	if revoked.Valid {
		k.RevokedAt = time.UnixMicro(revoked.Int64)
	}
	if err := k.parse(rules); err != nil {
		return Row{}, err
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
