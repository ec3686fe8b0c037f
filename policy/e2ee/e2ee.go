// Package e2ee encrypts requests for an enclave and decrypts its answers, so that no intermediary can read either. The gateway uses it, and so can
// agents that do not want the gateway to read their requests. It makes no calls, and stores no keys.
//
// A request is sealed with HPKE (RFC 9180) for the enclave's X25519 key. Its answer is sealed with a key that only this request's two ends can
// derive, as in RFC 9458 (section 4.4): the answer to another request, or an earlier one, cannot be opened.
package e2ee

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Version is the version of the format.
const Version = 1

// Labels of the format. They separate its keys from those of any other.
const (
	info          = "bardo-e2ee/1"
	requestLabel  = info + " request"
	responseLabel = info + " response"
)

// Lengths in bytes.
const (
	keyLen   = 32
	idLen    = 8
	nonceLen = 12

	// MaxAnswer limits a sealed answer.
	MaxAnswer = 48 << 20
)

// Key is an enclave's public key.
type Key struct {
	ID     string // prefix of the SHA-256 of its bytes, in hexadecimal
	public hpke.PublicKey
}

// ParseKey reads a public key: 32 bytes, in base64 or hexadecimal.
func ParseKey(s string) (*Key, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		b, err = base64.StdEncoding.DecodeString(s)
	}
	if err != nil || len(b) != keyLen {
		return nil, fmt.Errorf("it has to be an X25519 public key: %d bytes in base64 or hexadecimal", keyLen)
	}
	public, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(b)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return &Key{ID: hex.EncodeToString(sum[:idLen]), public: public}, nil
}

// ParseKeys reads several keys; the first one is tried first.
func ParseKeys(texts []string) (keys []*Key, err error) {
	for i, s := range texts {
		k, err := ParseKey(s)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

// Request is the body of a sealed request.
type Request struct {
	Model     string        `json:"model,omitempty"`      // the model that must serve it; equal to the one in the sealed body
	MaxTokens int64         `json:"max_tokens,omitempty"` // maximum answer length in the sealed body, for reserving its cost
	Sealed    SealedRequest `json:"e2ee"`
}

// SealedRequest is the part of a request that only the enclave can open.
type SealedRequest struct {
	Version    int    `json:"v"`
	KeyID      string `json:"key_id"`
	Enc        []byte `json:"enc"` // HPKE's encapsulated key
	Ciphertext []byte `json:"ciphertext"`
}

// Answer is the body of a sealed answer.
type Answer struct {
	Sealed SealedAnswer `json:"e2ee"`
	Usage  Usage        `json:"usage"`
}

// SealedAnswer is the part of an answer that only the request's sender can open.
type SealedAnswer struct {
	Version    int    `json:"v"`
	Nonce      []byte `json:"nonce"` // 32 random bytes
	Ciphertext []byte `json:"ciphertext"`
}

// Usage is the token usage of the answer. It is readable for billing, and authenticated.
type Usage struct {
	Input  int64 `json:"prompt_tokens"`
	Output int64 `json:"completion_tokens"`
}

// Reason is why an answer cannot be opened. It is an error, and quotes nothing of the answer.
type Reason string

// The reasons.
const (
	NotSealed  Reason = "not_sealed" // it has another form: the enclave did not seal it
	NotOpened  Reason = "not_opened" // it was sealed for another request or by another key, or was changed
	NotWhole   Reason = "truncated"  // it is incomplete
	NotBounded Reason = "too_large"  // it has more than MaxAnswer bytes
)

// Error returns the reason's message.
func (r Reason) Error() string {
	switch r {
	case NotSealed:
		return "the answer is not encrypted"
	case NotOpened:
		return "the answer is not encrypted for this request"
	case NotWhole:
		return "the encrypted answer has no end"
	case NotBounded:
		return "the encrypted answer is too large"
	}
	return string(r)
}

// Call is a sealed request whose answer can be opened. Not safe for concurrent use.
type Call struct {
	enc    []byte
	secret []byte
}

// requestData returns the authenticated, unencrypted data of a request.
func requestData(keyID string) []byte { return []byte(requestLabel + "\n" + keyID) }

// answerData returns the authenticated, unencrypted data of an answer.
func answerData(u *Usage) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%d", responseLabel, u.Input, u.Output)
}

// Seal encrypts the body of a request for a key. model is the requested model, and maxTokens the maximum answer length (0: unset); intermediaries can
// read these two.
func Seal(k *Key, model string, maxTokens int64, body []byte) (sealed []byte, c *Call, err error) {
	enc, sender, err := hpke.NewSender(k.public, hpke.HKDFSHA256(), hpke.AES256GCM(), []byte(info))
	if err != nil {
		return nil, nil, err
	}
	r := Request{Model: model, MaxTokens: maxTokens, Sealed: SealedRequest{Version: Version, KeyID: k.ID, Enc: enc}}
	if r.Sealed.Ciphertext, err = sender.Seal(requestData(k.ID), body); err != nil {
		return nil, nil, err
	}
	c = &Call{enc: enc}
	if c.secret, err = sender.Export(responseLabel, keyLen); err != nil {
		return nil, nil, err
	}
	sealed, err = json.Marshal(r)
	return sealed, c, err
}

// Open decrypts the answer to the call. The error is a Reason.
func (c *Call) Open(answer []byte) (body []byte, u Usage, err error) {
	a, err := readAnswer(answer)
	if err != nil {
		return nil, u, err
	}
	aead, nonce, err := answerKey(c.secret, c.enc, a.Sealed.Nonce)
	if err != nil {
		return nil, u, NotOpened
	}
	body, err = aead.Open(nil, nonce, a.Sealed.Ciphertext, answerData(&a.Usage))
	if err != nil {
		return nil, u, NotOpened
	}
	return body, a.Usage, nil
}

// answerForm lists the members of a sealed answer, each of which occurs once.
var answerForm = jsonx.NewForm("e2ee", "v", "nonce", "ciphertext", "usage", "prompt_tokens", "completion_tokens")

// readAnswer reads a sealed answer. It must have exactly this form, without other bytes, and each value has one spelling.
func readAnswer(b []byte) (*Answer, error) {
	if _, err := answerForm.Scan(b); err != nil {
		return nil, NotSealed
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var r struct {
		Sealed struct {
			Version    int    `json:"v"`
			Nonce      string `json:"nonce"`
			Ciphertext string `json:"ciphertext"`
		} `json:"e2ee"`
		Usage Usage `json:"usage"`
	}
	if err := d.Decode(&r); err != nil || r.Sealed.Version != Version || r.Usage.Input < 0 || r.Usage.Output < 0 {
		return nil, NotSealed
	}
	nonce, err := decode(r.Sealed.Nonce)
	if err != nil || len(nonce) != keyLen {
		return nil, NotSealed
	}
	text, err := decode(r.Sealed.Ciphertext)
	if err != nil || len(text) == 0 {
		return nil, NotSealed
	}
	return &Answer{Sealed: SealedAnswer{Version: Version, Nonce: nonce, Ciphertext: text}, Usage: r.Usage}, nil
}

// decode reads base64 without line breaks, which the standard library would skip.
func decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, NotSealed
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// answerKey derives the key of an answer from the request's secret: RFC 9458, section 4.4.
func answerKey(secret, enc, nonce []byte) (cipher.AEAD, []byte, error) {
	salt := append(bytes.Clone(enc), nonce...)
	prk, err := hkdf.Extract(sha256.New, secret, salt)
	if err != nil {
		return nil, nil, err
	}
	key, err := hkdf.Expand(sha256.New, prk, "key", keyLen)
	if err != nil {
		return nil, nil, err
	}
	iv, err := hkdf.Expand(sha256.New, prk, "nonce", nonceLen)
	if err != nil {
		return nil, nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, err
	}
	aead, err := cipher.NewGCM(block)
	return aead, iv, err
}
