// Package attestation parses and verifies the receipts with which a provider's enclave attests its answers, and stores the verified ones: a chain of
// tokens that can be checked again without the gateway. It makes no calls, and does not know how a receipt arrives. Receipts and tokens hold no
// content of requests or answers, only an answer's hash.
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

// errMalformed is the cause for every malformed receipt. It quotes nothing of the receipt.
var errMalformed = errors.New("not a receipt of the documented form")

// Parse reads a receipt from its header: a JSON object in base64 with padding, in which each member occurs exactly once and no other does. The error
// is a Reason.
func Parse(header string) (*Receipt, error) {
	switch {
	case header == "":
		return nil, Missing
	case len(header) > MaxReceipt:
		return nil, TooLarge
	}
	text, err := base64.StdEncoding.Strict().DecodeString(header)
	if strings.ContainsAny(header, "\r\n") { // the standard library skips these
		return nil, Malformed
	}
	if err != nil || bytes.ContainsAny(text, "\\") { // no value needs an escape, so each receipt has one spelling
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
	if r.Signature, err = base64.StdEncoding.Strict().DecodeString(signature); err != nil || !r.wellFormed() {
		return nil, errMalformed
	}
	return &r, nil
}

// parseOthers reads the members that are not strings.
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

// maxTimestamp is the largest integer that every JSON reader represents exactly.
const maxTimestamp = 1 << 53

// wellFormed reports whether each value has its documented form.
func (r *Receipt) wellFormed() bool {
	return isHex(r.Measurement, MeasurementLen) && isHex(r.Nonce, NonceLen) && isHex(r.ResponseHash, hashLen) && len(r.Signature) == ed25519.SignatureSize &&
		r.Timestamp > 0 && r.Timestamp < maxTimestamp && isName(r.Model)
}

// isHex reports whether s is a number of lower-case hexadecimal digits.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}

// isName reports whether s can be a model's name in a receipt: printable ASCII without JSON escapes.
func isName(s string) bool {
	return s != "" && len(s) <= maxModel && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' })
}

// Signed returns the bytes that the signature covers: the receipt without its signature in the JSON Canonicalization Scheme (RFC 8785). Its values
// need no escapes and its number is an integer, so sorting the members is sufficient.
func (r *Receipt) Signed() []byte {
	return canonical([]member{
		{keyDebug, r.Debug}, {keyMeasurement, r.Measurement}, {keyModel, r.Model}, {keyNonce, r.Nonce}, {keyHash, r.ResponseHash}, {keyTimestamp, r.Timestamp},
	})
}

// Sign signs a receipt, as an enclave does.
func (r *Receipt) Sign(key ed25519.PrivateKey) { r.Signature = ed25519.Sign(key, r.Signed()) }

// Header returns the receipt in the form that Parse reads.
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
