package jwks

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"
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

// TestAPanicOfAFetchIsItsError: it does not end the process, and the next fetch succeeds.
func TestAPanicOfAFetchIsItsError(t *testing.T) {
	t.Parallel()
	fail := true
	k := New(Options{Algorithms: []string{RS256}, Refresh: time.Hour, Now: time.Now, Fetch: func(context.Context) ([]byte, error) {
		if fail {
			panic("a fault")
		}
		return rsaSet(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 2048), big.NewInt(1)), big.NewInt(3), ""), nil
	}})
	if _, err := k.Find(t.Context(), "r"); !errors.Is(err, ErrNoKeys) {
		t.Error(err)
	}
	fail = false
	if _, err := k.Find(t.Context(), "r"); err != nil {
		t.Error(err)
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
