package run

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/admin"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/ledger"
)

// newBooks returns a gateway that has only its ledger, and a command's handle of the same ledger.
func newBooks(t *testing.T) (*gateway, *ledger.Ledger) {
	t.Helper()
	h := home.Dir(t.TempDir())
	g := &gateway{start: start{home: h}, dataPath: dataPath{books: openBooks(t, h, ledger.Options{Gateway: true})}}
	return g, openBooks(t, h, ledger.Options{})
}

func openBooks(t *testing.T, h home.Dir, o ledger.Options) *ledger.Ledger {
	t.Helper()
	books, err := ledger.Open(t.Context(), filepath.Join(string(h), "bardo.db"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := books.Close(); err != nil {
			t.Error(err)
		}
	})
	return books
}

func verify(ctx context.Context, keys *auth.APIKeys, secret, from string) (policy.Principal, error) {
	p, _, err := keys.Verify(ctx, auth.Request{Header: header.List{{Name: "x-api-key", Value: secret}}, Client: netip.MustParseAddr(from)})
	return p, err
}

func TestAKeyMadeByACommandOpensTheRunningGateway(t *testing.T) {
	g, cli := newBooks(t)
	keys, err := g.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pepper, err := g.home.Pepper(g.books.Path())
	if err != nil {
		t.Fatal(err)
	}
	row, secret, err := admin.DrawKey(pepper, ledger.KeyRow{
		Name: "alice", Tier: policy.TierGolem, Prepaid: true, ReadOnly: true, RPM: 7, SpendDay: policy.USD,
		Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := cli.CreateKey(t.Context(), row, 5*policy.USD); err != nil {
		t.Fatal(err)
	}
	id := string(row.ID)

	p, err := verify(t.Context(), keys, secret, "10.1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if p.Account != policy.Account(id) || p.Tier != policy.TierGolem || !p.Prepaid || !p.ReadOnly || p.Limits.RPM != 7 || p.Limits.SpendPerDay != policy.USD {
		t.Errorf("the principal is %+v", p)
	}
	if _, err := verify(t.Context(), keys, secret, "192.0.2.1"); !isFault(err, fault.KeyRestricted) {
		t.Errorf("from another network: %v", err)
	}

	// A command's change is in force within a second.
	if err := cli.RevokeKey(t.Context(), p.Account); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the end of the revoked key", func() bool {
		_, err := verify(t.Context(), keys, secret, "10.1.2.3")
		return isFault(err, fault.InvalidAPIKey)
	})
}

func isFault(err error, kind fault.Kind) bool {
	var f *fault.Fault
	return errors.As(err, &f) && f.Kind == kind
}

func TestAnUnknownKeyIsRefused(t *testing.T) {
	g, _ := newBooks(t)
	keys, err := g.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := (keyStore{g.books}).Key(t.Context(), "nobody"); ok || err != nil {
		t.Errorf("the store has a key that nobody made: %v, %v", ok, err)
	}
	stranger, err := auth.NewKey(zeros{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := verify(t.Context(), keys, stranger.Reveal(), "127.0.0.1"); !isFault(err, fault.InvalidAPIKey) {
		t.Errorf("a key that nobody made: %v", err)
	}
}

// zeros is a source of non-random bytes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestTheFirstKeyIsMadeOnce(t *testing.T) {
	g, cli := newBooks(t)
	secret, err := g.firstKey(t.Context())
	if err != nil || secret == "" {
		t.Fatalf("the first start made %q, %v", secret, err)
	}
	if again, err := g.firstKey(t.Context()); again != "" || err != nil {
		t.Errorf("the second start made %q, %v", again, err)
	}
	keys, err := g.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := verify(t.Context(), keys, secret, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "default" || p.Prepaid || p.Tier != policy.TierPro {
		t.Errorf("it is %+v, want a metered one of the tier pro", p)
	}

	// Revoking the only key does not create another one.
	if err := cli.RevokeKey(t.Context(), p.Account); err != nil {
		t.Fatal(err)
	}
	if again, err := g.firstKey(t.Context()); again != "" || err != nil {
		t.Errorf("after the revocation the start made %q, %v", again, err)
	}
}
