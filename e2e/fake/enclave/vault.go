// Package enclave plays a provider's enclaves: one that opens sealed requests and seals its answers, and one that signs its answers.
package enclave

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"

	"bardo.money/gateway/e2e/fake/check"
	"bardo.money/gateway/internal/rawjson"
)

// Vault is an enclave that opens sealed requests and seals its answers. What the fake records of such a request is what its host sees: ciphertext.
type Vault struct {
	mu     sync.Mutex
	keys   []*ecdh.PrivateKey
	opened []string
}

// NewVault is a vault with keys that follow from their names, the first one first.
func NewVault(names ...string) *Vault {
	v := &Vault{}
	v.Rotate(names...)
	return v
}

func vaultKey(name string) *ecdh.PrivateKey {
	seed := sha256.Sum256([]byte("vault " + name))
	k, err := ecdh.X25519().NewPrivateKey(seed[:])
	if err != nil { // every 32 bytes are a key
		return nil
	}
	return k
}

// VaultKey is the public key of a name, in base64.
func VaultKey(name string) string {
	return base64.StdEncoding.EncodeToString(vaultKey(name).PublicKey().Bytes())
}

// Rotate replaces the vault's keys.
func (v *Vault) Rotate(names ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = nil
	for _, n := range names {
		v.keys = append(v.keys, vaultKey(n))
	}
}

// Opened is what the vault has opened: the bodies of requests.
func (v *Vault) Opened() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.opened...)
}

// Visit is one request that was opened.
type Visit struct {
	Body   []byte
	enc    []byte
	secret []byte
}

const vaultInfo = "bardo-e2ee/1"

type sealedRequest struct {
	Model  string `json:"model"`
	Sealed *struct {
		V          int    `json:"v"`
		KeyID      string `json:"key_id"`
		Enc        []byte `json:"enc"`
		Ciphertext []byte `json:"ciphertext"`
	} `json:"e2ee"`
}

// Open opens a request; nil, nil for one that is not sealed.
func (v *Vault) Open(body []byte) (*Visit, *check.Refusal) {
	var r sealedRequest
	if json.Unmarshal(body, &r) != nil || r.Sealed == nil {
		return nil, nil //nolint:nilnil // it is no sealed request
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range v.keys {
		sum := sha256.Sum256(k.PublicKey().Bytes())
		if hex.EncodeToString(sum[:8]) != r.Sealed.KeyID {
			continue
		}
		return v.openWith(k, &r)
	}
	return nil, &check.Refusal{Status: http.StatusMisdirectedRequest, Kind: "invalid_request_error", Code: "e2ee_key_unknown", Message: "no such key"}
}

func (v *Vault) openWith(k *ecdh.PrivateKey, r *sealedRequest) (*Visit, *check.Refusal) {
	bad := func(format string, args ...any) (*Visit, *check.Refusal) {
		return nil, &check.Refusal{Status: http.StatusBadRequest, Kind: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
	}
	private, err := hpke.NewDHKEMPrivateKey(k)
	if err != nil {
		return bad("%v", err)
	}
	recipient, err := hpke.NewRecipient(r.Sealed.Enc, private, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(vaultInfo))
	if err != nil {
		return bad("%v", err)
	}
	body, err := recipient.Open([]byte(vaultInfo+" request\n"+r.Sealed.KeyID), r.Sealed.Ciphertext)
	if err != nil {
		return bad("%v", err)
	}
	o, err := rawjson.Parse(body)
	if err != nil || o.Str("model") != r.Model {
		return bad("the model inside is another one")
	}
	secret, err := recipient.Export(vaultInfo+" response", 32)
	if err != nil {
		return bad("%v", err)
	}
	v.opened = append(v.opened, string(body))
	return &Visit{Body: body, enc: r.Sealed.Enc, secret: secret}, nil
}

// Seal returns an answer that only the sender of the request can open.
func (s *Visit) Seal(body []byte) []byte {
	input, output := counted(body, "prompt_tokens"), counted(body, "completion_tokens")
	nonce := make([]byte, 32)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	prk, _ := hkdf.Extract(sha256.New, s.secret, append(bytes.Clone(s.enc), nonce...))
	key, _ := hkdf.Expand(sha256.New, prk, "key", 32)
	iv, _ := hkdf.Expand(sha256.New, prk, "nonce", 12)
	block, _ := aes.NewCipher(key) // the lengths are right
	aead, _ := cipher.NewGCM(block)
	text := aead.Seal(nil, iv, body, fmt.Appendf(nil, "%s response\n%d\n%d", vaultInfo, input, output))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `{"e2ee":{"v":1,"nonce":%q,"ciphertext":%q},"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, b64(nonce), b64(text), input, output)
}

// counted is the last number of a member in a body.
func counted(body []byte, member string) int {
	all := regexp.MustCompile(`"`+member+`": ?(\d+)`).FindAllSubmatch(body, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(string(all[len(all)-1][1])) // digits
	return n
}
