package home

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"os"
)

// ContentSecret is what content on the disk is encrypted with where the operator has set no key: derived from the pepper of a ledger. It is "" where that cannot be
// read, since what is encrypted with it has to be readable after a restart.
func ContentSecret(ledger string) string {
	pepper, err := os.ReadFile(PepperPath(ledger))
	if pepper = bytes.TrimSpace(pepper); err != nil || len(pepper) == 0 {
		return ""
	}
	m := hmac.New(sha256.New, pepper)
	m.Write([]byte("content at rest"))
	return hex.EncodeToString(m.Sum(nil))
}
