package identity_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/identity"
	"bardo.money/gateway/policy/pay"
)

var delegate = pay.Address{7}

// sessions are those of delegations, in memory.
type sessions struct {
	mu    sync.Mutex
	begun map[string]identity.DelegatedSession
}

func (s *sessions) Begun(_ context.Context, id string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.begun[id]
	return ok, nil
}

func (s *sessions) Begin(_ context.Context, d identity.DelegatedSession) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[d.ID] = d
	return nil
}

// delegations are a verifier of agent 0, which is linked to account a by its owner.
type delegations struct {
	*lab
	*identity.Delegates

	sessions sessions
	nonce    byte
}

func newDelegations(t *testing.T) *delegations {
	t.Helper()
	d := &delegations{lab: newLab(t), sessions: sessions{begun: map[string]identity.DelegatedSession{}}}
	d.mustLink(t, owner, "a")
	d.Delegates = identity.NewDelegates(d.Agents, &d.sessions)
	return d
}

// fields of a delegation that holds, with changes.
func (d *delegations) fields(changes map[string]any) map[string]any {
	f := map[string]any{
		"agent_id": "0", "delegate": delegate.String(), "issuer": owner.String(), "audience": realm.Audience, "scope": "generate", "max_spend": "1000000",
		"valid_after": d.now.Unix(), "valid_before": d.now.Add(time.Hour).Unix(), "nonce": pay.Word{1}.String(),
	}
	maps.Copy(f, changes)
	return f
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}

// signed is a delegation with a signature by somebody, and its digest.
func signed(t *testing.T, f map[string]any, by pay.Address) (text string, digest pay.Word) {
	t.Helper()
	f["signature"] = "0x00"
	digest, err := identity.DelegationDigest(encode(f), &realm)
	if err != nil {
		t.Fatal(err)
	}
	f["signature"] = "0x" + hex.EncodeToString(sign(by, digest))
	return encode(f), digest
}

// request is a request with a proof that holds, with changes.
func (d *delegations) request(t *testing.T, text string, digest pay.Word, changes map[string]any, by pay.Address) auth.Request {
	t.Helper()
	d.nonce++
	body := sha256.Sum256([]byte("{}"))
	f := map[string]any{"body": "0x" + hex.EncodeToString(body[:]), "time": d.now.Unix(), "nonce": pay.Word{d.nonce}.String(), "signature": "0x00"}
	maps.Copy(f, changes)
	sum, err := identity.ProofDigest(encode(f), &realm, digest, "POST", "/v1/messages")
	if err != nil {
		t.Fatal(err)
	}
	f["signature"] = "0x" + hex.EncodeToString(sign(by, sum))
	return auth.Request{Method: "POST", Path: "/v1/messages", Header: header.List{{Name: identity.HeaderDelegation, Value: text}, {Name: identity.HeaderProof, Value: encode(f)}}}
}

func (d *delegations) good(t *testing.T) auth.Request {
	t.Helper()
	text, digest := signed(t, d.fields(nil), owner)
	return d.request(t, text, digest, nil, delegate)
}

func kindOf(err error) fault.Kind {
	f, _ := errors.AsType[*fault.Fault](err)
	if f == nil {
		return ""
	}
	return f.Kind
}

func TestADelegateIsServedFromTheAgentsAccount(t *testing.T) {
	d := newDelegations(t)
	for range 3 {
		p, ok, err := d.Verify(t.Context(), d.good(t))
		if err != nil || !ok || p.Account != "a" || p.Session == "" || p.Body == nil {
			t.Fatalf("%+v, %v, %v", p, ok, err)
		}
		if identity.BodyFault(&p, []byte("{}")) != nil || identity.BodyFault(&p, []byte("{ }")) == nil || identity.BodyFault(&policy.Principal{}, nil) != nil {
			t.Error("bodies are not compared with the proof")
		}
		s := d.sessions.begun[p.Session]
		if s.Account != "a" || s.Budget != 1_000_000 || len(d.sessions.begun) != 1 || s.Expires.Unix() != d.now.Add(time.Hour).Unix() {
			t.Errorf("%+v", d.sessions.begun)
		}
	}
	if _, ok, err := d.Verify(t.Context(), auth.Request{}); ok || err != nil {
		t.Errorf("a request without a delegation: %v, %v", ok, err)
	}
	if !d.Immediate(auth.Request{}) || d.Immediate(d.good(t)) {
		t.Error("whether it waits")
	}
}

// Pitfalls 3, 21 and 23: each delegation below is wrong in one thing.
func TestPitfall23DelegationsThatAreWrongInOneThing(t *testing.T) {
	d := newDelegations(t)
	for name, c := range map[string]struct {
		changes map[string]any
		by      pay.Address
		after   map[string]any // that are changed after it was signed
		want    fault.Kind
	}{
		"signed by a stranger":           {nil, stranger, nil, fault.InvalidAPIKey},
		"issued by a stranger":           {map[string]any{"issuer": stranger.String()}, stranger, nil, fault.KeyRestricted},
		"issued by nobody":               {map[string]any{"issuer": pay.Address{}.String()}, pay.Address{}, nil, fault.KeyRestricted},
		"of an agent that is not linked": {map[string]any{"agent_id": "1", "issuer": contract.String()}, contract, nil, fault.KeyRestricted},
		"for another gateway":            {map[string]any{"audience": "https://other.example"}, owner, nil, fault.InvalidAPIKey},
		"not valid yet":                  {map[string]any{"valid_after": d.now.Unix() + 1800}, owner, nil, fault.InvalidAPIKey},
		"expired":                        {map[string]any{"valid_after": d.now.Unix() - 10, "valid_before": d.now.Unix()}, owner, nil, fault.InvalidAPIKey},
		"more to spend":                  {nil, owner, map[string]any{"max_spend": "2000000"}, fault.InvalidAPIKey},
		"another delegate":               {nil, owner, map[string]any{"delegate": stranger.String()}, fault.InvalidAPIKey},
		"another scope":                  {map[string]any{"scope": "generate model:m"}, owner, map[string]any{"scope": "generate"}, fault.InvalidAPIKey},
		"a later end":                    {nil, owner, map[string]any{"valid_before": d.now.Unix() + 7200}, fault.InvalidAPIKey},
		"another nonce":                  {nil, owner, map[string]any{"nonce": pay.Word{2}.String()}, fault.InvalidAPIKey},
	} {
		text, digest := signed(t, d.fields(c.changes), c.by)
		if c.after != nil {
			f := d.fields(c.changes)
			f["signature"] = "0x" + hex.EncodeToString(sign(c.by, digest))
			maps.Copy(f, c.after)
			text = encode(f)
		}
		_, ok, err := d.Verify(t.Context(), d.request(t, text, digest, nil, delegate))
		if ok || kindOf(err) != c.want {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		d.now = d.now.Add(2 * time.Second) // the wallet is not asked again immediately after a refusal
	}
	if len(d.sessions.begun) != 0 {
		t.Errorf("sessions have begun: %v", d.sessions.begun)
	}
}

func TestDelegationsThatCannotBeRead(t *testing.T) {
	d := newDelegations(t)
	for name, changes := range map[string]map[string]any{
		"an agent": {"agent_id": "x"}, "an address": {"delegate": "0x12"}, "a spend": {"max_spend": "-1"}, "a spend of nothing": {"max_spend": "0"}, "a spend without end": {"max_spend": strings.Repeat("9", 30)},
		"a scope": {"scope": ""}, "an unknown scope": {"scope": "admin"}, "a word of the scope": {"scope": "generate everything"}, "a long scope": {"scope": "generate " + strings.Repeat("model:m ", 200)},
		"its end": {"valid_before": 1}, "a long life": {"valid_before": d.now.Add(8 * 24 * time.Hour).Unix()}, "a time below zero": {"valid_after": -1},
		"a nonce": {"nonce": "0x"}, "an unknown member": {"more": 1}, "a signature": {"signature": "0x"},
	} {
		f := d.fields(nil)
		f["signature"] = "0x00"
		maps.Copy(f, changes)
		r := d.good(t)
		r.Header[0].Value = encode(f)
		if _, ok, err := d.Verify(t.Context(), r); ok || kindOf(err) != fault.InvalidAPIKey {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	for _, text := range []string{"x", "!", strings.Repeat("A", 10_000), "e30=", "bnVsbA"} {
		r := d.good(t)
		r.Header[0].Value = text
		if _, ok, err := d.Verify(t.Context(), r); ok || kindOf(err) != fault.InvalidAPIKey {
			t.Errorf("%.10s: %v, %v", text, ok, err)
		}
		r = d.good(t)
		r.Header[1].Value = text
		if _, ok, err := d.Verify(t.Context(), r); ok || kindOf(err) != fault.InvalidAPIKey {
			t.Errorf("as a proof, %.10s: %v, %v", text, ok, err)
		}
	}
}

// A proof is for one request, at one time, once.
func TestPitfall23ProofsAreOfOneRequest(t *testing.T) {
	d := newDelegations(t)
	text, digest := signed(t, d.fields(nil), owner)
	verify := func(r auth.Request) fault.Kind {
		_, ok, err := d.Verify(t.Context(), r)
		if ok == (err != nil) {
			t.Errorf("%v, %v", ok, err)
		}
		return kindOf(err)
	}
	used := d.request(t, text, digest, nil, delegate)
	if k := verify(used); k != "" {
		t.Fatal(k)
	}
	for name, r := range map[string]auth.Request{
		"used before":     used,
		"a stranger's":    d.request(t, text, digest, nil, stranger),
		"the owner's":     d.request(t, text, digest, nil, owner),
		"of the past":     d.request(t, text, digest, map[string]any{"time": d.now.Unix() - 61}, delegate),
		"of the future":   d.request(t, text, digest, map[string]any{"time": d.now.Unix() + 61}, delegate),
		"before a start":  d.request(t, text, digest, map[string]any{"time": d.now.Unix() - 1}, delegate),
		"none":            {Method: "POST", Path: "/v1/messages", Header: header.List{{Name: identity.HeaderDelegation, Value: text}}},
		"another path":    {Method: "POST", Path: "/v1/responses", Header: d.request(t, text, digest, nil, delegate).Header},
		"another method":  {Method: "GET", Path: "/v1/messages", Header: d.request(t, text, digest, nil, delegate).Header},
		"of no such form": d.request(t, text, pay.Word{}, nil, delegate), // of another delegation
	} {
		if k := verify(r); k != fault.InvalidAPIKey {
			t.Errorf("%s: %q", name, k)
		}
	}
	d.now = d.now.Add(90 * time.Second) // the proof is too old now, and forgotten later
	if k := verify(used); k != fault.InvalidAPIKey {
		t.Errorf("used before, and old: %q", k)
	}
}

func TestADelegationEndsWithItsLinkOrItsIssuer(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, d *delegations){
		"a transfer": func(t *testing.T, d *delegations) {
			t.Helper()
			d.chain.set(func() { d.chain.agents[id(0)] = identity.Agent{Owner: stranger} })
			_ = d.Refresh(t.Context())
		},
		"the end of the link": func(t *testing.T, d *delegations) {
			t.Helper()
			if err := d.Unlink(t.Context(), "a", realm.Subject(id(0))); err != nil {
				t.Fatal(err)
			}
		},
		"a revoked key":            func(_ *testing.T, d *delegations) { delete(d.accounts.keys, "a"); d.accounts.generation++ },
		"a chain that is not read": func(_ *testing.T, d *delegations) { d.now = d.now.Add(10 * time.Minute) },
	} {
		d := newDelegations(t)
		if _, ok, err := d.Verify(t.Context(), d.good(t)); !ok || err != nil {
			t.Fatalf("%s: before: %v, %v", name, ok, err)
		}
		r := d.good(t)
		change(t, d)
		if name == "a chain that is not read" {
			r = d.good(t)
		}
		if _, ok, err := d.Verify(t.Context(), r); ok || kindOf(err) != fault.KeyRestricted {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// A session that was deleted does not come back with a new budget.
func TestADelegationHasOneBudget(t *testing.T) {
	d := newDelegations(t)
	if _, _, err := d.Verify(t.Context(), d.good(t)); err != nil {
		t.Fatal(err)
	}
	clear(d.sessions.begun)
	again := identity.NewDelegates(d.Agents, &d.sessions)
	if _, ok, err := again.Verify(t.Context(), d.good(t)); ok || kindOf(err) != fault.KeyRestricted {
		t.Errorf("%v, %v", ok, err)
	}
}

// An agent's wallet is only asked about its own delegations, again every minute, and not for a second after a refusal.
func TestPitfall20AContractsDelegationIsConfirmedAgain(t *testing.T) {
	d := newDelegations(t)
	d.chain.set(func() { d.chain.agents[id(0)] = identity.Agent{Owner: owner, Wallet: contract} })
	if err := d.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f := d.fields(map[string]any{"issuer": contract.String()})
	_, digest := signed(t, f, owner)
	f["signature"] = "0x" + hex.EncodeToString(append([]byte("contract"), digest[:]...))
	text := encode(f)
	verify := func() fault.Kind {
		_, _, err := d.Verify(t.Context(), d.request(t, text, digest, nil, delegate))
		return kindOf(err)
	}
	before := d.chain.asked
	for range 3 {
		if k := verify(); k != "" {
			t.Fatal(k)
		}
	}
	if n := d.chain.asked - before; n != 1 {
		t.Errorf("the wallet was asked %d times", n)
	}
	d.chain.set(func() { d.chain.refuses = true })
	d.now = d.now.Add(time.Minute)
	if k := verify(); k != fault.InvalidAPIKey {
		t.Errorf("after its owner changed: %q", k)
	}
	asked := d.chain.asked
	if k := verify(); k != fault.Overloaded || d.chain.asked != asked {
		t.Errorf("at once: %q, asked %d times", k, d.chain.asked-asked)
	}
}

func TestProofsTakeBoundedMemory(t *testing.T) {
	if err := identity.FillProofs(time.Unix(1_700_000_000, 0)); kindOf(err) != fault.Overloaded {
		t.Errorf("%v", err)
	}
}

// Unsigned delegations are never accepted, and nothing panics.
func FuzzDelegation(f *testing.F) {
	f.Add("e30=", "e30=")
	f.Add(encode(map[string]any{"agent_id": "0", "max_spend": "1"}), encode(map[string]any{"time": 1}))
	f.Fuzz(func(t *testing.T, delegation, proof string) {
		_, errD := identity.DelegationDigest(delegation, &realm)
		_, errP := identity.ProofDigest(proof, &realm, pay.Word{}, "GET", "/")
		if errD == nil && errP == nil && len(delegation) < 100 {
			t.Errorf("%q is a delegation", delegation)
		}
	})
}
