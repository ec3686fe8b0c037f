package outcome

import (
	"context"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	reasons "bardo.money/gateway/policy/attestation"
)

// subject returns the request and a candidate of it, as receipts name them.
func (o *Outcome) subject(to *policy.Resolution) *attestation.Subject {
	return &attestation.Subject{
		RequestID: o.ID, GolemID: o.Hints.GolemID, Subsystem: o.Hints.Subsystem, TaskClass: o.Hints.TaskClass, Tick: o.Hints.Tick,
		Account: o.Principal.Account, Provider: to.Provider, Model: to.Model,
	}
}

// KeepProof stores the proof of an answer before any of the answer is sent; p is nil for an answer that need not be attested.
func (o *Outcome) KeepProof(ctx context.Context, by *policy.Resolution, p *attestation.Proof) (err error) {
	if p != nil {
		o.proof, err = o.Attestations.Keep(ctx, o.subject(by), p)
		o.Attestation = o.proof.Token
	}
	return err
}

// voidStoredProof voids the stored proof of an answer, if any: the client gets an error instead, or not the whole answer.
func (o *Outcome) voidStoredProof() {
	o.proof.Void(context.Background(), reasons.Unsent)
	o.Attestation = ""
}

// VoidProof records that an attested answer cannot be used: its receipt is void.
func (o *Outcome) VoidProof(ctx context.Context, a *reading.Answer, why reasons.Reason) {
	o.Attestations.Void(ctx, o.subject(&a.By), a.Proof, why)
	a.Proof = nil
}

// VoidCall records that what an attested call gave is not an answer, whatever its enclave signed; p is nil for a call that need not be attested.
func (o *Outcome) VoidCall(ctx context.Context, to *policy.Resolution, p *attestation.Proof) {
	o.Attestations.Void(ctx, o.subject(to), p, reasons.Unreadable)
}

// reportUnattested reports an answer that was discarded because it is not attested, or cannot be decrypted.
func (o *Outcome) reportUnattested(to *policy.Resolution, f *upstream.Failure) {
	o.Attestations.Refuse(o.subject(to), upstream.AttestationError, f.Cause)
	o.Attestations.NotOpened(o.subject(to), upstream.EncryptionError, f.Cause)
}
