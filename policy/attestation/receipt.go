// Package attestation reads and verifies the receipts by which a provider's enclave says what it has answered, and keeps what was verified: a chain of tokens that
// can be checked again without the gateway. It makes no calls, and knows nothing of how a receipt arrives. No receipt and no token has content of a request
// or of an answer: an answer stands there as its hash.
package attestation

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// Receipt is what an enclave signed about one answer.
type Receipt struct {
	Measurement  string // of the enclave: PCR digest, SHA-384 in hexadecimal
	Nonce        string // of the request, in hexadecimal
	Timestamp    int64  // Unix time in milliseconds
	Model        string // the provider's name of the model
	ResponseHash string // SHA-256 of the body of the answer, in hexadecimal
	Debug        bool   // the enclave runs in debug mode, without any guarantee
	Signature    []byte // Ed25519, over Signed
}

// Lengths of a receipt's values, in characters.
const (
	MeasurementLen = 96
	NonceLen       = 64
	hashLen        = 64
	maxModel       = 256

	// MaxReceipt bounds the header that a receipt comes in, in bytes.
	MaxReceipt = 8 << 10
)

// The members of a receipt.
const (
	keyMeasurement = "enclave_measurement"
	keyNonce       = "nonce"
	keyTimestamp   = "timestamp"
	keyModel       = "model_id"
	keyHash        = "response_hash"
	keyDebug       = "debug_mode"
	keySignature   = "signature"
)

var receiptForm = jsonx.NewForm(keyMeasurement, keyNonce, keyTimestamp, keyModel, keyHash, keyDebug, keySignature)

const receiptMembers = 7

// errMalformed is the cause of any receipt that is not of the form. It quotes nothing of it.
var errMalformed = errors.New("not a receipt of the documented form")

// Parse reads a receipt as its header has it: a JSON object in base64 with padding, whose members are all there, once, and no others. The error is a Reason.
func Parse(header string) (*Receipt, error) {
	switch {
	case header == "":
		return nil, Missing
	case len(header) > MaxReceipt:
		return nil, TooLarge
	}
	text, err := base64.StdEncoding.Strict().DecodeString(header)
	if strings.ContainsAny(header, "\r\n") { // which the standard library passes over
		return nil, Malformed
	}
	if err != nil || bytes.ContainsAny(text, "\\") { // no value needs an escape, and each has one spelling
		return nil, Malformed
	}
	r, err := parse(text)
	if err != nil {
		return nil, Malformed
	}
	return r, nil
}

func parse(text []byte) (*Receipt, error) {
	doc, err := receiptForm.Scan(text)
	if err != nil || len(doc.Members) != receiptMembers {
		return nil, errMalformed
	}
	var r Receipt
	signature := ""
	for _, m := range [...]struct {
		key string
		to  *string
	}{{keyMeasurement, &r.Measurement}, {keyNonce, &r.Nonce}, {keyModel, &r.Model}, {keyHash, &r.ResponseHash}, {keySignature, &signature}} {
		var ok bool
		if *m.to, ok = doc.Get(m.key).Str(); !ok {
			return nil, errMalformed
		}
	}
	if err := r.parseOthers(&doc); err != nil {
		return nil, err
	}
	if r.Signature, err = base64.StdEncoding.Strict().DecodeString(signature); err != nil || !r.formed() {
		return nil, errMalformed
	}
	return &r, nil
}

// parseOthers reads the members that are no strings.
func (r *Receipt) parseOthers(doc *jsonx.Doc) (err error) {
	switch string(doc.Get(keyDebug).Raw) {
	case "true":
		r.Debug = true
	case "false":
	default:
		return errMalformed
	}
	raw := string(doc.Get(keyTimestamp).Raw)
	if r.Timestamp, err = strconv.ParseInt(raw, 10, 64); err != nil || strconv.FormatInt(r.Timestamp, 10) != raw {
		return errMalformed
	}
	return nil
}

// maxTimestamp is the largest number that every JSON reader keeps exactly.
const maxTimestamp = 1 << 53

// formed reports whether each value has its form.
func (r *Receipt) formed() bool {
	return isHex(r.Measurement, MeasurementLen) && isHex(r.Nonce, NonceLen) && isHex(r.ResponseHash, hashLen) && len(r.Signature) == ed25519.SignatureSize &&
		r.Timestamp > 0 && r.Timestamp < maxTimestamp && isName(r.Model)
}

// isHex reports whether a text is a number of lower-case hexadecimal digits.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// isName reports whether a text can name a model in a receipt: printable ASCII that JSON needs no escapes for.
func isName(s string) bool {
	return s != "" && len(s) <= maxModel && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}

// Signed are the bytes that the signature covers: the receipt without its signature in the JSON Canonicalization Scheme (RFC 8785). Its values need no
// escapes and its number is an integer, so that the members in the order of their names are the whole of it.
func (r *Receipt) Signed() []byte {
	return canonical([]member{
		{keyDebug, r.Debug}, {keyMeasurement, r.Measurement}, {keyModel, r.Model}, {keyNonce, r.Nonce}, {keyHash, r.ResponseHash}, {keyTimestamp, r.Timestamp},
	})
}

// Sign signs a receipt, as an enclave does.
func (r *Receipt) Sign(key ed25519.PrivateKey) { r.Signature = ed25519.Sign(key, r.Signed()) }

// Header is the receipt as Parse reads it.
func (r *Receipt) Header() string {
	signature := base64.StdEncoding.EncodeToString(r.Signature)
	return base64.StdEncoding.EncodeToString(canonical([]member{
		{keyDebug, r.Debug},
		{keyMeasurement, r.Measurement},
		{keyModel, r.Model},
		{keyNonce, r.Nonce},
		{keyHash, r.ResponseHash},
		{keySignature, signature},
		{keyTimestamp, r.Timestamp},
	}))
}
