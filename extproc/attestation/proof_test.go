package attestation

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/attestation"
)

// asker is a provider that signs.
type asker struct{}

func (asker) AskReceipt(nonce string) header.List { return header.List{{Name: "nonce", Value: nonce}} }
func (asker) ReceiptHeader() string               { return "receipt" }

var key = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

func newProof(t *testing.T) (*Proof, string) {
	t.Helper()
	p, err := attestation.NewPolicy([]string{base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey))}, []string{strings.Repeat("ab", 48)}) //nolint:forcetypeassert // it is one
	if err != nil {
		t.Fatal(err)
	}
	proof := New(p, asker{}, "m-tee")
	nonce := proof.RequestHeaders().Get("nonce")
	if len(nonce) != attestation.NonceLen {
		t.Fatalf("it asks with %v", proof.RequestHeaders())
	}
	return proof, nonce
}

func signed(nonce, body string, at time.Time) string {
	sum := sha256.Sum256([]byte(body))
	r := attestation.Receipt{Measurement: strings.Repeat("ab", 48), Nonce: nonce, Timestamp: at.UnixMilli(), Model: "m-tee", ResponseHash: hex.EncodeToString(sum[:])}
	r.Sign(key)
	return r.Header()
}

func field(value string) header.List { return header.List{{Name: "receipt", Value: value}} }

// P-05: the receipt may come before or after the body, however that is split; several receipts must agree.
func TestP05AReceiptComesInHeadOrTrailer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const body = "an answer"
	for _, row := range []struct {
		about      string
		head, tail func(good string) header.List
		want       error
	}{
		{"in the head", field, none, nil},
		{"in a trailer", none, field, nil},
		{"in both", field, field, nil},
		{"in neither", none, none, attestation.Missing},
		{"two that differ", field, func(string) header.List { return field("AAAA") }, attestation.Contradicts},
		{"an empty one that differs", field, func(string) header.List { return field("") }, attestation.Contradicts},
		{"an empty one", func(string) header.List { return field("") }, none, attestation.Missing},
		{"no receipt", none, func(string) header.List { return field("AAAA") }, attestation.Malformed},
	} {
		p, nonce := newProof(t)
		good := signed(nonce, body, now)
		err := p.Head(row.head(good))
		p.Write([]byte(body[:3]))
		p.Write(nil)
		p.Write([]byte(body[3:]))
		if err == nil {
			err = p.Verify(row.tail(good), now)
		}
		if !errors.Is(err, row.want) || (p.Receipt != nil) != (row.want == nil) {
			t.Errorf("%s: %v, want %v", row.about, err, row.want)
		}
	}
	p, _ := newProof(t)
	if err := p.Head(header.List{{Name: "content-encoding", Value: "gzip"}}); !errors.Is(err, attestation.Encoded) {
		t.Errorf("a compressed body: %v", err)
	}
}

func none(string) header.List { return nil }

// Nothing of an unverified answer is stored; stored tokens have their owner.
func TestP05AKeeperKeepsWhatWasVerified(t *testing.T) {
	t.Parallel()
	book, err := attestation.OpenBook(filepath.Join(t.TempDir(), "tokens.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	k := &Keeper{Book: book, Events: new(event.Sink), Log: slog.New(slog.DiscardHandler)}
	s := &Subject{RequestID: "req_1", GolemID: "g", TaskClass: "trade", Tick: 7, Provider: "venice", Model: "m"}
	p, nonce := newProof(t)
	if _, err := k.Keep(t.Context(), s, p); err == nil {
		t.Error("what was not verified was kept")
	}
	if err := p.Head(field(signed(nonce, "", time.Now()))); err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	kept, err := k.Keep(t.Context(), s, p)
	hash := kept.Token
	if err != nil || len(hash) != 64 {
		t.Fatalf("%q, %v", hash, err)
	}
	if list, err := book.Latest(t.Context(), 9); err != nil || !list[0].Holds(p.policy) {
		t.Errorf("it does not hold: %v", err)
	}
	for range 2 { // once
		kept.Void(t.Context(), attestation.Unsent)
	}
	if list, err := book.Latest(t.Context(), 9); err != nil || len(list) != 2 || list[0].Holds(p.policy) || list[1].Holds(p.policy) {
		t.Errorf("%d tokens, which hold although they are void: %v", len(list), err)
	}
	k.Void(t.Context(), s, p, attestation.BadSchema)
	k.Refuse(s, "E", attestation.Stale)
	k.Refuse(s, "E", errors.New("something else")) // told of elsewhere
	var out strings.Builder
	if err := book.Export(t.Context(), 1, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tick":7`, `"golem_id":"g"`, `"void":"unsent"`, `"void":"schema"`, `"hash":"` + hash, `"prev":"` + hash, `"provider":"venice"`, `"model":"m-tee"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %s: %s", want, out.String())
		}
	}
}
