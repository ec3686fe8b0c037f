// Package seal encrypts stored data of requests, answers and agents, row by row, with a key that an operator sets, or with the gateway's own. It does
// not know where a row is stored, nor its content.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
)

// Sealer encrypts texts with AES-256-GCM. The zero value has no key and stores texts unencrypted, which the first byte shows. Safe for concurrent
// use.
type Sealer struct {
	aead  cipher.AEAD
	older cipher.AEAD // opens texts that aead does not; nil for none
}

// The first byte of a stored text.
const (
	plain  = 0
	sealed = 1
)

// ErrKey means that a text was encrypted with another key, or for another row.
var ErrKey = errors.New("it is encrypted with another key")

// New derives a key from a secret of any length; an empty one disables encryption. Sealers of different purposes have different keys.
func New(purpose, secret string) (Sealer, error) {
	if secret == "" {
		return Sealer{}, nil
	}
	key := sha256.Sum256([]byte(purpose + "\x00" + secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return Sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return Sealer{aead: aead}, err
}

// Keys are the secrets for encryption: the operator's, if set, else the gateway's own, which only protects copies of a file. Both may be "".
type Keys struct{ Set, Own string }

// Sealer returns the sealer for a purpose. It also opens what was encrypted with the gateway's own secret before the operator set one.
func (k Keys) Sealer(purpose string) (Sealer, error) {
	own, err := New(purpose, k.Own)
	if err != nil || k.Set == "" {
		return own, err
	}
	s, err := New(purpose, k.Set)
	s.older = own.aead
	return s, err
}

// Encrypts reports whether there is a key.
func (s Sealer) Encrypts() bool { return s.aead != nil }

// Seal encrypts a text for a row's name. Open needs the same name, so a row's text cannot be moved to another row.
func (s Sealer) Seal(name string, text []byte) []byte {
	if s.aead == nil {
		return append([]byte{plain}, text...)
	}
	out := append(make([]byte, 0, 1+len(text)+s.aead.Overhead()), sealed)
	return s.aead.Seal(out, nil, text, []byte(name)) //nolint:gosec // it draws the nonce itself
}

// Open returns the text of Seal's output, encrypted with this key or not at all: setting a key later does not lose older texts. It is nil for
// nothing. The error is ErrKey.
func (s Sealer) Open(name string, b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case b[0] == plain:
		return b[1:], nil
	}
	return s.OpenSealed(name, b)
}

// OpenSealed is Open for texts that must be encrypted, so that only holders of the key can have written them.
func (s Sealer) OpenSealed(name string, b []byte) ([]byte, error) {
	if s.aead == nil || len(b) == 0 || b[0] != sealed {
		return nil, ErrKey
	}
	text, err := s.aead.Open(nil, nil, b[1:], []byte(name))
	if err != nil && s.older != nil {
		text, err = s.older.Open(nil, nil, b[1:], []byte(name))
	}
	if err != nil {
		return nil, ErrKey
	}
	return text, nil
}
