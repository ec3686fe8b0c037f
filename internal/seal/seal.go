// Package seal encrypts what is stored of requests, answers and agents' own data, row by row, with a key that an operator sets, or with one of the gateway's own. It
// does not know where a row is stored, nor what is in it.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
)

// Sealer encrypts texts with AES-256-GCM. The zero value has no key and stores texts as they are, which the first byte says. Safe for concurrent use.
type Sealer struct {
	aead  cipher.AEAD
	older cipher.AEAD // opens what aead does not; nil for none
}

// How a stored text begins.
const (
	plain  = 0
	sealed = 1
)

// ErrKey says that a text was encrypted with another key, or for another row.
var ErrKey = errors.New("it is encrypted with another key")

// New derives a key from a secret of any length; an empty one encrypts nothing. Sealers of different purposes have different keys.
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

// Keys are what texts are encrypted with: a secret that the operator has set, else the gateway's own, which only keeps copies of a file from being read. Both may be "".
type Keys struct{ Set, Own string }

// Sealer encrypts for a purpose. What was encrypted with the gateway's own secret before the operator set one is opened, too.
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

// Seal encrypts a text, which only Open with the same name gives back: a row's text cannot be put into another row.
func (s Sealer) Seal(name string, text []byte) []byte {
	if s.aead == nil {
		return append([]byte{plain}, text...)
	}
	out := append(make([]byte, 0, 1+len(text)+s.aead.Overhead()), sealed)
	return s.aead.Seal(out, nil, text, []byte(name)) //nolint:gosec // it draws the nonce itself
}

// Open is the text of what Seal returned, with this key or without any: a key that is set later does not lose what was stored before. It is nil for nothing. The
// error is ErrKey.
func (s Sealer) Open(name string, b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case b[0] == plain:
		return b[1:], nil
	}
	return s.OpenSealed(name, b)
}

// OpenSealed is Open for what must be encrypted: nobody without the key can have written it.
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
