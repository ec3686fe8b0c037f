package extproc

import (
	"context"
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

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/meter"
	"bardo.money/gateway/extproc/provider/custom"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	receipts "bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/ledger"
)

// asking is an adapter whose receipts come in a header.
type asking struct{}

func (asking) AskReceipt(nonce string) header.List { return header.List{{Name: "nonce", Value: nonce}} }
func (asking) ReceiptHeader() string               { return "receipt" }

// proven returns a verified proof of an answer without a body.
func proven(t *testing.T) *attestation.Proof {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := receipts.NewPolicy([]string{base64.StdEncoding.EncodeToString(public)}, []string{strings.Repeat("ab", 48)})
	if err != nil {
		t.Fatal(err)
	}
	proof, sum := attestation.New(p, asking{}, "m-tee"), sha256.Sum256(nil)
	r := receipts.Receipt{
		Measurement: strings.Repeat("ab", 48), Nonce: proof.RequestHeaders().Get("nonce"), Timestamp: time.Now().UnixMilli(), Model: "m-tee", ResponseHash: hex.EncodeToString(sum[:]),
	}
	r.Sign(key)
	if err := proof.Verify(header.List{{Name: "receipt", Value: r.Header()}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	return proof
}

// purse is a payer that may be out of money.
type purse struct {
	meter.Payer

	err error
}

func (p purse) Settle(context.Context, ledger.Charge, bool) (ledger.Receipt, error) {
	return ledger.Receipt{}, p.err
}
func (purse) Release() {}

// TestP05AnErrorInThePlaceOfAnAttestedAnswerVoidsItsToken: of an answer that cannot be charged for, whether its client is connected or not, and of
// one whose client gets an error for another reason. The token of a charged answer stays valid.
func TestP05AnErrorInThePlaceOfAnAttestedAnswerVoidsItsToken(t *testing.T) {
	t.Parallel()
	for about, row := range map[string]struct {
		err  error // of the charge
		end  func(x *exchange) error
		void bool
	}{
		"charged for":           {nil, func(x *exchange) error { _, err := x.outcome.Settle(t.Context(), nil, record.OK); return err }, false},
		"cannot be charged for": {ledger.ErrClosed, func(x *exchange) error { _, err := x.outcome.Settle(t.Context(), nil, record.OK); return err }, true},
		"an error": {nil, func(x *exchange) error {
			x.outcome.RecordRefused(fault.New(fault.Internal, "what came cannot be kept", nil))
			return nil
		}, true},
	} {
		book, err := receipts.OpenBook(filepath.Join(t.TempDir(), "tokens.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = book.Close() })
		l := newPanicLab(custom.Adapter{}, nil)
		l.sinks.Attestations = &attestation.Keeper{Book: book, Events: new(event.Sink), Plane: l.api.Plane, Log: slog.New(slog.DiscardHandler)}
		x, _ := l.exchange(t)
		x.bill.PaidBy(policy.Principal{Account: "k"}, purse{x.bill.Payer(), row.err}, 0)
		if err := x.outcome.KeepProof(t.Context(), &x.Order[0], proven(t)); err != nil || x.report.Attestation == "" {
			t.Fatalf("%s: %v, the token %q", about, err, x.report.Attestation)
		}
		if err := row.end(x); !errors.Is(err, row.err) {
			t.Errorf("%s: %v", about, err)
		}
		tokens, err := book.Latest(t.Context(), 9)
		if err != nil || len(tokens) == 0 {
			t.Fatalf("%s: %d tokens, %v", about, len(tokens), err)
		}
		if got := tokens[0].Void == string(receipts.Unsent); got != row.void || (x.report.Attestation == "") != row.void {
			t.Errorf("%s: void %v, the answer names the token %q", about, got, x.report.Attestation)
		}
	}
}
