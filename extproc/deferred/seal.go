package deferred

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"errors"
)

// sealer encrypts what is stored of requests and answers. Without a key it is stored as it is, which its first byte says.
type sealer struct{ aead cipher.AEAD }

// How a stored text begins.
const (
	plain  = 0
	sealed = 1
)

var errSealed = errors.New("it is encrypted with another key than deferred.key")

// newSealer derives a key from a secret of any length; an empty one encrypts nothing.
func newSealer(secret string) (sealer, error) {
	if secret == "" {
		return sealer{}, nil
	}
	key := sha256.Sum256([]byte("deferred requests\x00" + secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return sealer{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return sealer{aead}, err
}

// seal encrypts a text, which only open with the same name gives back: a row's text cannot be put into another row.
func (s sealer) seal(name string, text []byte) []byte {
	if s.aead == nil {
		return append([]byte{plain}, text...)
	}
	out := append(make([]byte, 0, 1+len(text)+s.aead.Overhead()), sealed)
	return s.aead.Seal(out, nil, text, []byte(name)) //nolint:gosec // it draws the nonce itself
}

func (s sealer) open(name string, b []byte) ([]byte, error) {
	switch {
	case len(b) == 0:
		return nil, nil
	case b[0] == plain:
		return b[1:], nil
	case s.aead == nil || b[0] != sealed:
		return nil, errSealed
	}
	text, err := s.aead.Open(nil, nil, b[1:], []byte(name))
	if err != nil {
		return nil, errSealed
	}
	return text, nil
}
