package config

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"bardo.money/gateway/policy"
)

// Attestation defines which receipts of a provider's enclaves are trusted. Without keys, no receipt is required.
type Attestation struct {
	Keys         []string
	Measurements []string
}

// attestation returns the attestation settings of the section.
func (v *Venice) attestation() (a Attestation) {
	if v.AttestationPubkey != "" {
		a.Keys = append(a.Keys, v.AttestationPubkey)
	}
	a.Keys = append(a.Keys, v.AttestationPubkeys...)
	a.Measurements = v.AttestationMeasurements
	return a
}

// Lengths of a public key (Ed25519, X25519) and of a measurement, in bytes.
const (
	publicKeyLen   = 32
	measurementLen = 48
)

// checkAttestation refuses keys without enclave measurements: any enclave would be trusted then.
func (d *decoder) checkAttestation(v *Venice) {
	if v == nil {
		return
	}
	const section = "providers.venice."
	d.checkPublicKey(section+"attestation_pubkey", v.AttestationPubkey, true)
	for i, k := range v.AttestationPubkeys {
		d.checkPublicKey(fmt.Sprintf(section+"attestation_pubkeys[%d]", i), k, false)
	}
	for i, m := range v.AttestationMeasurements {
		if b, err := hex.DecodeString(strings.ToLower(m)); err != nil || len(b) != measurementLen {
			d.problem(fmt.Sprintf(section+"attestation_measurements[%d]", i), "96 hexadecimal digits (SHA-384)", "%q is no measurement", m)
		}
	}
	a := v.attestation()
	if len(a.Keys) > 0 && len(a.Measurements) == 0 {
		d.problem(section+"attestation_measurements", "the measurements of the enclaves that are trusted", "a key without enclaves: any would be trusted")
	}
	if len(a.Keys) == 0 && len(a.Measurements) > 0 {
		d.problem(section+"attestation_pubkey", "the key that signs receipts", "measurements without a key: no receipt could be verified")
	}
}

func (d *decoder) checkPublicKey(key, text string, optional bool) {
	if text == "" && optional {
		return
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		b, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil || len(b) != publicKeyLen {
		d.problem(key, "a public key of 32 bytes, in base64 or hexadecimal", "%q is none", text)
	}
}

// sealedOnlyWithKeys returns the provider without end-to-end encryption, whatever its list of models says, if its enclave has no pinned key: a
// request could only be sent unencrypted.
func (p Provider) sealedOnlyWithKeys() Provider {
	if len(p.E2EEKeys) == 0 {
		p.Traits.Lacks = append(slices.Clone(p.Traits.Lacks), policy.EndToEndEncryption)
	}
	return p
}

// checkSeals refuses invalid keys of enclaves.
func (d *decoder) checkSeals(cfg *Config) {
	if v := cfg.Providers.Venice; v != nil {
		d.checkSealKeys("providers.venice.e2ee_keys", v.E2EEKeys)
	}
	for i := range cfg.Providers.Custom {
		c, key := &cfg.Providers.Custom[i], fmt.Sprintf("providers.custom[%d].e2ee_keys", i)
		if len(c.E2EEKeys) > 0 && c.Format != FormatOpenAI {
			d.problem(key, "format: openai", "only requests of that format are encrypted")
		}
		d.checkSealKeys(key, c.E2EEKeys)
	}
}

func (d *decoder) checkSealKeys(key string, keys []string) {
	for i, k := range keys {
		d.checkPublicKey(fmt.Sprintf("%s[%d]", key, i), k, false)
	}
}
