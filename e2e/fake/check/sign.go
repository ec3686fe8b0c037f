package check

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Signer is who signs thinking: each refuses what another one signed.
type Signer string

// Unsigned is the Signer of a server of Anthropic's format whose models sign nothing: its thinking has empty signatures,
// and it takes no others.
const Unsigned = "nobody"

// Sign is the signature of a thinking block.
func (s Signer) Sign(thinking string) string {
	if s == Unsigned {
		return ""
	}
	sum := sha256.Sum256([]byte("fake anthropic" + string(s) + "\x00" + thinking))
	return "EqQB" + base64.StdEncoding.EncodeToString(sum[:])
}

const sealed = "EqQC"

// Seal is the signature of a block whose thinking the caller asked to omit: the signature carries it then.
func (s Signer) Seal(thinking string) string {
	return sealed + base64.StdEncoding.EncodeToString([]byte(s.Sign(thinking)+thinking))
}

// signed reports whether a block of the history is as this signer made it.
func (s Signer) signed(thinking, signature string) bool {
	if thinking != "" || !strings.HasPrefix(signature, sealed) {
		return signature == s.Sign(thinking)
	}
	raw, err := base64.StdEncoding.DecodeString(signature[len(sealed):])
	n := len(s.Sign(""))
	return err == nil && len(raw) >= n && s.Sign(string(raw[n:])) == string(raw[:n])
}
