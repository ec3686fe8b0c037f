// Package e2ee encrypts requests for an enclave, and opens what it answers: nobody between the two can read either. It is for the gateway, and for agents that
// do not want the gateway to read their requests. It makes no calls, and keeps no keys.
//
// A request is sealed with HPKE (RFC 9180) for the enclave's X25519 key. Its answer is sealed with a key that only this request's two ends can derive, as in
// RFC 9458 (section 4.4): the answer to another request, or an earlier one, cannot be opened.
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

// Version is that of the format.
const Version = 1

// Labels of the format. They keep its keys apart from those of any other.
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

	// MaxAnswer bounds a sealed answer.
	MaxAnswer = 48 << 20
)

// Key is an enclave's public key.
type Key struct {
	ID     string // the beginning of the SHA-256 of its bytes, in hexadecimal
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

// ParseKeys reads several keys, of which the first is used first.
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
	Model     string        `json:"model,omitempty"`      // that has to serve it; the same as in the sealed body
	MaxTokens int64         `json:"max_tokens,omitempty"` // the longest answer that is asked for inside, for who has to reserve its cost
	Sealed    SealedRequest `json:"e2ee"`
}

// SealedRequest is what of a request only the enclave can open.
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

// SealedAnswer is what of an answer only the request's sender can open.
type SealedAnswer struct {
	Version    int    `json:"v"`
	Nonce      []byte `json:"nonce"` // 32 random bytes
	Ciphertext []byte `json:"ciphertext"`
}

// Usage is what the answer took. It is readable for who bills it, and protected against changes.
type Usage struct {
	Input  int64 `json:"prompt_tokens"`
	Output int64 `json:"completion_tokens"`
}

// Reason is why an answer cannot be opened. It is an error, and quotes nothing of the answer.
type Reason string

// The reasons.
const (
	NotSealed  Reason = "not_sealed" // it is not of the form: the enclave has not sealed it
	NotOpened  Reason = "not_opened" // it was sealed for another request, by another key, or changed
	NotWhole   Reason = "truncated"  // it broke off
	NotBounded Reason = "too_large"  // it has more than MaxAnswer bytes
)

// Error is the reason.
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

// requestData is what of a request is protected, and not encrypted.
func requestData(keyID string) []byte { return []byte(requestLabel + "\n" + keyID) }

// answerData is the same of an answer.
func answerData(u *Usage) []byte {
	return fmt.Appendf(nil, "%s\n%d\n%d", responseLabel, u.Input, u.Output)
}

// Seal encrypts the body of a request for a key. model is what it asks for, and maxTokens the longest answer (0: unsaid): who passes the request on can read
// these two.
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

// answerForm are the members of a sealed answer, each of which is there once.
var answerForm = jsonx.NewForm("e2ee", "v", "nonce", "ciphertext", "usage", "prompt_tokens", "completion_tokens")

// readAnswer reads a sealed answer of exactly the form, with nothing before, behind or beside it. Its bytes have one spelling.
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

// decode reads bytes in base64, without line breaks, which the standard library would pass over.
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
