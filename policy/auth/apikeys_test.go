package auth

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// dear occupies all bcrypt slots: callers that need one wait until the verifier's timeout.
func (b *bench) dear() (release func()) {
	n := cap(b.keys.hashers)
	for range n {
		b.keys.hashers <- struct{}{}
	}
	return func() {
		for range n {
			<-b.keys.hashers
		}
	}
}

func (b *bench) mustVerify(t *testing.T) policy.Principal {
	t.Helper()
	p, ok, err := b.verify(with(b.key))
	if !ok || err != nil {
		t.Fatalf("ok %v, error %v", ok, err)
	}
	return p
}

func TestVerifiedKeyCostsNeitherBcryptNorAStoreRead(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.mustVerify(t)
	b.dear()
	reads := b.store.reads.Load()
	for range 100 {
		b.mustVerify(t)
	}
	if n := b.store.reads.Load() - reads; n != 0 {
		t.Errorf("%d reads of the store, want none", n)
	}
}

// panics is a store with a fault of the program.
type panics struct{ Store }

func (panics) Key(context.Context, string) (Row, bool, error) { panic("a fault") }

// TestAPanicOfTheStoreEndsNoMoreThanItsRequests.
func TestAPanicOfTheStoreEndsNoMoreThanItsRequests(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.keys.store = panics{b.store}
	if p, ok, err := b.verify(with(b.key)); ok || err == nil {
		t.Errorf("%+v, %v", p, err)
	}
	b.keys.store = b.store
	b.mustVerify(t)
}

func TestWhetherVerifyingWaits(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	chain := Chain{b.keys}
	immediate := func(want bool, sentence string, r Request) {
		t.Helper()
		if chain.Immediate(r) != want {
			t.Errorf("%s: %v", sentence, !want)
		}
	}
	immediate(true, "no key", Request{})
	immediate(true, "a key that cannot be one", Request{Header: header.List{{Name: "x-api-key", Value: keyPrefix + "x"}}})
	immediate(false, "a key that was never verified", Request{Header: with(b.key)})
	b.mustVerify(t)
	immediate(true, "a key that was", Request{Header: with(b.key)})
	b.store.generation.Add(1)
	immediate(false, "a key whose row may have changed", Request{Header: with(b.key)})
	if (Chain{b.keys, b}).Immediate(Request{}) {
		t.Error("a verifier that cannot tell")
	}
}

// Verify makes the bench a verifier without Immediate.
func (b *bench) Verify(context.Context, Request) (p policy.Principal, ok bool, err error) {
	return p, false, nil
}

func TestFirstRequestsOfAKeyShareOneProof(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	synctest.Test(t, func(t *testing.T) {
		keys := freshKeys(t, b)
		b.store.gate = make(chan struct{})
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, ok, err := keys.Verify(t.Context(), Request{Header: with(b.key)}); !ok || err != nil {
					t.Errorf("ok %v, error %v", ok, err)
				}
			})
		}
		synctest.Wait()
		close(b.store.gate)
		all.Wait()
	})
	if n := b.store.reads.Load(); n != 1 {
		t.Errorf("%d reads of the store, want 1", n)
	}
}

func TestUnknownIDCostsNoBcrypt(t *testing.T) {
	b := newBench(t, policy.Principal{})
	b.dear()
	_, _, err := b.verify(with(newKey(t)))
	wantFault(t, err, fault.InvalidAPIKey)
}

func TestWrongSecretsOfAKnownIDCostNoBcrypt(t *testing.T) {
	for _, c := range []struct {
		name  string
		proof bool // the right key was used before
	}{
		{"before the key was ever used", false},
		{"after the key was used", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, policy.Principal{Name: "ada"})
			if c.proof {
				b.mustVerify(t)
			}
			release := b.dear()
			for range 200 {
				_, _, err := b.verify(with(sibling(t, b.key)))
				wantFault(t, err, fault.InvalidAPIKey)
			}
			release()
			b.mustVerify(t) // the flood did not lock the owner out
		})
	}
}

func TestASecretThatBcryptRefusedIsRefusedAgainWithoutIt(t *testing.T) {
	b := newBench(t, policy.Principal{})
	wrong := sibling(t, b.key)
	m := b.keys.pepper.mac(wrong)
	b.store.change(b.key.ID(), func(r *Row) { r.Hash = r.Hash[:bcryptLen] + markSeparator + m.mark() })
	_, _, err := b.verify(with(wrong))
	wantFault(t, err, fault.InvalidAPIKey)
	b.dear()
	_, _, err = b.verify(with(wrong))
	wantFault(t, err, fault.InvalidAPIKey)
}

func TestAStoredHashThatIsNotOneMatchesNothing(t *testing.T) {
	b := newBench(t, policy.Principal{})
	m := b.keys.pepper.mac(b.key)
	for _, hash := range []string{"", "$", "x", string(m.password()), markSeparator + m.mark()} {
		b.store.change(b.key.ID(), func(r *Row) { r.Hash = hash })
		_, _, err := b.verify(with(b.key))
		wantFault(t, err, fault.InvalidAPIKey)
	}
}

func TestAChangedRowIsSeenAtTheNextRequest(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.mustVerify(t)
	release := b.dear()
	b.store.change(b.key.ID(), func(r *Row) { r.Principal.Limits.RPM = 7 })
	if p := b.mustVerify(t); p.Limits.RPM != 7 {
		t.Errorf("limit %d, want 7", p.Limits.RPM)
	}
	b.store.change(b.key.ID(), func(r *Row) { r.Revoked = true })
	for range 3 { // repeated use of a revoked key costs no bcrypt
		_, _, err := b.verify(with(b.key))
		wantFault(t, err, fault.InvalidAPIKey)
	}
	release()
	other, err := b.keys.pepper.Hash(newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	b.store.change(b.key.ID(), func(r *Row) { r.Revoked, r.Hash = false, other })
	_, _, err = b.verify(with(b.key))
	wantFault(t, err, fault.InvalidAPIKey)
	b.store.mu.Lock()
	delete(b.store.rows, b.key.ID())
	b.store.mu.Unlock()
	b.store.generation.Add(1)
	_, _, err = b.verify(with(b.key))
	wantFault(t, err, fault.InvalidAPIKey)
}

func TestAStoreThatFailsLetsNobodyIn(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.store.err = errors.New("disk full")
	_, ok, err := b.verify(with(b.key))
	wantFault(t, err, fault.Unavailable)
	if ok {
		t.Error("admitted")
	}
	if f := fault.From(err); f.Public == err.Error() {
		t.Error("the cause is public")
	}
	b.store.err = nil
	b.mustVerify(t)
}

// TestAKnownKeyIsServedWhileTheStoreFails, as it was last read. Other secrets with its id are not, and the next successful read counts.
func TestAKnownKeyIsServedWhileTheStoreFails(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.mustVerify(t)
	b.store.err = errors.New("the database does not answer")
	b.store.generation.Add(1)
	b.mustVerify(t)
	_, _, err := b.verify(with(sibling(t, b.key)))
	wantFault(t, err, fault.Unavailable)
	b.store.err = nil
	b.store.change(b.key.ID(), func(r *Row) { r.Revoked = true })
	_, _, err = b.verify(with(b.key))
	wantFault(t, err, fault.InvalidAPIKey)
	b.store.err = errors.New("the database does not answer")
	b.store.generation.Add(1)
	_, _, err = b.verify(with(b.key))
	wantFault(t, err, fault.InvalidAPIKey)
}

func TestWaitingForAProofEnds(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	t.Run("with the request", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			keys := freshKeys(t, b)
			keys.hashers <- struct{}{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _, err := keys.Verify(ctx, Request{Header: with(b.key)})
			wantFault(t, err, fault.Unavailable)
			<-keys.hashers // the verification continues
			synctest.Wait()
			if keys.proofs.Len() != 1 {
				t.Error("the proof was lost with the request that began it")
			}
		})
	})
	t.Run("with the verifier's patience", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			keys := freshKeys(t, b)
			keys.hashers <- struct{}{}
			_, _, err := keys.Verify(t.Context(), Request{Header: with(b.key)})
			wantFault(t, err, fault.Overloaded)
			if fault.From(err).RetryAfter == 0 {
				t.Error("no Retry-After")
			}
		})
	})
}

// freshKeys returns a verifier of b's store with an empty cache and one bcrypt slot.
func freshKeys(t *testing.T, b *bench) *APIKeys {
	t.Helper()
	keys, err := NewAPIKeys(b.store, b.keys.pepper, Options{Hashers: 1})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestRememberedProofsAreBounded(t *testing.T) {
	b := newBench(t, policy.Principal{})
	keys, err := NewAPIKeys(b.store, b.keys.pepper, Options{CachedProofs: 1})
	if err != nil {
		t.Fatal(err)
	}
	other := newKey(t)
	hash, err := b.keys.pepper.Hash(other)
	if err != nil {
		t.Fatal(err)
	}
	b.store.put(other.ID(), Row{Hash: hash})
	for _, k := range []Key{b.key, other, b.key} {
		if _, ok, err := keys.Verify(t.Context(), Request{Header: with(k)}); !ok || err != nil {
			t.Errorf("%v: ok %v, error %v", k, ok, err)
		}
	}
	if keys.proofs.Len() != 1 {
		t.Errorf("%d proofs, want 1", keys.proofs.Len())
	}
}

func BenchmarkVerify(b *testing.B) {
	bn := newBench(b, policy.Principal{Name: "ada", Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	r := Request{Header: with(bn.key), Client: netip.MustParseAddr("127.0.0.1")}
	if _, ok, err := bn.keys.Verify(b.Context(), r); !ok {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, ok, err := bn.keys.Verify(context.Background(), r); !ok {
				b.Error(err)
			}
		}
	})
}
