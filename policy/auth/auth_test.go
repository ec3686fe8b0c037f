package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// memory is a store of keys that counts reads.
type memory struct {
	mu         sync.Mutex
	rows       map[string]Row
	err        error
	reads      atomic.Int64
	generation atomic.Uint64
	gate       chan struct{} // when set, reads wait for it
}

func (m *memory) Key(ctx context.Context, id string) (Row, bool, error) {
	m.reads.Add(1)
	if m.gate != nil {
		select {
		case <-m.gate:
		case <-ctx.Done():
			return Row{}, false, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[id]
	return row, ok, m.err
}

func (m *memory) Generation() uint64 { return m.generation.Load() }

func (m *memory) put(id string, row Row) {
	m.mu.Lock()
	m.rows[id] = row
	m.mu.Unlock()
	m.generation.Add(1)
}

func (m *memory) change(id string, edit func(*Row)) {
	row := m.rows[id]
	edit(&row)
	m.put(id, row)
}

func newKey(tb testing.TB) Key {
	tb.Helper()
	k, err := NewKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func newPepper(tb testing.TB) *Pepper {
	tb.Helper()
	file, err := NewPepper(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	p, err := ParsePepper(file)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// bench is a verifier over a store with one key in it.
type bench struct {
	keys  *APIKeys
	store *memory
	key   Key
}

func newBench(tb testing.TB, p policy.Principal) *bench {
	tb.Helper()
	pepper, key := newPepper(tb), newKey(tb)
	hash, err := pepper.Hash(key)
	if err != nil {
		tb.Fatal(err)
	}
	p.Account = policy.Account(key.ID())
	store := &memory{rows: map[string]Row{key.ID(): {Principal: p, Hash: hash}}}
	keys, err := NewAPIKeys(store, pepper, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return &bench{keys, store, key}
}

func with(k Key) header.List { return header.List{{Name: "x-api-key", Value: k.Reveal()}} }

func (b *bench) verify(h header.List) (policy.Principal, bool, error) {
	return b.keys.Verify(context.Background(), Request{Header: h, Client: netip.MustParseAddr("127.0.0.1")})
}

// sibling returns a well-formed key with the same id and another secret.
func sibling(tb testing.TB, k Key) Key {
	tb.Helper()
	text := keyPrefix + k.ID() + "_" + newKey(tb).secret
	sum := checksum(text)
	s, err := Parse(text + "_" + string(sum[:]))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func wantFault(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	var f *fault.Fault
	if !errors.As(err, &f) || f.Kind != kind {
		t.Fatalf("error %v, want a fault of kind %s", err, kind)
	}
}

func TestKeyIsFoundInEitherHeader(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	good, bad := b.key.Reveal(), sibling(t, b.key).Reveal()
	const xKey, authz = "x-api-key", "authorization"
	for _, c := range []struct {
		name   string
		header header.List
		ok     bool
		kind   fault.Kind
	}{
		{"x-api-key", header.List{{Name: xKey, Value: good}}, true, ""},
		{"bearer", header.List{{Name: authz, Value: "Bearer " + good}}, true, ""},
		{"bearer in any case, with spaces", header.List{{Name: authz, Value: " bEARER  " + good + " "}}, true, ""},
		{"bearer inside x-api-key", header.List{{Name: xKey, Value: "Bearer " + good}}, true, ""},
		{"the same key in both", header.List{{Name: authz, Value: "Bearer " + good}, {Name: xKey, Value: good}}, true, ""},
		{"wrong first never falls through", header.List{{Name: authz, Value: "Bearer " + good}, {Name: xKey, Value: bad}}, false, fault.InvalidAPIKey},
		{"right first is not spoiled by wrong second", header.List{{Name: authz, Value: "Bearer " + bad}, {Name: xKey, Value: good}}, true, ""},
		{"mistyped first never falls through", header.List{{Name: xKey, Value: good + "x"}, {Name: authz, Value: "Bearer " + good}}, false, fault.InvalidAPIKey},
		{"a foreign credential first is not ours to judge", header.List{{Name: xKey, Value: "sk-ant-1"}, {Name: authz, Value: "Bearer " + good}}, true, ""},
		{"only a foreign credential", header.List{{Name: authz, Value: "Bearer sk-proj-1"}}, false, ""},
		{"empty", header.List{{Name: xKey, Value: ""}}, false, ""},
		{"scheme without a key", header.List{{Name: authz, Value: "Bearer"}}, false, ""},
		{"none", nil, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok, err := b.verify(c.header)
			if c.kind != "" {
				wantFault(t, err, c.kind)
			} else if err != nil {
				t.Fatal(err)
			}
			if ok != c.ok || ok != (p.Name == "ada") {
				t.Errorf("ok %v, principal %q; want ok %v", ok, p.Name, c.ok)
			}
		})
	}
}

func TestK95PathDoesNotChangeTheDecision(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	for _, path := range []string{"/v1/messages", "//v1/messages", "/v1/../healthz", "/%2e%2e/v1%2Fmessages", "/v1/messages;x=y", ""} {
		h := header.List{{Name: ":path", Value: path}}
		if _, ok, err := b.verify(h); ok || err != nil {
			t.Errorf("%q without a key: ok %v, error %v", path, ok, err)
		}
		if p, ok, err := b.verify(append(h, with(b.key)...)); !ok || err != nil || p.Name != "ada" {
			t.Errorf("%q with a key: ok %v, error %v", path, ok, err)
		}
		_, _, err := b.verify(append(h, with(sibling(t, b.key))...))
		wantFault(t, err, fault.InvalidAPIKey)
	}
}

func TestKeyIsBoundToItsNetworks(t *testing.T) {
	b := newBench(t, policy.Principal{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/32")}})
	for _, c := range []struct {
		client string
		ok     bool
	}{
		{"10.1.2.3", true},
		{"::ffff:10.1.2.3", true},
		{"2001:db8::1", true},
		{"10.2.0.1", false},
		{"2001:db9::1", false},
		{"", false},
	} {
		client, _ := netip.ParseAddr(c.client)
		_, ok, err := b.keys.Verify(context.Background(), Request{Header: with(b.key), Client: client})
		if ok != c.ok {
			t.Errorf("from %q: ok %v, error %v; want ok %v", c.client, ok, err, c.ok)
		}
		if !c.ok {
			wantFault(t, err, fault.KeyRestricted)
		}
	}
}

func TestAWrongSecretIsNotToldAboutNetworks(t *testing.T) {
	b := newBench(t, policy.Principal{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	_, _, err := b.verify(with(sibling(t, b.key)))
	wantFault(t, err, fault.InvalidAPIKey)
}

func TestReadOnlyKeyMayNotGenerate(t *testing.T) {
	wantFault(t, MayGenerate(policy.Principal{ReadOnly: true}), fault.KeyRestricted)
	if err := MayGenerate(policy.Principal{}); err != nil {
		t.Error(err)
	}
}

type verdict struct {
	p   policy.Principal
	ok  bool
	err error
}

func (v verdict) Verify(context.Context, Request) (policy.Principal, bool, error) {
	return v.p, v.ok, v.err
}

func TestChainStopsAtTheFirstThatApplies(t *testing.T) {
	silent := verdict{}
	ada := verdict{p: policy.Principal{Name: "ada"}, ok: true}
	bob := verdict{p: policy.Principal{Name: "bob"}, ok: true}
	wrong := verdict{err: fault.New(fault.InvalidAPIKey, "no", nil)}
	for _, c := range []struct {
		name  string
		chain Chain
		want  string
		ok    bool
		fails bool
	}{
		{"nobody", nil, "", false, false},
		{"all silent", Chain{silent, silent}, "", false, false},
		{"first that applies", Chain{silent, ada, bob}, "ada", true, false},
		{"failed never falls through", Chain{silent, wrong, ada}, "", false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, ok, err := c.chain.Verify(context.Background(), Request{})
			if p.Name != c.want || ok != c.ok || (err != nil) != c.fails {
				t.Errorf("%q, %v, %v; want %q, %v, failure %v", p.Name, ok, err, c.want, c.ok, c.fails)
			}
		})
	}
}

func TestMissingSaysWhatWasSent(t *testing.T) {
	none, foreign := Missing(nil), Missing(header.List{{Name: "authorization", Value: "Bearer sk-proj-topsecret"}})
	if none.Kind != fault.InvalidAPIKey || foreign.Kind != fault.InvalidAPIKey || none.Public == foreign.Public {
		t.Errorf("%v and %v", none, foreign)
	}
}

// TestWhichCredentialsAreSent: a key of this gateway, anything that is sent as one, a delegation, or none.
func TestWhichCredentialsAreSent(t *testing.T) {
	for _, row := range []struct {
		name, value string
		key, sent   bool
	}{
		{"x-api-key", keyPrefix + "abc", true, true},
		{"authorization", "Bearer " + publicStart + "abc", true, true},
		{"authorization", "Bearer sk-proj-foreign", false, true},
		{"x-api-key", "foreign", false, true},
		{header.Delegation, "anything", false, true},
		{"authorization", "Bearer " + placeholderKey, false, false},
		{"x-api-key", placeholderKey, false, false},
		{"user-agent", keyPrefix + "abc", false, false},
	} {
		h := header.List{{Name: row.name, Value: row.value}}
		if key, sent := IsKey(h), Sent(h); key != row.key || sent != row.sent {
			t.Errorf("%s: %s: %v, %v", row.name, Mask(row.value), key, sent)
		}
	}
}

func TestAReadingIsOfOneKey(t *testing.T) {
	b := newBench(t, policy.Principal{Name: "ada"})
	b.mustVerify(t)
	read := &Reading{}
	for _, tt := range []struct {
		key  string
		want bool
	}{{b.key.Reveal(), true}, {keyPrefix + "x", false}, {b.key.Reveal(), true}, {sibling(t, b.key).Reveal(), false}, {b.key.Reveal(), true}} {
		r := Request{Header: header.List{{Name: "x-api-key", Value: tt.key}}, Read: read}
		if !b.keys.Immediate(r) {
			t.Errorf("%s waits", Mask(tt.key))
		}
		if _, ok, err := b.keys.Verify(t.Context(), r); ok != tt.want || (err == nil) != tt.want {
			t.Errorf("%s: %v, %v", Mask(tt.key), ok, err)
		}
	}
}
