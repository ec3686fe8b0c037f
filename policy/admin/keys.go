package admin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// DefaultTier is the plan of a key that is created without one.
const DefaultTier = policy.TierPro

// pepperVersion names the pepper that key hashes are made with; there is one.
const pepperVersion = 1

// How long a replaced secret stays valid.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 90 * 24 * time.Hour
)

// MaxAmount is the limit of a single amount, as in the ledger.
const MaxAmount = 1_000_000_000 * policy.USD

// CreateKey creates a key and stores it. once is the caller's idempotency key, or "": a second call with the same one creates no key, and its fault
// is a Conflict that names the first key.
func (s *Service) CreateKey(ctx context.Context, n *NewKey, once string) (Created, error) {
	row, opening, err := n.row()
	if err != nil {
		return Created{}, err
	}
	pepper, err := s.Pepper(ctx)
	if err != nil {
		return Created{}, err
	}
	row, secret, err := drawKey(pepper, row, once)
	if err != nil {
		return Created{}, err
	}
	if err := s.Books.CreateKey(ctx, row, opening); err != nil {
		if errors.Is(err, ledger.ErrKeyExists) && once != "" {
			return Created{}, fault.New(fault.Conflict, fmt.Sprintf("a request with this Idempotency-Key made the key %s: its secret was shown then; rotate it for another one", row.ID), err)
		}
		return Created{}, faultOf(projectError(err))
	}
	c := Created{ID: row.ID, Key: secret, Name: row.Name, Tier: row.Tier}
	if row.Prepaid {
		c.Balance = &opening
	}
	return c, nil
}

// row returns the row of a new key without the id and the hash, and its opening balance.
func (n *NewKey) row() (row ledger.KeyRow, opening policy.Micro, err error) {
	row = ledger.KeyRow{Tier: DefaultTier, Prepaid: n.Balance.Given && !n.Balance.Null}
	row.Publishable = n.Publishable.Value
	if !n.Name.Given {
		return row, 0, invalid("name", " is missing")
	}
	if opening, err = parseAmount("balance_usd", n.Balance.Value); err != nil {
		return row, 0, err
	}
	if err := n.apply(&row); err != nil {
		return row, 0, err
	}
	if row.Publishable && (!row.Prepaid || row.SpendDay <= 0 && row.SpendMonth <= 0 || len(row.Networks) == 0 && len(row.Origins) == 0) {
		return row, 0, invalid("publishable", " needs balance_usd, limit_usd_day or limit_usd_month, and ip or origins: who has the key can use it up")
	}
	return row, opening, nil
}

// projectError names the key's member in an error about a project that does not exist.
func projectError(err error) error {
	if errors.Is(err, ledger.ErrUnknownGroup) {
		f := fault.New(fault.InvalidRequest, "project: there is none with this id", err)
		f.Param = "project"
		return f
	}
	return err
}

// DrawKey generates a key's id and secret, and completes its row.
func DrawKey(pepper *auth.Pepper, row ledger.KeyRow) (complete ledger.KeyRow, secret string, err error) {
	return drawKey(pepper, row, "")
}

// drawKey is DrawKey with an id that is derived from once, unless that is "".
func drawKey(pepper *auth.Pepper, row ledger.KeyRow, once string) (complete ledger.KeyRow, secret string, err error) {
	key, err := auth.NewKey(rand.Reader)
	if once != "" {
		key, err = derivedKey(once)
	}
	if err == nil && (row.Publishable || once != "") {
		key, err = auth.NewSecret(rand.Reader, key.ID(), row.Publishable)
	}
	if err != nil {
		return row, "", err
	}
	row.ID, row.PepperVersion = policy.Account(key.ID()), pepperVersion
	row.Hash, err = pepper.Hash(key)
	return row, key.Reveal(), err
}

// derivedKey returns a key whose id is derived from an idempotency key. Its secret is derived, too, and must not be used.
func derivedKey(once string) (auth.Key, error) {
	return auth.NewKey(&derived{block: sha256.Sum256([]byte("bardo key " + once))})
}

// derived is an endless stream of bytes derived from a seed: the seed itself, its hash, the hash of that, and so on.
type derived struct {
	block [sha256.Size]byte
	at    int // bytes of the block that were read
}

// Read fills b.
func (d *derived) Read(b []byte) (int, error) {
	for i := range b {
		if d.at == len(d.block) {
			d.block, d.at = sha256.Sum256(d.block[:]), 0
		}
		b[i] = d.block[d.at]
		d.at++
	}
	return len(b), nil
}

// Page selects a part of a list.
type Page struct {
	After string // last id of the previous page; "" for the first page
	Limit int    // 0 means all
}

// Keys returns the keys, oldest first; more reports whether others follow. An unknown After is a fault of its member.
func (s *Service) Keys(ctx context.Context, p Page) (keys []Key, more bool, err error) {
	rows, err := s.Books.Keys(ctx)
	if err != nil {
		return nil, false, faultOf(err)
	}
	if rows, more, err = page(rows, p, func(k *ledger.KeyRow) string { return string(k.ID) }); err != nil {
		return nil, false, err
	}
	keys = make([]Key, len(rows))
	for i := range rows {
		if keys[i], err = s.withBalance(ctx, &rows[i]); err != nil {
			return nil, false, err
		}
	}
	return keys, more, nil
}

// page returns a part of a list.
func page[T any](all []T, p Page, id func(*T) string) (part []T, more bool, err error) {
	first := 0
	if p.After != "" {
		for first < len(all) && id(&all[first]) != p.After {
			first++
		}
		if first == len(all) {
			return nil, false, invalid("after", " %q is no id of the list", fault.Clip(p.After))
		}
		first++
	}
	all = all[first:]
	if p.Limit > 0 && len(all) > p.Limit {
		return all[:p.Limit], true, nil
	}
	return all, false, nil
}

// Key returns one key.
func (s *Service) Key(ctx context.Context, id policy.Account) (Key, error) {
	row, err := s.row(ctx, id)
	if err != nil {
		return Key{}, err
	}
	return s.withBalance(ctx, &row)
}

func (s *Service) row(ctx context.Context, id policy.Account) (ledger.KeyRow, error) {
	if strings.HasPrefix(string(id), "bardo_") { // not repeated in the error: it may be a whole key
		return ledger.KeyRow{}, fault.New(fault.InvalidRequest, "give the key's id, which `bardo keys list` shows, and not the key itself", nil)
	}
	var row ledger.KeyRow
	var ok bool
	var err error
	if isPlain(string(id)) {
		row, ok, err = s.Books.Key(ctx, id)
	}
	if err == nil && !ok {
		err = fmt.Errorf("key %s: %w", fault.Clip(string(id)), ledger.ErrUnknownKey)
	}
	return row, faultOf(err)
}

// isPlain reports whether a string can be looked up in any store: not all take every byte.
func isPlain(s string) bool {
	return len(s) <= maxItem && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// withBalance returns a key with its balance.
func (s *Service) withBalance(ctx context.Context, k *ledger.KeyRow) (Key, error) {
	out := keyOf(k)
	if !k.Prepaid {
		return out, nil
	}
	b, err := s.Books.Balance(ctx, k.ID)
	if err != nil {
		return out, faultOf(err)
	}
	out.Balance, out.Credit = &b.Amount, &b.Credit
	return out, nil
}

// nothingToChange returns the fault for a change without members.
func nothingToChange() error {
	return fault.New(fault.InvalidRequest, "nothing to change: give at least one member", nil)
}

// UpdateKey changes a key, and returns it.
func (s *Service) UpdateKey(ctx context.Context, id policy.Account, f *KeyFields) (Key, error) {
	if _, err := s.row(ctx, id); err != nil {
		return Key{}, err
	}
	if f.Empty() {
		return Key{}, nothingToChange()
	}
	err := s.Books.UpdateKey(ctx, id, func(k *ledger.KeyRow) error {
		if k.Revoked() {
			return revoked(id)
		}
		return f.apply(k)
	})
	if err != nil {
		return Key{}, faultOf(projectError(err))
	}
	return s.Key(ctx, id)
}

// RevokeKey revokes a key permanently, and returns it. Its balance stays in the ledger. Revoking a revoked key has no effect.
func (s *Service) RevokeKey(ctx context.Context, id policy.Account) (Key, error) {
	if _, err := s.row(ctx, id); err != nil {
		return Key{}, err
	}
	if err := s.Books.RevokeKey(ctx, id); err != nil {
		return Key{}, faultOf(err)
	}
	return s.Key(ctx, id)
}

// RotateKey gives a key a new secret, which is not stored. The old one stays valid for a while.
func (s *Service) RotateKey(ctx context.Context, id policy.Account, how Rotation) (r Rotated, err error) {
	overlap := DefaultOverlap
	if how.Overlap.Given {
		if n := how.Overlap.Value; n < 0 || n > int64(MaxOverlap/time.Second) {
			return r, invalid("overlap_seconds", " %d, expected 0 to %d", n, MaxOverlap/time.Second)
		}
		overlap = time.Duration(how.Overlap.Value) * time.Second
	}
	row, err := s.row(ctx, id)
	if err != nil {
		return r, err
	}
	key, err := auth.NewSecret(rand.Reader, string(id), row.Publishable)
	if err != nil {
		return r, err
	}
	pepper, err := s.Pepper(ctx)
	if err != nil {
		return r, err
	}
	hash, err := pepper.Hash(key)
	if err != nil {
		return r, err
	}
	r = Rotated{ID: id, Key: key.Reveal(), OldUntil: now().Add(overlap)}
	err = s.Books.UpdateKey(ctx, id, func(k *ledger.KeyRow) error {
		if k.Revoked() {
			return revoked(id)
		}
		k.Hash, k.OldHash, k.OldUntil, k.PepperVersion = hash, k.Hash, r.OldUntil, pepperVersion
		return nil
	})
	return r, faultOf(err)
}
