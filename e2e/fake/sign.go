package fake

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// signer is who signs thinking: each refuses what another one signed.
type signer string

// Unsigned is the Signer of a server of Anthropic's format whose models sign nothing: its thinking has empty signatures,
// and it takes no others.
const Unsigned = "nobody"

// Sign is the signature of a thinking block by providers without a signer of their own.
func Sign(thinking string) string { return signer("").sign(thinking) }

// Seal is the signature by such a provider of a block whose thinking the caller asked to omit: the signature carries it then.
func Seal(thinking string) string { return signer("").seal(thinking) }

// Sign is the signature of a thinking block by this provider.
func (s *Server) Sign(thinking string) string { return signer(s.cfg.Signer).sign(thinking) }

func (s signer) sign(thinking string) string {
	if s == Unsigned {
		return ""
	}
	sum := sha256.Sum256([]byte("fake anthropic" + string(s) + "\x00" + thinking))
	return "EqQB" + base64.StdEncoding.EncodeToString(sum[:])
}

const sealed = "EqQC"

func (s signer) seal(thinking string) string {
	return sealed + base64.StdEncoding.EncodeToString([]byte(s.sign(thinking)+thinking))
}

// signed reports whether a block of the history is as this signer made it.
func (s signer) signed(thinking, signature string) bool {
	if thinking != "" || !strings.HasPrefix(signature, sealed) {
		return signature == s.sign(thinking)
	}
	raw, err := base64.StdEncoding.DecodeString(signature[len(sealed):])
	n := len(s.sign(""))
	return err == nil && len(raw) >= n && s.sign(string(raw[n:])) == string(raw[:n])
}
