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
	markBytes = 3  // of the MAC stand after the bcrypt hash: see Hash

	// bcryptCost is the lowest that there is, about a millisecond. A higher one slows down whoever guesses passwords; here it would have to be
	// 256 random bits. Hashes of any other cost are read as well.
	bcryptCost = bcrypt.MinCost

	markSeparator = "$"
)

// mac is HMAC-SHA-256(pepper, secret).
type mac [sha256.Size]byte

// Pepper is the gateway's own secret, without which the hashes of its store are worth nothing. It prints as "***".
// Safe for concurrent use.
type Pepper struct {
	macs sync.Pool
}

// NewPepper makes the content of a pepper file from a source of random bytes (crypto/rand.Reader).
func NewPepper(rand io.Reader) ([]byte, error) {
	var b [pepperLen]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return nil, fmt.Errorf("new pepper: %w", err)
	}
	return append(hex.AppendEncode(nil, b[:]), '\n'), nil
}

// ParsePepper reads what NewPepper made. The error does not repeat it.
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

// Hash is what is stored of a key: bcrypt(HMAC-SHA-256(pepper, secret)), a "$", and the MAC's first three bytes.
//
// Those bytes let all but one in 16 million wrong secrets be refused without running bcrypt, so that a flood of them
// can neither burn the processor nor lock out the key's owner. They leave 232 of the MAC's 256 bits unknown.
func (p *Pepper) Hash(k Key) (string, error) {
	m := p.mac(k)
	b, err := bcrypt.GenerateFromPassword(m.password(), bcryptCost)
	if err != nil {
		return "", fmt.Errorf("hash API key: %w", err)
	}
	return string(b) + markSeparator + m.mark(), nil
}

// password is the MAC as bcrypt takes it: text without zero bytes, below its limit of 72.
func (m *mac) password() []byte { return base64.RawStdEncoding.AppendEncode(nil, m[:]) }

func (m *mac) mark() string { return base64.RawURLEncoding.EncodeToString(m[:markBytes]) }

// matches reports whether m is the MAC that was stored as h. It takes as long as bcrypt does, and is true for one MAC only.
func (m *mac) matches(h string) bool {
	return len(h) > bcryptLen && bcrypt.CompareHashAndPassword([]byte(h[:bcryptLen]), m.password()) == nil
}

// mayMatch is false when the mark alone shows that m was not stored as h.
func (m *mac) mayMatch(h string) bool {
	return len(h) > bcryptLen && h[bcryptLen:] == markSeparator+m.mark()
}
