package enclave

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
)

// Enclave signs what the fake answers, as Venice's enclaves do for those who ask: the receipt is in a header of a body, and in a trailer of a stream.
type Enclave struct {
	Key         ed25519.PrivateKey
	Measurement string
}

// New is an enclave with keys that follow from its name.
func New(name string) *Enclave {
	seed := sha256.Sum256([]byte("enclave " + name))
	return &Enclave{Key: ed25519.NewKeyFromSeed(seed[:]), Measurement: strings.Repeat(hex.EncodeToString(seed[:16]), 3)}
}

// PublicKey is the key that its receipts are verified with, in base64.
func (e *Enclave) PublicKey() string {
	return base64.StdEncoding.EncodeToString(e.Key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // it is one
}

// Receipt is a receipt that is about to be signed and sent. A test changes it to forge one.
type Receipt struct {
	Measurement, Nonce, Model, Hash string

	At    time.Time
	Debug bool
	Key   ed25519.PrivateKey

	Text   func(signed string) string      // changes the JSON text, after it was signed
	Header func(receipt string) string     // changes the header's value
	Sent   func(value string) (h []string) // the values that are sent; nil: the one
	Late   func(value string) (h []string) // the values of trailers that a body is followed by, and a stream in addition; a body with any has no length
}

// Receipt returns the receipt of a body with the hash sum, for a request with a nonce and a model.
func (e *Enclave) Receipt(nonce, model string, sum []byte) *Receipt {
	return &Receipt{Measurement: e.Measurement, Nonce: nonce, Model: model, Hash: hex.EncodeToString(sum), At: time.Now(), Key: e.Key}
}

// Value signs a receipt and writes it as a header's value. The canonical form of such an object is what encoding/json makes of a map.
func (r *Receipt) Value() string {
	o := map[string]any{
		"enclave_measurement": r.Measurement, "nonce": r.Nonce, "timestamp": r.At.UnixMilli(), "model_id": r.Model, "response_hash": r.Hash, "debug_mode": r.Debug,
	}
	signed, _ := json.Marshal(o) // strings, a number and a bool
	o["signature"] = base64.StdEncoding.EncodeToString(ed25519.Sign(r.Key, signed))
	text, _ := json.Marshal(o)
	if r.Text != nil {
		text = []byte(r.Text(string(text)))
	}
	value := base64.StdEncoding.EncodeToString(text)
	if r.Header != nil {
		value = r.Header(value)
	}
	return value
}
