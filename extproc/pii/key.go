package pii

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"
)

// keyLabels are labels of a private key, with ASCII letters in lower case. A hexadecimal number of 32 bytes counts as a key only after one of them, since hashes of
// transactions have the same format.
var keyLabels = newLabels(
	"private key", "privatekey", "private_key", "private-key", "priv key", "privkey", "priv_key", "pk", "secret", "secret key", "secretkey", "secret_key", "signing key", "signing_key", "signingkey",
	"deployer_key", "wallet key", "wallet_key", "privater schlüssel", "privaten schlüssel", "geheimer schlüssel", "clé privée", "clave privada", "chave privada", "chiave privata", "приватный ключ", "закрытый ключ",
	"Приватный ключ", "私钥", "密钥", "秘密鍵", "개인키")

// noKeyLabels are labels of other hexadecimal numbers.
var noKeyLabels = newLabels("hash", "tx", "transaction", "txid", "block", "public key", "pubkey", "signature", "digest", "sha256", "checksum", "merkle", "root", "salt", "nonce", "topic")

// published are well-known private keys of development chains, in lower case.
var published = []string{
	"ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80", "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
	"5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a", "7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
	"47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
}

// order is the order of the curve secp256k1: private keys are below it.
const order = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"

// key parses the key or the address in the word text[i:end].
func (s *scan) key(i, end int, has uint8) {
	if has&underscore != 0 {
		return
	}
	w := s.text[i:end]
	if plain, ok := strings.CutPrefix(w, "0x"); ok && len(plain) == 40 {
		if s.wants(EVMAddress) && isAddress(plain) {
			s.add(i, end, EVMAddress, 1)
		}
		return
	}
	if !s.wants(PrivateKey) {
		return
	}
	switch plain := strings.TrimPrefix(w, "0x"); {
	case len(plain) == 64 && s.isKey(i, strings.ToLower(plain)):
		s.add(i, end, PrivateKey, 0.9)
	case (len(w) == 51 && w[0] == '5' || len(w) == 52 && (w[0] == 'K' || w[0] == 'L')) && isWIF(w), len(w) == 111 && isExtended(w):
		s.add(i, end, PrivateKey, 1)
	case (len(w) == 87 || len(w) == 88) && isSolana(w):
		s.add(i, end, PrivateKey, 1)
	}
}

// isKey reports whether the hexadecimal number at i has a label of a private key, and is a valid one.
func (s *scan) isKey(i int, plain string) bool {
	const gap = 14
	for k := range len(plain) {
		if !isHex(plain[k]) {
			return false
		}
	}
	if plain >= order || strings.Trim(plain, "0") == "" || slices.Contains(published, plain) {
		return false
	}
	return s.labelled(i, gap, keyLabels) && !s.labelled(i, gap, noKeyLabels)
}

// isAddress reports whether 40 characters are an address: hexadecimal, with the checksum of EIP-55 in mixed case.
func isAddress(s string) bool {
	if _, err := hex.DecodeString(s); err != nil {
		return false
	}
	low := strings.ToLower(s)
	if s == low || s == strings.ToUpper(s) {
		return true
	}
	h := sha3.NewLegacyKeccak256()
	h.Write([]byte(low))
	sum := h.Sum(nil)
	for i := range len(s) {
		nibble := sum[i/2] >> (4 - 4*(i%2)) & 15
		if classes[s[i]]&letter != 0 && (classes[s[i]] == upper) != (nibble >= 8) {
			return false
		}
	}
	return true
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// decode58 decodes base58 into n bytes; nil if it is not valid.
func decode58(s string, n int) []byte {
	x, radix := new(big.Int), big.NewInt(int64(len(base58)))
	for i := range len(s) {
		d := strings.IndexByte(base58, s[i])
		if d < 0 {
			return nil
		}
		x.Add(x.Mul(x, radix), big.NewInt(int64(d)))
	}
	if x.BitLen() > 8*n {
		return nil
	}
	return x.FillBytes(make([]byte, n))
}

// checked58 verifies the checksum of base58check at the end of bytes.
func checked58(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	first := sha256.Sum256(b[:len(b)-4])
	second := sha256.Sum256(first[:])
	return bytes.Equal(second[:4], b[len(b)-4:])
}

// isWIF reports whether a text is a private key in Bitcoin's wallet import format.
func isWIF(s string) bool {
	n := 1 + 32 + 4
	if s[0] != '5' {
		n++ // compressed
	}
	b := decode58(s, n)
	return len(b) == n && b[0] == 0x80 && checked58(b)
}

// isExtended reports whether a text is an extended private key (BIP-32).
func isExtended(s string) bool {
	return strings.HasPrefix(s[1:], "prv") && checked58(decode58(s, 82))
}

// isSolana reports whether a text is an ed25519 key pair: a seed and its public key.
func isSolana(s string) bool {
	b := decode58(s, ed25519.PrivateKeySize)
	return b != nil && string(ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])) == string(b)
}

// pem parses the private key in PEM format at i. It returns its end, or 0 for none.
func (s *scan) pem(i int) int {
	const begin, finish, dashes, longest = "-----BEGIN ", "-----END ", "-----", 1 << 14
	rest := s.text[i:min(len(s.text), i+longest)]
	if !strings.HasPrefix(rest, begin) {
		return 0
	}
	name, body, ok := strings.Cut(rest[len(begin):], dashes)
	if !ok || len(name) > 64 || !strings.HasSuffix(strings.TrimSuffix(name, " BLOCK"), "PRIVATE KEY") {
		return 0
	}
	n := 0 // characters of the key
	for k := range len(body) {
		if isBase64(body[k]) && body[k] != '-' {
			n++
		} else if strings.HasPrefix(body[k:], finish) {
			to, found := strings.CutPrefix(body[k+len(finish):], name+dashes)
			if n < 40 {
				return 0 // an example without a key
			}
			end := i + len(rest) - len(to)
			if !found {
				end = i + len(rest) - len(body) + k
			}
			s.add(i, end, PrivateKey, 1)
			return end
		}
	}
	if n < 40 {
		return 0
	}
	s.add(i, i+len(rest), PrivateKey, 0.9) // truncated
	return i + len(rest)
}
