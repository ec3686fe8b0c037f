package jwks

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"testing"
)

func rsaSet(n, e *big.Int, algorithm string) []byte {
	text := base64.RawURLEncoding.EncodeToString
	b, _ := json.Marshal(map[string]any{"keys": []Key{{Type: "RSA", ID: "r", Algorithm: algorithm, N: text(n.Bytes()), E: text(e.Bytes())}}})
	return b
}

func TestKeysOfRSA(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, both := big.NewInt(int64(key.E)), []string{ES256, RS256}
	if keys, err := Parse(rsaSet(key.N, e, ""), both); err != nil || !keys["r"].Equal(&key.PublicKey) {
		t.Errorf("%v, %v", keys, err)
	}
	short := new(big.Int).Rsh(key.N, 1)
	for name, set := range map[string][]byte{
		"1 bit too short": rsaSet(short, e, ""), "too long": rsaSet(new(big.Int).Lsh(key.N, 8192), e, ""), "an exponent of 1": rsaSet(key.N, big.NewInt(1), ""),
		"an even exponent": rsaSet(key.N, big.NewInt(4), ""), "a long exponent": rsaSet(key.N, new(big.Int).Lsh(e, 40), ""), "another algorithm": rsaSet(key.N, e, "PS256"),
	} {
		if keys, err := Parse(set, both); err == nil {
			t.Errorf("%s: %v", name, keys)
		}
	}
	if _, err := Parse(rsaSet(key.N, e, ""), []string{ES256}); err == nil {
		t.Error("a key of RSA is used for ES256")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(rsaSet(big.NewInt(5), big.NewInt(3), "RS256"))
	f.Add([]byte(`{"keys":[{"kty":"EC"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if keys, err := Parse(b, []string{ES256, RS256}); err == nil && (len(keys) == 0 || len(keys) > MaxKeys) {
			t.Errorf("%d keys", len(keys))
		}
	})
}
