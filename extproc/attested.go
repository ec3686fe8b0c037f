package extproc

import (
	"context"

	"bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/reading"
	"bardo.money/gateway/extproc/upstream"
	"bardo.money/gateway/policy"
	reasons "bardo.money/gateway/policy/attestation"
)

func (x *exchange) subject(to *policy.Resolution) *attestation.Subject {
	return &attestation.Subject{
		RequestID: x.ID, GolemID: x.Hints.GolemID, Subsystem: x.Hints.Subsystem, TaskClass: x.Hints.TaskClass, Tick: x.Hints.Tick,
		Account: x.Principal.Account, Provider: to.Provider, Model: to.Model,
	}
}

// keepProof stores the proof of an answer before any of the answer is sent; p is nil for an answer that need not be attested.
func (x *exchange) keepProof(ctx context.Context, by *policy.Resolution, p *attestation.Proof) (err error) {
	if p != nil {
		x.storedProof, err = x.gw.Attestations.Keep(ctx, x.subject(by), p)
		x.report.Attestation = x.storedProof.Token
	}
	return err
}

// voidStoredProof voids the stored proof of an answer, if any: the client gets an error instead, or not the whole answer.
func (x *exchange) voidStoredProof() {
	x.storedProof.Void(context.Background(), reasons.Unsent)
	x.report.Attestation = ""
}

// voidProof records that an attested answer cannot be used: its receipt is void.
func (x *exchange) voidProof(ctx context.Context, a *reading.Answer, why reasons.Reason) {
	x.gw.Attestations.Void(ctx, x.subject(&a.By), a.Proof, why)
	a.Proof = nil
}

// reportUnattested reports an answer that was discarded because it is not attested, or cannot be decrypted.
func (x *exchange) reportUnattested(to *policy.Resolution, f *upstream.Failure) {
	x.gw.Attestations.Refuse(x.subject(to), upstream.AttestationError, f.Cause)
	x.gw.Attestations.NotOpened(x.subject(to), upstream.EncryptionError, f.Cause)
}
