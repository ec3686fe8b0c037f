// Package identity links external identities to accounts: people who sign in elsewhere, and agents that are registered on a chain. It stores the
// links and finds the principal of an identity. It does not know how control of an identity is proved.
package identity

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"bardo.money/gateway/policy"
)

// Subject names an identity, as in privy:did:privy:….
type Subject string

// Privy is the prefix of subjects of people who signed in with Privy.
const Privy = "privy:"

// Link is the account of a subject.
type Link struct {
	Subject Subject
	Account policy.Account
	Holder  string // the address that proved control of an agent; "" for other subjects
	At      time.Time
	Expires time.Time // zero: never
}

// Expired reports whether the link has expired.
func (l *Link) Expired(now time.Time) bool { return !l.Expires.IsZero() && !now.Before(l.Expires) }

// MaxLinks is how many subjects one account may have.
const MaxLinks = 64

// Errors.
var (
	// ErrUnknown means that the account has no such link.
	ErrUnknown = errors.New("the account has no such link")
	// ErrFull means that the account has the maximum number of links.
	ErrFull = errors.New("the account has as many links as it may have")
	// ErrUsed means that a proof was used before.
	ErrUsed = errors.New("the proof was used before")
)

// Accounts finds principals. Safe for concurrent use.
type Accounts interface {
	// Principal returns the principal of an account's key; ok is false if the key was revoked, or does not exist.
	Principal(ctx context.Context, a policy.Account) (p policy.Principal, ok bool, err error)
	// Generation changes within a second after any account did. It must not block.
	Generation() uint64
}

// Book finds the principals of subjects. Safe for concurrent use.
type Book struct {
	*Store

	accounts Accounts
	now      func() time.Time
	changes  atomic.Uint64 // of links, by this book
	found    *lru.Cache[Subject, *found]
}

// found is the cached result for a subject. Immutable.
type found struct {
	link       Link // zero where ok is false
	principal  policy.Principal
	ok         bool
	generation uint64
	changes    uint64
	at         time.Time
}

// Limits of a book's cache. Changes of links by other processes are seen after fresh.
const (
	remembered = 1 << 14
	fresh      = 10 * time.Second
)

// New returns a book. now may be nil.
func New(s *Store, a Accounts, now func() time.Time) *Book {
	if now == nil {
		now = time.Now
	}
	all, _ := lru.New[Subject, *found](remembered) // fails for sizes below 1 only
	return &Book{Store: s, accounts: a, now: now, found: all}
}

// Owner returns the link of a subject and the principal of its account; ok is false if it has none, or the account's key was revoked.
func (b *Book) Owner(ctx context.Context, s Subject) (l Link, p policy.Principal, ok bool, err error) {
	f := b.known(s)
	if f == nil {
		if f, err = b.find(ctx, s); err != nil {
			return Link{}, policy.Principal{}, false, err
		}
	}
	return f.link, f.principal, f.ok && !f.link.Expired(b.now()), nil
}

// Knows reports whether Owner returns without reading a store.
func (b *Book) Knows(s Subject) bool { return b.known(s) != nil }

func (b *Book) known(s Subject) *found {
	f, ok := b.found.Get(s)
	if !ok || f.generation != b.accounts.Generation() || f.changes != b.changes.Load() || b.now().Sub(f.at) >= fresh {
		return nil
	}
	return f
}

// find reads a subject's link and its account.
func (b *Book) find(ctx context.Context, s Subject) (f *found, err error) {
	f = &found{generation: b.accounts.Generation(), changes: b.changes.Load(), at: b.now()} // before the store is read, so that a change in between is seen at the next request
	if f.link, f.ok, err = b.Find(ctx, s); err != nil {
		return nil, err
	}
	if f.ok {
		if f.principal, f.ok, err = b.accounts.Principal(ctx, f.link.Account); err != nil {
			return nil, err
		}
	}
	b.found.Add(Subject(strings.Clone(string(s))), f)
	return f, nil
}

// Link links a subject to an account, replacing its earlier link. The error is ErrFull or the store's.
func (b *Book) Link(ctx context.Context, l Link) error {
	defer b.changes.Add(1)
	return b.put(ctx, &linkWrite{link: l, now: b.now()})
}

// linkAgent links an agent by a proof whose nonce is recorded as used until a time. It replaces the account's links whose subjects begin with sole.
// The error is ErrFull, ErrUsed or the store's.
func (b *Book) linkAgent(ctx context.Context, l Link, nonce []byte, until time.Time, sole Subject) error {
	defer b.changes.Add(1)
	return b.put(ctx, &linkWrite{link: l, nonce: nonce, until: until, sole: sole, now: b.now()})
}

// Unlink ends a link of an account. The error is ErrUnknown or the store's.
func (b *Book) Unlink(ctx context.Context, a policy.Account, s Subject) error {
	defer b.changes.Add(1)
	return b.remove(ctx, a, s)
}
