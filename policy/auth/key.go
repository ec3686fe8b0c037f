package auth

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// A key is "bardo_sk_" or, if it is publishable, "bardo_pk_", 12 characters that name it, 43 that are its secret (62^43 > 2^256), and 6 that are a CRC-32 of
// all before them, so that a typo is refused without asking any store.
const (
	brand       = "bardo_" // whatever starts with it is meant for this scheme
	keyPrefix   = "bardo_sk_"
	publicStart = "bardo_pk_" // as long as keyPrefix
	idLen       = 12
	secretLen   = 43
	checksumLen = 6
	secretAt    = len(keyPrefix) + idLen + 1
	checksumAt  = secretAt + secretLen + 1
	keyLen      = checksumAt + checksumLen

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// What can be wrong with a key before anyone is asked about it. Neither message repeats the key.
var (
	ErrMalformed = errors.New("the API key is not of the form bardo_sk_<id>_<secret>_<checksum> or bardo_pk_<id>_<secret>_<checksum>")
	ErrChecksum  = errors.New("the API key has a typing error: its checksum does not match")
)

// Key is an API key in clear. It prints masked; only Reveal shows it.
type Key struct{ text, id, secret string }

// NewKey makes a key from a source of random bytes (crypto/rand.Reader).
func NewKey(rand io.Reader) (Key, error) {
	var id [idLen]byte
	if err := fillBase62(id[:], rand); err != nil {
		return Key{}, fmt.Errorf("new API key: %w", err)
	}
	return NewSecret(rand, string(id[:]), false)
}

// NewSecret makes a key with the id of another one and a new secret.
func NewSecret(rand io.Reader, id string, publishable bool) (Key, error) {
	var secret [secretLen]byte
	if err := fillBase62(secret[:], rand); err != nil {
		return Key{}, fmt.Errorf("new API key: %w", err)
	}
	prefix := keyPrefix
	if publishable {
		prefix = publicStart
	}
	text := prefix + id + "_" + string(secret[:])
	sum := checksum(text)
	return cutKey(text + "_" + string(sum[:])), nil
}

// Parse reads a key. The error is ErrMalformed or ErrChecksum.
func Parse(s string) (Key, error) {
	if len(s) != keyLen || prefixOf(s) == "" || s[secretAt-1] != '_' || s[checksumAt-1] != '_' {
		return Key{}, ErrMalformed
	}
	k := cutKey(s)
	if !isBase62(k.id) || !isBase62(k.secret) {
		return Key{}, ErrMalformed
	}
	if sum := checksum(s[:checksumAt-1]); string(sum[:]) != s[checksumAt:] {
		return Key{}, ErrChecksum
	}
	return k, nil
}

// cutKey takes apart what has a key's length.
func cutKey(s string) Key {
	return Key{text: s, id: s[len(keyPrefix) : secretAt-1], secret: s[secretAt : checksumAt-1]}
}

// prefixOf is what a key begins with; "" if s is none.
func prefixOf(s string) string {
	for _, prefix := range [...]string{keyPrefix, publicStart} {
		if strings.HasPrefix(s, prefix) {
			return prefix
		}
	}
	return ""
}

// Publishable reports whether the key says that it may be shown to others.
func (k Key) Publishable() bool { return strings.HasPrefix(k.text, publicStart) }

// ID is the public part, which names the key and its account.
func (k Key) ID() string { return k.id }

// Reveal is the whole key, to be shown once to its owner.
func (k Key) Reveal() string { return k.text }

// String is the key for logs.
func (k Key) String() string { return Mask(k.text) }

// GoString is the key for logs.
func (k Key) GoString() string { return Mask(k.text) }

// Mask is a credential as it may be logged: the id of a key of this gateway, and nothing of any other.
func Mask(key string) string {
	prefix := prefixOf(key)
	if prefix == "" {
		return "…"
	}
	id, _, cut := strings.Cut(key[len(prefix):], "_")
	if !cut || len(id) != idLen || !isBase62(id) {
		return prefix + "…"
	}
	return prefix + id + "_…"
}

// checksum is the CRC-32 of s as six characters. It leaves no copy of s on the heap.
func checksum(s string) (sum [checksumLen]byte) {
	n := ^uint32(0)
	for i := range len(s) {
		n = crc32.IEEETable[(n^uint32(s[i]))&0xff] ^ n>>8
	}
	n = ^n
	for i := checksumLen - 1; i >= 0; i-- {
		sum[i] = base62[n%62]
		n /= 62
	}
	return sum
}

// fillBase62 fills dst with characters that are equally likely: bytes from 248 on, which would favour the first eight, are
// thrown away.
func fillBase62(dst []byte, rand io.Reader) error {
	const fair = 256 / 62 * 62
	var b [1]byte
	for i := 0; i < len(dst); {
		if _, err := io.ReadFull(rand, b[:]); err != nil {
			return err
		}
		if b[0] < fair {
			dst[i] = base62[b[0]%62]
			i++
		}
	}
	return nil
}

func isBase62(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
