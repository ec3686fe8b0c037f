package ledger

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy"
)

func TestAKeyIsReadAsItWasWritten(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	full := KeyRow{
		ID: "full", Name: "a key", Tier: policy.TierGolem, Hash: "$2a$x", PepperVersion: 2, Prepaid: true, Credit: 7, ReadOnly: true,
		RPM: policy.Unlimited, TokensPerHour: 1 << 40, SpendDay: 3 * usd,
		Networks:  []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Guards:    policy.Guards{Injection: "quarantine", PII: "mask"},
		CreatedAt: time.UnixMicro(1_000_001), RevokedAt: time.UnixMicro(2_000_002),
		Rules: KeyRules{
			Scope: policy.Scope{
				Models: []string{"m", "claude-*"}, Subsystems: []string{"risk"}, Origins: []string{"https://a.example"}, Expires: time.UnixMicro(3_000_003),
			},
			SpendMonth: 4 * usd, Publishable: true, OldHash: "$2a$y", OldUntil: time.UnixMicro(4_000_004),
		},
	}
	bare := KeyRow{ID: "bare", CreatedAt: time.UnixMicro(2_000_000)}
	for _, k := range []KeyRow{bare, full} {
		if err := l.CreateKey(t.Context(), k, 0); err != nil {
			t.Fatal(err)
		}
	}
	have, err := tool(t, path).Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := []KeyRow{full, bare}; !reflect.DeepEqual(have, want) {
		t.Errorf("%+v\nwant %+v", have, want)
	}
	want := policy.Principal{
		Account: "full", Name: "a key", Tier: policy.TierGolem, Prepaid: true, ReadOnly: true, Networks: full.Networks,
		Limits: policy.Limits{RPM: -1, TokensPerHour: 1 << 40, SpendPerDay: 3 * usd}, Guards: full.Guards,
		Scope: full.Scope, Publishable: true, Budgets: []policy.Budget{{Holder: policy.OfKey, ID: "full", PerMonth: 4 * usd}},
	}
	if p := have[0].Principal(); !reflect.DeepEqual(p, want) {
		t.Errorf("%+v\nwant %+v", p, want)
	}
}

func TestChangesOfKeysThatAreRefused(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	if err := l.CreateKey(t.Context(), KeyRow{ID: "indebted", Prepaid: true, Credit: usd}, 0); err != nil {
		t.Fatal(err)
	}
	capture(t, l, reserve(t, l, "indebted", "r", usd), usd)
	mine := errors.New("mine")
	for _, c := range []struct {
		sentence string
		err      error
		want     error
	}{
		{"an id that is taken", l.CreateKey(t.Context(), KeyRow{ID: "k"}, 0), ErrKeyExists},
		{"a balance of a metered key", l.CreateKey(t.Context(), KeyRow{ID: "m"}, usd), ErrMetered},
		{"an opening debt", l.CreateKey(t.Context(), KeyRow{ID: "d", Prepaid: true}, -1), ErrAmount},
		{"an update of an unknown key", l.UpdateKey(t.Context(), "nobody", func(*KeyRow) error { return nil }), ErrUnknownKey},
		{"an update that fails", l.UpdateKey(t.Context(), "k", func(*KeyRow) error { return mine }), mine},
		{"a prepaid key made metered", l.UpdateKey(t.Context(), "k", func(k *KeyRow) error { k.Prepaid = false; return nil }), ErrPrepaid},
		{"a revocation of an unknown key", l.RevokeKey(t.Context(), "nobody"), ErrUnknownKey},
		{
			"a credit above the debt", l.UpdateKey(t.Context(), "indebted", func(k *KeyRow) error { k.Credit = 1; return nil }), ErrAmount,
		},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", c.sentence, c.err, c.want)
		}
	}
	for _, id := range []policy.Account{"", "operator:revenue"} {
		if err := l.CreateKey(t.Context(), KeyRow{ID: id}, 0); err == nil {
			t.Errorf("a key with the id %q was made", id)
		}
	}
	if _, ok, err := l.Key(t.Context(), "m"); ok || err != nil {
		t.Errorf("a refused key is there: %v, %v", ok, err)
	}
	wantClean(t, l)
}

func TestAMeteredKeyCanBecomePrepaid(t *testing.T) {
	l := gateway(t, storePath(t))
	if err := l.CreateKey(t.Context(), KeyRow{ID: "k"}, 0); err != nil {
		t.Fatal(err)
	}
	wantBalance(t, l, "k", Balance{})
	if err := l.UpdateKey(t.Context(), "k", func(k *KeyRow) error { k.ID, k.Prepaid = "ignored", true; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Deposit(t.Context(), "k", usd, "first"); err != nil {
		t.Fatal(err)
	}
	reserve(t, l, "k", "r", usd)
	wantClean(t, l)
}

func TestARevocationByAnotherProcessIsNoticed(t *testing.T) {
	path := storePath(t)
	l := openWith(t, path, Options{Gateway: true})
	cli := tool(t, path)
	polltest.Soon(t, time.Second, "a revocation", func() time.Duration {
		id := policy.Account(rand.Text())
		withKey(t, l, id, 0)
		before, start := l.Generation(), time.Now()
		if err := cli.RevokeKey(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the generation moves", func() bool { return l.Generation() != before })
		return time.Since(start)
	})
	withKey(t, l, "k", usd)
	if err := cli.RevokeKey(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	k, ok, err := l.Key(t.Context(), "k")
	if !ok || err != nil || !k.Revoked() {
		t.Errorf("%+v, %v, %v", k, ok, err)
	}
	if err := cli.RevokeKey(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := l.Key(t.Context(), "k"); again.RevokedAt != k.RevokedAt {
		t.Error("a second revocation changed the time of the first")
	}
}

func TestTheGenerationMovesWithKeysAlone(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	before := l.Generation()
	capture(t, l, reserve(t, l, "k", "r", 1), 1)
	if l.Generation() != before {
		t.Error("a charge moved it")
	}
	if err := l.RevokeKey(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if l.Generation() == before {
		t.Error("a revocation did not move it")
	}
}

func TestADepositCountsOnce(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "a", usd)
	withKey(t, l, "b", usd)
	for _, c := range []struct {
		sentence string
		key      policy.Account
		amount   policy.Micro
		ref      string
		balance  policy.Micro
		want     error
	}{
		{"the first time", "a", usd, "march", 2 * usd, nil},
		{"a repetition changes nothing", "a", usd, "march", 2 * usd, nil},
		{"another amount is a mistake", "a", 2 * usd, "march", 0, ErrReused},
		{"another reference counts", "a", usd, "april", 3 * usd, nil},
		{"another key may use the reference", "b", usd, "march", 2 * usd, nil},
		{"an amount of zero", "a", 0, "zero", 0, ErrAmount},
		{"a negative amount", "a", -1, "debt", 0, ErrAmount},
		{"an unknown key", "nobody", usd, "march", 0, ErrUnknownKey},
	} {
		balance, err := l.Deposit(t.Context(), c.key, c.amount, c.ref)
		if balance != c.balance || !errors.Is(err, c.want) {
			t.Errorf("%s: %s, %v, want %s, %v", c.sentence, balance, err, c.balance, c.want)
		}
	}
	for ref, want := range map[string]policy.Micro{"march": usd, "opening": usd, "zero": 0} {
		if have, err := l.Deposited(t.Context(), "a", ref); err != nil || have != want {
			t.Errorf("%s brought %s, %v, want %s", ref, have, err, want)
		}
	}
	wantClean(t, l)
}
