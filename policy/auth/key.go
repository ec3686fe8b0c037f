package auth

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// A key is "bardo_sk_" or, if it is publishable, "bardo_pk_", followed by 12 characters of id, 43 of secret (62^43 > 2^256), and 6 of a CRC-32 over
// all of these, so that a typo is refused without a store lookup.
const (
	brand       = "bardo_" // every credential with this prefix is meant for this scheme
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

// Errors of a key that are found without a store. Neither message repeats the key.
var (
	ErrMalformed = errors.New("the API key is not of the form bardo_sk_<id>_<secret>_<checksum> or bardo_pk_<id>_<secret>_<checksum>")
	ErrChecksum  = errors.New("the API key has a typing error: its checksum does not match")
)

// Key is an API key in clear text. It prints masked; only Reveal returns it.
type Key struct{ text, id, secret string }

// NewKey generates a key from a source of random bytes (crypto/rand.Reader).
func NewKey(rand io.Reader) (Key, error) {
	var id [idLen]byte
	if err := fillBase62(id[:], rand); err != nil {
		return Key{}, fmt.Errorf("new API key: %w", err)
	}
	return NewSecret(rand, string(id[:]), false)
}

// NewSecret generates a key with the id of another one and a new secret.
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

// cutKey splits a string of a key's length.
func cutKey(s string) Key {
	return Key{text: s, id: s[len(keyPrefix) : secretAt-1], secret: s[secretAt : checksumAt-1]}
}

// prefixOf returns a key's prefix; "" if s is no key.
func prefixOf(s string) string {
	for _, prefix := range [...]string{keyPrefix, publicStart} {
		if strings.HasPrefix(s, prefix) {
			return prefix
		}
	}
	return ""
}

// Publishable reports whether the key's prefix allows showing it to others.
func (k Key) Publishable() bool { return strings.HasPrefix(k.text, publicStart) }

// ID returns the public part, which names the key and its account.
func (k Key) ID() string { return k.id }

// Reveal returns the whole key, to be shown once to its owner.
func (k Key) Reveal() string { return k.text }

// String returns the masked key, for logs.
func (k Key) String() string { return Mask(k.text) }

// GoString returns the masked key, for logs.
func (k Key) GoString() string { return Mask(k.text) }

// Mask returns a credential as it may be logged: the id of a key of this gateway, and nothing of any other.
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

// checksum returns the CRC-32 of s as six characters. It leaves no copy of s on the heap.
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

// fillBase62 fills dst with uniformly distributed characters: bytes from 248 on, which would favour the first eight, are discarded.
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
