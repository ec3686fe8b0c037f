package auth

import (
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// rotate gives the bench's key a new secret, and returns both.
func (b *bench) rotate(t *testing.T, until time.Time) (old, fresh Key) {
	t.Helper()
	fresh, err := NewSecret(rand.Reader, b.key.ID(), false)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := b.keys.pepper.Hash(fresh)
	if err != nil {
		t.Fatal(err)
	}
	old = b.key
	b.store.change(b.key.ID(), func(r *Row) { r.Hash, r.OldHash, r.OldUntil = hash, r.Hash, until })
	b.key = fresh
	return old, fresh
}

// TestBothSecretsCountUntilTheOverlapEnds: in either order, each is hashed once, and the store is not read after the first use.
func TestBothSecretsCountUntilTheOverlapEnds(t *testing.T) {
	for _, seen := range []bool{true, false} {
		b := newBench(t, policy.Principal{Name: "ada"})
		b.keys = freshKeys(t, b)
		if seen {
			b.mustVerify(t)
		}
		synctest.Test(t, func(t *testing.T) {
			old, fresh := b.rotate(t, time.Now().Add(time.Hour))
			for _, k := range []Key{old, fresh, old, fresh} {
				if _, ok, err := b.verify(with(k)); !ok || err != nil {
					t.Fatalf("%v: %v, %v", seen, ok, err)
				}
			}
			release, reads := b.dear(), b.store.reads.Load()
			for _, k := range []Key{old, fresh} {
				if _, ok, err := b.verify(with(k)); !ok || err != nil {
					t.Errorf("again: %v, %v", ok, err)
				}
				if !b.keys.Immediate(Request{Header: with(k)}) {
					t.Error("a secret that is known waits")
				}
			}
			_, _, err := b.verify(with(sibling(t, fresh)))
			wantFault(t, err, fault.InvalidAPIKey)
			if n := b.store.reads.Load() - reads; n != 0 {
				t.Errorf("%d reads of the store", n)
			}
			time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock
			if _, _, err = b.verify(with(old)); err == nil {
				t.Error("the old secret counts after the overlap")
			}
			wantFault(t, err, fault.InvalidAPIKey)
			b.mustVerify(t)
			release()
		})
	}
}

// TestWhetherAnOldSecretWaits: bcrypt of an unused secret does not block one of Envoy's threads.
func TestWhetherAnOldSecretWaits(t *testing.T) {
	b := newBench(t, policy.Principal{})
	old, fresh := b.rotate(t, time.Now().Add(time.Hour))
	b.mustVerify(t)
	for _, k := range []Key{old, fresh} {
		if b.keys.Immediate(Request{Header: with(k)}) {
			t.Error("the other secret was never verified, and it does not wait")
		}
	}
}

// TestASecondRotationEndsTheFirstSecret, and a rotation without an overlap the one before it.
func TestASecondRotationEndsTheFirstSecret(t *testing.T) {
	b := newBench(t, policy.Principal{})
	b.mustVerify(t)
	first, second := b.rotate(t, time.Now().Add(time.Hour))
	b.mustVerify(t)
	_, third := b.rotate(t, time.Now())
	for _, k := range []Key{first, second} {
		_, _, err := b.verify(with(k))
		wantFault(t, err, fault.InvalidAPIKey)
	}
	if third != b.key {
		t.Fatal("another key")
	}
	b.mustVerify(t)
}

// TestWhoHasAReplacedSecretIsToldSo, after one run of bcrypt, but not a client with another secret, or with one that was replaced earlier.
func TestWhoHasAReplacedSecretIsToldSo(t *testing.T) {
	const plain, told = "the API key is not valid", "the API key is not valid: its secret was replaced by a rotation, and has not counted since 2000-01-01T01:00:00Z"
	for name, seen := range map[string]bool{"the new secret was used": true, "the key was not used": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, policy.Principal{Name: "ada"})
			synctest.Test(t, func(t *testing.T) { // its clock starts in 2000
				b.keys = freshKeys(t, b)
				first, _ := b.rotate(t, time.Now())
				old, fresh := b.rotate(t, time.Now().Add(time.Hour))
				time.Sleep(2 * time.Hour) //nolint:forbidigo // the bubble's clock
				if seen {
					b.mustVerify(t)
				}
				says := func(k Key, want string) {
					t.Helper()
					_, ok, err := b.verify(with(k))
					f, is := errors.AsType[*fault.Fault](err)
					if ok || !is || f.Kind != fault.InvalidAPIKey || f.Public != want {
						t.Errorf("%v, %v, want %q", ok, err, want)
					}
				}
				if seen && b.keys.Immediate(Request{Header: with(old)}) {
					t.Error("a replaced secret that was not sent yet does not wait")
				}
				if seen && !b.keys.Immediate(Request{Header: with(sibling(t, fresh))}) {
					t.Error("another secret waits")
				}
				release := b.dear()
				says(sibling(t, fresh), plain)
				says(first, plain)
				release()
				says(old, told)
				b.mustVerify(t)
				release = b.dear()
				reads := b.store.reads.Load()
				says(old, told)
				says(sibling(t, fresh), plain)
				says(first, plain)
				if n := b.store.reads.Load() - reads; n != 0 {
					t.Errorf("%d reads of the store", n)
				}
				if !b.keys.Immediate(Request{Header: with(old)}) {
					t.Error("a replaced secret that is known waits")
				}
				b.mustVerify(t)
				release()
				b.store.change(b.key.ID(), func(r *Row) { r.Revoked = true })
				says(old, plain)
			})
		})
	}
}

func TestWhatAKeyIsFor(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		sentence, origin string
		scope            policy.Scope
		kind             fault.Kind // "" is served
	}{
		{"anything", "", policy.Scope{}, ""},
		{"a page of any origin", "https://b.example", policy.Scope{}, ""},
		{"before it expires", "", policy.Scope{Expires: now.Add(time.Hour)}, ""},
		{"after it has expired", "", policy.Scope{Expires: now}, fault.InvalidAPIKey},
		{"a page of its origin", "https://A.example", policy.Scope{Origins: []string{"https://a.example"}}, ""},
		{"a page of another origin", "https://b.example", policy.Scope{Origins: []string{"https://a.example"}}, fault.KeyRestricted},
		{"a page of an origin that begins like its own", "https://a.example.evil", policy.Scope{Origins: []string{"https://a.example"}}, fault.KeyRestricted},
		{"no page", "", policy.Scope{Origins: []string{"https://a.example"}}, fault.KeyRestricted},
	} {
		b := newBench(t, policy.Principal{Scope: row.scope})
		for _, h := range []header.List{with(b.key), {{Name: "authorization", Value: "Bearer " + b.key.Reveal()}}} {
			if row.origin != "" {
				h = append(h, header.Field{Name: "origin", Value: row.origin})
			}
			for range 2 { // the second one is cached
				_, ok, err := b.verify(h)
				if row.kind != "" {
					wantFault(t, err, row.kind)
				} else if !ok || err != nil {
					t.Errorf("%s: %v, %v", row.sentence, ok, err)
				}
			}
		}
	}
}

// TestAPublishableKeyIsOneByItsPrefix: a key with the other kind's prefix is refused.
func TestAPublishableKeyIsOneByItsPrefix(t *testing.T) {
	for _, publishable := range []bool{false, true} {
		b := newBench(t, policy.Principal{Publishable: publishable})
		for _, prefix := range []string{keyPrefix, publicStart} {
			text := prefix + b.key.ID() + "_" + b.key.secret
			sum := checksum(text)
			k, err := Parse(text + "_" + string(sum[:]))
			if err != nil || k.Publishable() != (prefix == publicStart) {
				t.Fatalf("%v: %v", k, err)
			}
			_, ok, err := b.verify(with(k))
			if k.Publishable() == publishable {
				if !ok || err != nil {
					t.Errorf("%s: %v, %v", prefix, ok, err)
				}
				continue
			}
			wantFault(t, err, fault.InvalidAPIKey)
		}
	}
	k, err := NewSecret(rand.Reader, "abcdefghijkl", true)
	if err != nil || Mask(k.Reveal()) != "bardo_pk_abcdefghijkl_…" || !IsKey(with(k)) {
		t.Errorf("%v %v", k, err)
	}
}
