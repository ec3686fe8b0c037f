package identity_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/identity"
)

const ada = identity.Privy + identity.Subject("did:privy:ada")

// accounts are keys in memory.
type accounts struct {
	keys       map[policy.Account]policy.Principal
	generation uint64
	reads      int
	err        error
}

func (a *accounts) Principal(_ context.Context, of policy.Account) (policy.Principal, bool, error) {
	a.reads++
	p, ok := a.keys[of]
	return p, ok, a.err
}

func (a *accounts) Generation() uint64 { return a.generation }

// bench is a book at a time of its own.
type bench struct {
	*identity.Book

	accounts accounts
	now      time.Time
	path     string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "identities.db"), now: time.Unix(1_700_000_000, 0)}
	b.accounts.keys = make(map[policy.Account]policy.Principal)
	for _, a := range []policy.Account{"a", "b"} {
		b.accounts.keys[a] = policy.Principal{Account: a}
	}
	b.Book = b.open(t)
	return b
}

func (b *bench) open(t *testing.T) *identity.Book {
	t.Helper()
	s, err := identity.Open(t.Context(), b.path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return identity.New(s, &b.accounts, func() time.Time { return b.now })
}

func (b *bench) link(t *testing.T, l identity.Link) {
	t.Helper()
	l.At = b.now
	if err := b.Link(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

// owner returns the account of ada, "" for none.
func (b *bench) owner(t *testing.T) policy.Account {
	t.Helper()
	_, p, ok, err := b.Owner(t.Context(), ada)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	return p.Account
}

func TestASubjectHasTheAccountThatItWasLinkedToLast(t *testing.T) {
	b := newBench(t)
	if a := b.owner(t); a != "" {
		t.Errorf("before it is linked: %q", a)
	}
	for _, account := range []policy.Account{"a", "b"} {
		b.link(t, identity.Link{Subject: ada, Account: account})
		if a := b.owner(t); a != account {
			t.Errorf("%q, want %q", a, account)
		}
	}
	if all, err := b.Links(t.Context(), "a"); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	if err := b.Unlink(t.Context(), "a", ada); !errors.Is(err, identity.ErrUnknown) {
		t.Errorf("another account ends the link: %v", err)
	}
	if err := b.Unlink(t.Context(), "b", ada); err != nil {
		t.Fatal(err)
	}
	if a := b.owner(t); a != "" {
		t.Errorf("after its end: %q", a)
	}
}

func TestLinksOutliveTheGateway(t *testing.T) {
	b := newBench(t)
	b.link(t, identity.Link{Subject: ada, Account: "a", Holder: "0x01", Expires: b.now.Add(time.Hour)})
	all, err := b.open(t).Links(t.Context(), "a")
	if err != nil || len(all) != 1 || all[0].Subject != ada || all[0].Holder != "0x01" || !all[0].At.Equal(b.now) || !all[0].Expires.Equal(b.now.Add(time.Hour)) {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestALinkExpires(t *testing.T) {
	b := newBench(t)
	b.link(t, identity.Link{Subject: ada, Account: "a", Expires: b.now.Add(5 * time.Second)})
	if b.owner(t) != "a" {
		t.Error("it has expired before its time")
	}
	b.now = b.now.Add(5 * time.Second)
	if b.owner(t) != "" {
		t.Error("it has not expired")
	}
}

// A cached result is not read again, until an account or a link has changed.
func TestWhatIsKnownCostsNoRead(t *testing.T) {
	b := newBench(t)
	b.link(t, identity.Link{Subject: ada, Account: "a"})
	if b.Knows(ada) {
		t.Error("it is known before it was asked for")
	}
	for range 3 {
		b.owner(t)
	}
	if b.accounts.reads != 1 || !b.Knows(ada) {
		t.Errorf("%d reads", b.accounts.reads)
	}
	delete(b.accounts.keys, "a") // it was revoked
	b.accounts.generation++
	if a := b.owner(t); a != "" {
		t.Errorf("a revoked key still has %q", a)
	}
}

func TestAnotherProcesssChangeIsSeenInSeconds(t *testing.T) {
	b := newBench(t)
	b.link(t, identity.Link{Subject: ada, Account: "a"})
	b.owner(t)
	if err := b.open(t).Unlink(t.Context(), "a", ada); err != nil {
		t.Fatal(err)
	}
	b.now = b.now.Add(10 * time.Second)
	if a := b.owner(t); a != "" {
		t.Errorf("it is still linked to %q", a)
	}
}

func TestAStoreThatFailsLetsNobodyIn(t *testing.T) {
	b := newBench(t)
	b.link(t, identity.Link{Subject: ada, Account: "a"})
	b.accounts.err = errors.New("locked")
	if _, _, ok, err := b.Owner(t.Context(), ada); ok || err == nil {
		t.Errorf("%v, %v", ok, err)
	}
	b.accounts.err = nil
	if b.owner(t) != "a" {
		t.Error("the failure is remembered")
	}
}

func TestAnAccountHasABoundedNumberOfLinks(t *testing.T) {
	b := newBench(t)
	for i := range identity.MaxLinks {
		b.link(t, identity.Link{Subject: identity.Subject(fmt.Sprintf("privy:%d", i)), Account: "a"})
	}
	if err := b.Link(t.Context(), identity.Link{Subject: ada, Account: "a"}); !errors.Is(err, identity.ErrFull) {
		t.Errorf("one more: %v", err)
	}
	if err := b.Link(t.Context(), identity.Link{Subject: "privy:0", Account: "a"}); err != nil {
		t.Errorf("one that it has: %v", err)
	}
}
