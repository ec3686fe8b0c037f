package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

const (
	pepperLen = 32
	bcryptLen = 60 // of every bcrypt hash in its text form
	markBytes = 3  // bytes of the MAC after the bcrypt hash: see Hash

	// bcryptCost is the lowest possible, about a millisecond. A higher cost slows down guessing of passwords, but secrets are 256 random bits. Hashes
	// of any other cost are accepted.
	bcryptCost = bcrypt.MinCost

	markSeparator = "$"
)

// mac is HMAC-SHA-256(pepper, secret).
type mac [sha256.Size]byte

// Pepper is the gateway's own secret, without which the hashes of its store are useless. It prints as "***". Safe for concurrent use.
type Pepper struct {
	macs sync.Pool
}

// NewPepper generates the content of a pepper file from a source of random bytes (crypto/rand.Reader).
func NewPepper(rand io.Reader) ([]byte, error) {
	var b [pepperLen]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return nil, fmt.Errorf("new pepper: %w", err)
	}
	return append(hex.AppendEncode(nil, b[:]), '\n'), nil
}

// ParsePepper reads a file written by NewPepper. The error does not quote it.
func ParsePepper(file []byte) (*Pepper, error) {
	key := make([]byte, pepperLen)
	text := bytes.TrimSpace(file)
	if len(text) != hex.EncodedLen(pepperLen) {
		return nil, fmt.Errorf("pepper: %d characters, expected %d hexadecimal ones", len(text), hex.EncodedLen(pepperLen))
	}
	if _, err := hex.Decode(key, text); err != nil {
		return nil, errors.New("pepper: a character is not hexadecimal")
	}
	p := &Pepper{}
	p.macs.New = func() any { return &macState{hash: hmac.New(sha256.New, key)} }
	return p, nil
}

// String hides the pepper.
func (*Pepper) String() string { return "***" }

// GoString hides the pepper.
func (*Pepper) GoString() string { return "***" }

// macState is a reusable HMAC and its buffers.
type macState struct {
	hash   hash.Hash
	secret [secretLen]byte
	sum    mac
}

func (p *Pepper) mac(k Key) mac {
	s, _ := p.macs.Get().(*macState)
	s.hash.Reset()
	copy(s.secret[:], k.secret)
	s.hash.Write(s.secret[:])
	s.hash.Sum(s.sum[:0])
	m := s.sum
	clear(s.secret[:])
	p.macs.Put(s)
	return m
}

// Hash returns the stored form of a key: bcrypt(HMAC-SHA-256(pepper, secret)), a "$", and the MAC's first three bytes.
//
// Those bytes let all but one in 16 million wrong secrets be refused without running bcrypt, so that a flood of them can neither use up the processor
// nor lock out the key's owner. They leave 232 of the MAC's 256 bits unknown.
func (p *Pepper) Hash(k Key) (string, error) {
	m := p.mac(k)
	b, err := bcrypt.GenerateFromPassword(m.password(), bcryptCost)
	if err != nil {
		return "", fmt.Errorf("hash API key: %w", err)
	}
	return string(b) + markSeparator + m.mark(), nil
}

// password returns the MAC in bcrypt's input format: text without zero bytes, shorter than its limit of 72.
func (m *mac) password() []byte { return base64.RawStdEncoding.AppendEncode(nil, m[:]) }

func (m *mac) mark() string { return base64.RawURLEncoding.EncodeToString(m[:markBytes]) }

// matches reports whether m is the MAC that was stored as h. It runs bcrypt.
func (m *mac) matches(h string) bool {
	return len(h) > bcryptLen && bcrypt.CompareHashAndPassword([]byte(h[:bcryptLen]), m.password()) == nil
}

// mayMatch returns false if the MAC's stored bytes alone show that m was not stored as h.
func (m *mac) mayMatch(h string) bool {
	return len(h) > bcryptLen && h[bcryptLen:] == markSeparator+m.mark()
}
