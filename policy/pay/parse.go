package pay

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
)

// Scheme is the way in which an amount is paid.
type Scheme string

// The supported schemes.
const (
	SchemeExact Scheme = "exact" // a transfer of exactly the quoted amount, by EIP-3009
	SchemeUpTo  Scheme = "upto"  // a transfer of the request's cost, at most the quoted amount, by Permit2
)

// Authorization is what a payer signs: an EIP-3009 authorization of a transfer, or with UpTo a Permit2 permit for x402's contract. Times are in seconds
// since 1970.
type Authorization struct {
	UpTo                    bool
	Facilitator             Address // with UpTo: the only account that may use it
	From, To                Address
	Value                   policy.Micro // with UpTo, the maximum that may be moved
	ValidAfter, ValidBefore uint64
	Nonce                   Word
}

// Scheme is the scheme of the authorization.
func (a *Authorization) Scheme() Scheme {
	if a.UpTo {
		return SchemeUpTo
	}
	return SchemeExact
}

// Transfer is the use of an authorization.
type Transfer struct {
	Authorization

	Amount    policy.Micro // to be moved: the value, or with UpTo at most that
	Signature []byte
	Mark      Mark // of the sending gateway's store; zero: the transaction has none
}

// Payment is the payment that a client sends with its request.
type Payment struct {
	Version int // of the protocol: 1 or 2
	Authorization
	Signature []byte
	Quote     string // the signed quote that the client got; "" in version 1, which has no member for it
}

// Bounds of parsed messages, in bytes.
const (
	maxHeader    = 16 << 10 // of a payment's header, in base64
	maxSignature = 4 << 10  // contract wallets define the format of their signatures
)

// The errors of parsing are sentences for clients.
var (
	errLong      = fmt.Errorf("a payment has at most %d bytes", maxHeader)
	errBase64    = errors.New("a payment is base64 of a JSON object")
	errSignature = fmt.Errorf("payload.signature is 0x and hexadecimal digits of 65 to %d bytes", maxSignature)
)

// message is the JSON of a payment in both versions.
type message struct {
	Version  int             `json:"x402Version"`
	Scheme   Scheme          `json:"scheme"`  // version 1
	Network  string          `json:"network"` // version 1
	Accepted *Requirement    `json:"accepted"`
	Payload  json.RawMessage `json:"payload"`
}

// Parse parses the value of a payment's header, for one version of the protocol. The error is a sentence for the client if the message cannot be parsed, and a
// *Refusal if it does not match the terms.
func (t *Terms) Parse(header string, version int) (*Payment, error) {
	m, err := decode(header)
	if err != nil {
		return nil, err
	}
	if m.Version != version {
		return nil, fmt.Errorf("x402Version is %d, expected %d in this header", m.Version, version)
	}
	p := &Payment{Version: version}
	if err := t.compare(p, m); err != nil {
		return nil, err
	}
	if err := t.readPayload(p, m.Payload); err != nil {
		return nil, err
	}
	if version == 2 {
		return p, p.compareSigned(m.Accepted)
	}
	return p, nil
}

// compareSigned refuses a payment whose accepted requirement differs from the signed values.
func (p *Payment) compareSigned(r *Requirement) error {
	if r.Amount != strconv.FormatInt(int64(p.Value), 10) {
		return p.Refuse(ReasonValue, "accepted.amount is not what the authorization is for")
	}
	if !p.UpTo || r.Extra.Facilitator == "" {
		return nil
	}
	if facilitator, err := ParseAddress(r.Extra.Facilitator); err != nil || facilitator != p.Facilitator {
		return p.Refuse(ReasonFacilitator, "accepted.extra.facilitatorAddress is not the witness's facilitator")
	}
	return nil
}

func decode(header string) (*message, error) {
	if len(header) > maxHeader {
		return nil, errLong
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(header))
	if err != nil {
		if text, err = base64.RawURLEncoding.DecodeString(strings.TrimSpace(header)); err != nil {
			return nil, errBase64
		}
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, errBase64
	}
	return &m, nil
}

// compare compares the client's copy of the requirement with the terms. Only its quote is used, which is signed.
func (t *Terms) compare(p *Payment, m *message) error {
	scheme, network := m.Scheme, m.Network
	if p.Version == 2 {
		if m.Accepted == nil {
			return errors.New("accepted is missing: it is what the client chose of the quote")
		}
		scheme, network = m.Accepted.Scheme, m.Accepted.Network
	}
	p.UpTo = scheme == SchemeUpTo && p.Version == 2
	if scheme != p.Scheme() {
		return refuse(ReasonScheme, "scheme %q is not taken here, only exact, and upto in version 2", clip(string(scheme)))
	}
	if !t.Network.Is(network, p.Version) {
		return refuse(ReasonNetwork, "network %q is not taken here, only %s", clip(network), t.Network)
	}
	if p.Version == 2 {
		p.Quote = m.Accepted.Extra.Quote
		return t.compareAccepted(p, m.Accepted)
	}
	return nil
}

// compareAccepted refuses a requirement that differs from the terms, field by field.
func (t *Terms) compareAccepted(p *Payment, r *Requirement) error {
	asset, err := ParseAddress(r.Asset)
	if err != nil || asset != t.Asset.Address {
		return refuse(ReasonTerms, "accepted.asset is not %s", t.Asset.Address)
	}
	to, err := ParseAddress(r.PayTo)
	if err != nil || to != t.PayTo {
		return p.Refuse(ReasonRecipient, "accepted.payTo is not %s", t.PayTo)
	}
	if r.Extra.Name != t.Asset.Name || r.Extra.Version != t.Asset.Version {
		return refuse(ReasonTerms, "accepted.extra does not name the token's domain, %s version %s", t.Asset.Name, t.Asset.Version)
	}
	if r.MaxTimeoutSeconds != int64(t.MaxTimeout().Seconds()) {
		return refuse(ReasonTerms, "accepted.maxTimeoutSeconds is not %d", int64(t.MaxTimeout().Seconds()))
	}
	return nil
}

func parseSignature(s string) ([]byte, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) < 2*65 || len(digits) > 2*maxSignature {
		return nil, errSignature
	}
	b, err := hex.DecodeString(digits)
	if err != nil {
		return nil, errSignature
	}
	return b, nil
}

// clip shortens a client's text for an error message.
func clip(s string) string { return s[:min(len(s), 40)] }
