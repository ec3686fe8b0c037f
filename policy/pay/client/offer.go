package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/pay"
)

// Headers of the protocol; 1: of version 1.
const (
	headerRequired  = "Payment-Required"
	headerPayment   = header.Payment
	headerPayment1  = header.Payment1
	headerResponse  = "Payment-Response"
	headerResponse1 = "X-Payment-Response"
)

// Bounds of a server's price.
const (
	maxBody   = 64 << 10 // bytes of a response with a price
	maxHeader = 32 << 10
	maxOffers = 32
	maxValue  = 1_000_000 * uint64(policy.USD)
)

// Offer is one of a server's ways to pay. Only offers that the rules allow are signed.
type Offer struct {
	Version       int // of the protocol
	Scheme        pay.Scheme
	Network       string
	Amount        policy.Micro
	Asset         pay.Address
	PayTo         pay.Address
	Timeout       int64 // required validity of the authorization, in seconds
	Name          string
	DomainVersion string // the version of the token's EIP-712 domain
	Facilitator   string

	raw      json.RawMessage // unchanged from the server
	resource json.RawMessage
}

// terms are the members of an offer in both versions.
type terms struct {
	Scheme    pay.Scheme `json:"scheme"`
	Network   string     `json:"network"`
	Amount    string     `json:"amount"`
	MaxAmount string     `json:"maxAmountRequired"` // version 1
	Asset     string     `json:"asset"`
	PayTo     string     `json:"payTo"`
	Timeout   int64      `json:"maxTimeoutSeconds"`
	Extra     struct {
		Name        string `json:"name"`
		Version     string `json:"version"`
		Facilitator string `json:"facilitatorAddress"`
		Method      string `json:"assetTransferMethod"`
	} `json:"extra"`
}

// challenge is the content of a 402 response, in both versions.
type challenge struct {
	Version  int               `json:"x402Version"`
	Resource json.RawMessage   `json:"resource"`
	Accepts  []json.RawMessage `json:"accepts"`
}

var (
	errNoPrice  = errors.New("it names no price: there is neither a header PAYMENT-REQUIRED nor a body of x402")
	errNoOffers = errors.New("it names no way to pay")
)

// readOffers parses a price: of version 2 from the header, else of version 1 from the body. unread has the errors of offers that cannot be parsed.
func readOffers(required string, body []byte) (all []Offer, unread []string, err error) {
	version, text := 1, body
	if required != "" {
		version = 2
		if text, err = decode(required); err != nil {
			return nil, nil, fmt.Errorf("PAYMENT-REQUIRED: %w", err)
		}
	}
	var c challenge
	if json.Unmarshal(text, &c) != nil || c.Version != version {
		return nil, nil, errNoPrice
	}
	if len(c.Accepts) == 0 || len(c.Accepts) > maxOffers {
		return nil, nil, errNoOffers
	}
	for _, raw := range c.Accepts {
		o, err := readOffer(version, raw)
		if err != nil {
			unread = append(unread, err.Error())
			continue
		}
		o.resource = c.Resource
		all = append(all, o)
	}
	return all, unread, nil
}

func readOffer(version int, raw json.RawMessage) (o Offer, err error) {
	var t terms
	if json.Unmarshal(raw, &t) != nil {
		return o, errors.New("an offer cannot be read")
	}
	what := fmt.Sprintf("%s on %s", clip(string(t.Scheme)), clip(t.Network))
	amount := t.Amount
	if version == 1 {
		amount = t.MaxAmount
	}
	n, err := strconv.ParseUint(amount, 10, 64)
	if err != nil || n == 0 || n > maxValue {
		return o, fmt.Errorf("%s: the amount %q is not a whole number from 1 to %d", what, clip(amount), maxValue)
	}
	o = Offer{Version: version, Scheme: t.Scheme, Network: t.Network, Amount: policy.Micro(n), Timeout: t.Timeout, Name: t.Extra.Name, DomainVersion: t.Extra.Version, Facilitator: t.Extra.Facilitator, raw: raw}
	if o.Asset, err = pay.ParseAddress(t.Asset); err != nil {
		return o, fmt.Errorf("%s: the asset is %w", what, err)
	}
	if o.PayTo, err = pay.ParseAddress(t.PayTo); err != nil {
		return o, fmt.Errorf("%s: the payee is %w", what, err)
	}
	if t.Extra.Method != "" && t.Extra.Method != "eip3009" && o.Scheme == pay.SchemeExact {
		return o, fmt.Errorf("%s: transfers by %q are not made, only by EIP-3009", what, clip(t.Extra.Method))
	}
	return o, nil
}

func decode(text string) ([]byte, error) {
	if len(text) > maxHeader {
		return nil, fmt.Errorf("it has more than %d bytes", maxHeader)
	}
	text = strings.TrimSpace(text)
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		if b, err = base64.RawURLEncoding.DecodeString(text); err != nil {
			return nil, errors.New("it is not base64")
		}
	}
	return b, nil
}

// clip shortens a server's text for a message, without control characters.
func clip(s string) string {
	const limit = 80
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// Receipt is a payee's settlement response.
type Receipt struct {
	Success     bool   `json:"success"`
	ErrorReason string `json:"errorReason"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
	Amount      string `json:"amount"`
}

// readReceipt parses the receipt in the headers of a response; ok is false if there is no valid one.
func readReceipt(get func(string) string) (r Receipt, ok bool) {
	text := get(headerResponse)
	if text == "" {
		text = get(headerResponse1)
	}
	b, err := decode(text)
	if text == "" || err != nil || json.Unmarshal(b, &r) != nil {
		return Receipt{}, false
	}
	r.ErrorReason = clip(r.ErrorReason)
	if _, err := pay.ParseWord(r.Transaction); err != nil {
		r.Transaction = ""
	}
	return r, true
}
