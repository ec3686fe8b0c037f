package run

import (
	"fmt"

	"bardo.money/gateway/cmd/bardo/home"
	proof "bardo.money/gateway/extproc/attestation"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/e2ee"
)

// openAttestations opens the store of attestation tokens. Its file is created with the first token.
func (g *gateway) openAttestations() (k *proof.Keeper, err error) {
	if g.attestations, err = attestation.OpenBook(g.home.Path(home.Attestations)); err != nil {
		return nil, err
	}
	return &proof.Keeper{Book: g.attestations, Events: &g.events, Log: g.log}, nil
}

func (g *gateway) closeAttestations() {
	if g.attestations == nil {
		return
	}
	if err := g.attestations.Close(); err != nil {
		g.log.Error("the store of attestations was not closed cleanly", "error", err)
	}
}

// setAttestation sets which attestation receipts of a provider are trusted, and the keys of its enclave.
func setAttestation(one *runtime.Provider, p *config.Provider) (err error) {
	if one.Seals, err = e2ee.ParseKeys(p.E2EEKeys); err != nil {
		return fmt.Errorf("provider %s: e2ee_keys: %w", p.ID, err)
	}
	if len(p.Attestation.Keys) > 0 {
		if one.Attestation, err = attestation.NewPolicy(p.Attestation.Keys, p.Attestation.Measurements); err != nil {
			return fmt.Errorf("provider %s: attestation: %w", p.ID, err)
		}
	}
	return nil
}
