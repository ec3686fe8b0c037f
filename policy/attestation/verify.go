package attestation

import (
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxSkew is the largest difference between a receipt's time and the time of its verification, in both directions.
const MaxSkew = 30 * time.Second

// Reason is why an answer counts as not attested. It is an error.
type Reason string

// The reasons.
const (
	Missing     Reason = "missing"     // there is no receipt
	TooLarge    Reason = "too_large"   // it is larger than MaxReceipt
	Malformed   Reason = "malformed"   // it is not of the documented form
	Contradicts Reason = "contradicts" // there are several, which differ
	Debug       Reason = "debug_mode"  // from an enclave in debug mode
	Stale       Reason = "stale"       // older than MaxSkew
	Future      Reason = "future"      // newer than MaxSkew
	Signature   Reason = "signature"   // signed by none of the keys
	Nonce       Reason = "nonce"       // for another request
	Model       Reason = "model"       // for another model
	Measurement Reason = "measurement" // from an enclave that is not on the list
	Hash        Reason = "hash"        // of other bytes than those received
	Encoded     Reason = "encoding"    // the body has a content encoding, so that its bytes are not the answer's
	Truncated   Reason = "truncated"   // the answer is incomplete
	Endpoint    Reason = "endpoint"    // the answers of this endpoint are not attested
	Unreadable  Reason = "parse"       // void receipt: the answer cannot be parsed
	BadSchema   Reason = "schema"      // void receipt: the answer does not match its schema
	Unsent      Reason = "unsent"      // void receipt: an error was sent instead of the answer, for example because it could not be charged
)

// about has the message of each reason, for logs and errors.
var about = map[Reason]string{
	Missing: "there is no receipt", TooLarge: "the receipt is too large", Malformed: "the receipt is not of the documented form", Contradicts: "there are receipts that contradict each other",
	Debug: "the enclave runs in debug mode", Stale: "the receipt is older than 30 s", Future: "the receipt is from the future", Signature: "the receipt is not signed by a known key",
	Nonce: "the receipt is of another request", Model: "the receipt is of another model", Measurement: "the enclave is not one of those that are trusted",
	Hash: "the receipt is of another answer", Encoded: "the answer is compressed", Truncated: "the answer has no end", Endpoint: "answers of this endpoint are not attested",
	Unreadable: "the answer cannot be read", BadSchema: "the answer does not follow its schema", Unsent: "an error was sent instead of the answer",
}

// Error returns the reason's message. It quotes nothing of a receipt.
func (r Reason) Error() string {
	if words, ok := about[r]; ok {
		return words
	}
	return "not verified"
}

// Policy defines which receipts are trusted. The zero value trusts none.
type Policy struct {
	Keys         []ed25519.PublicKey
	Measurements []string // of enclaves, in lower-case hexadecimal
}

// NewPolicy reads keys (32 bytes, in base64 or hexadecimal) and measurements.
func NewPolicy(keys, measurements []string) (*Policy, error) {
	var p Policy
	for i, k := range keys {
		key, err := ParseKey(k)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		p.Keys = append(p.Keys, key)
	}
	for i, m := range measurements {
		m = strings.ToLower(m)
		if !isHex(m, MeasurementLen) {
			return nil, fmt.Errorf("measurement %d: it has to be %d hexadecimal digits (SHA-384)", i+1, MeasurementLen)
		}
		p.Measurements = append(p.Measurements, m)
	}
	return &p, nil
}

// ParseKey reads an Ed25519 public key: 32 bytes, in base64 or hexadecimal.
func ParseKey(s string) (ed25519.PublicKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		b, err = base64.StdEncoding.DecodeString(s)
	}
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("it has to be an Ed25519 public key: %d bytes in base64 or hexadecimal", ed25519.PublicKeySize)
	}
	return b, nil
}

// Expected has the values that a receipt must have.
type Expected struct {
	Nonce, Model, ResponseHash string
	At                         time.Time
}

// Verify returns why a receipt is not trusted for an answer; nil if it is. The error is a Reason.
func (p *Policy) Verify(r *Receipt, want *Expected) error {
	age := want.At.Sub(time.UnixMilli(r.Timestamp))
	switch {
	case r.Debug:
		return Debug
	case age > MaxSkew:
		return Stale
	case age < -MaxSkew:
		return Future
	case !p.signed(r):
		return Signature
	case !equal(r.Nonce, want.Nonce):
		return Nonce
	case r.Model != want.Model:
		return Model
	case !slices.Contains(p.Measurements, r.Measurement):
		return Measurement
	case !equal(r.ResponseHash, want.ResponseHash):
		return Hash
	}
	return nil
}

// signed reports whether one of the keys signed the receipt.
func (p *Policy) signed(r *Receipt) bool {
	signed := r.Signed()
	return slices.ContainsFunc(p.Keys, func(k ed25519.PublicKey) bool { return ed25519.Verify(k, signed, r.Signature) })
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
