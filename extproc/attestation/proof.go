// Package attestation proves one call: its nonce, the hash of the answer, and the verification of the receipt once all of the answer is there. It
// does not know how an answer is read, or who gets it.
package attestation

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"time"

	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy/attestation"
)

// Proof is the proof of one call's answer, in progress or complete. Not safe for concurrent use.
type Proof struct {
	policy   *attestation.Policy
	by       provider.Attesting
	nonce    string
	model    string // the provider's name of the called model
	body     hash.Hash
	receipts []string // receipts in the head and the trailers, without duplicates

	Receipt *attestation.Receipt // set when verified
	At      time.Time            // time of the verification
	raw     string
}

// New returns the proof of a call of a model that is about to be made, with a new nonce.
func New(p *attestation.Policy, by provider.Attesting, model string) *Proof {
	var b [attestation.NonceLen / 2]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return &Proof{policy: p, by: by, nonce: hex.EncodeToString(b[:]), model: model, body: sha256.New()}
}

// RequestHeaders returns the headers of the call that request the receipt.
func (p *Proof) RequestHeaders() header.List { return p.by.AskReceipt(p.nonce) }

// Head processes the head of the answer. The error is an attestation.Reason.
func (p *Proof) Head(h header.List) error {
	for _, f := range h {
		if f.Name == "content-encoding" && f.Value != "" && f.Value != "identity" {
			return attestation.Encoded
		}
	}
	return p.note(h)
}

// note records the receipts in the headers of a head, or the trailers.
func (p *Proof) note(h header.List) error {
	for _, f := range h {
		if f.Name != p.by.ReceiptHeader() {
			continue
		}
		if len(p.receipts) > 0 && p.receipts[0] != f.Value {
			return attestation.Contradicts
		}
		p.receipts = append(p.receipts[:0], f.Value)
	}
	return nil
}

// Write hashes the next chunk of the body.
func (p *Proof) Write(b []byte) { p.body.Write(b) }

// Verify verifies the receipt, after the end of the body. The error is an attestation.Reason.
func (p *Proof) Verify(trailers header.List, now time.Time) error {
	if err := p.note(trailers); err != nil {
		return err
	}
	if len(p.receipts) == 0 {
		return attestation.Missing
	}
	r, err := attestation.Parse(p.receipts[0])
	if err != nil {
		return err
	}
	want := attestation.Expected{Nonce: p.nonce, Model: p.model, ResponseHash: hex.EncodeToString(p.body.Sum(nil)), At: now}
	if err := p.policy.Verify(r, &want); err != nil {
		return err
	}
	p.Receipt, p.At, p.raw = r, now, p.receipts[0]
	return nil
}

// Token returns the token of a verified proof; the caller sets its owner. void is why the answer cannot be used; "" if it can.
func (p *Proof) Token(void attestation.Reason) *attestation.Token {
	return &attestation.Token{
		At: p.At.UnixMilli(), Model: p.model, Measurement: p.Receipt.Measurement, Nonce: p.nonce, Hash: p.Receipt.ResponseHash, Void: string(void), Receipt: p.raw,
	}
}
