package pay

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"bardo.money/gateway/policy"
)

// Requirement is one way to pay, as version 2 of the protocol writes it.
type Requirement struct {
	Scheme            Scheme `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount"`
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Extra             Extra  `json:"extra"`
}

// Extra has the scheme's own members of a requirement: the token's EIP-712 domain, and the signed quote.
type Extra struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Quote   string `json:"quote,omitempty"`

	Facilitator string `json:"facilitatorAddress,omitempty"` // with scheme upto: the account that may use the permit
}

// Resource describes what is paid for.
type Resource struct {
	URL         string `json:"url"`
	Description string `json:"description"`
	MimeType    string `json:"mimeType"`
}

// Offer is a quote as it is sent.
type Offer struct {
	Quote
	Signed    string
	Resource  Resource
	Reason    string // code of the refusal of an earlier payment; "" for the first quote
	Detail    string // the reason as a sentence
	Inference Inference
	Price     PriceQuote

	UpTo        bool // scheme upto is offered, too
	Facilitator Address
}

// Inference describes the request in a quote.
type Inference struct {
	EstimatedInputTokens  int64          `json:"estimatedInputTokens"`
	EstimatedOutputTokens int64          `json:"estimatedOutputTokens"`
	RoutedFrom            policy.ModelID `json:"routedFrom"`
	CacheEligible         bool           `json:"cacheEligible"`
	Optimizations         []string       `json:"optimizations"`
}

// PriceQuote has the parts of the price, in USD. The price is the highest possible cost of the request, so its discounts are 0: they are known after the
// request was served, and lower the charge then.
type PriceQuote struct {
	InputTokens         int64        `json:"input_tokens"`
	OutputTokens        int64        `json:"output_tokens"`
	ProviderCost        policy.Pico  `json:"provider_cost"`
	RoutingDiscount     policy.Micro `json:"routing_discount"`
	CacheDiscount       policy.Micro `json:"cache_discount"`
	CompressionDiscount policy.Micro `json:"compression_discount"`
	Margin              policy.Micro `json:"margin"`
	SettlementFee       policy.Micro `json:"settlement_fee"`
	Credit              policy.Micro `json:"credit"`         // of the named wallet
	Owed                policy.Micro `json:"owed,omitempty"` // by the named wallet, for payments that never arrived
	Total               policy.Micro `json:"total_charged"`
}

// requirements are the ways to pay a quote, the cheapest for a client first.
func (t *Terms) requirements(o *Offer) []Requirement {
	exact := t.requirement(o)
	if !o.UpTo {
		return []Requirement{exact}
	}
	upTo := exact
	upTo.Scheme, upTo.Extra.Facilitator = SchemeUpTo, o.Facilitator.String()
	return []Requirement{upTo, exact}
}

// requirement is the requirement of scheme exact for a quote.
func (t *Terms) requirement(o *Offer) Requirement {
	return Requirement{
		Scheme: SchemeExact, Network: t.Network.String(), Amount: strconv.FormatInt(int64(o.Amount), 10), Asset: t.Asset.Address.String(), PayTo: t.PayTo.String(),
		MaxTimeoutSeconds: int64(t.MaxTimeout().Seconds()), Extra: Extra{Name: t.Asset.Name, Version: t.Asset.Version, Quote: o.Signed},
	}
}

// Required is the value of the header PAYMENT-REQUIRED, of version 2.
func (t *Terms) Required(o *Offer) string {
	return encode(struct {
		Version  int           `json:"x402Version"`
		Error    string        `json:"error"`
		Resource Resource      `json:"resource"`
		Accepts  []Requirement `json:"accepts"`
	}{2, o.reason(), o.Resource, t.requirements(o)})
}

// reason is the protocol's error code in a quote.
func (o *Offer) reason() string {
	if o.Reason != "" {
		return o.Reason
	}
	return "payment_required"
}

// requirementV1 is a requirement in version 1 of the protocol.
type requirementV1 struct {
	Scheme            Scheme `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"maxAmountRequired"`
	Resource          string `json:"resource"`
	Description       string `json:"description"`
	MimeType          string `json:"mimeType"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Asset             string `json:"asset"`
	Extra             Extra  `json:"extra"`
}

// Body is the body of a response with a quote: a message of version 1, and the parts of the price.
func (t *Terms) Body(o *Offer) []byte {
	accepts := []requirementV1{}
	if t.Network.Name != "" {
		r := t.requirement(o)
		accepts = append(accepts, requirementV1{
			r.Scheme, t.Network.Name, r.Amount, o.Resource.URL, o.Resource.Description, o.Resource.MimeType, r.PayTo, r.MaxTimeoutSeconds, r.Asset,
			Extra{Name: r.Extra.Name, Version: r.Extra.Version},
		})
	}
	b, err := json.Marshal(struct {
		Version   int             `json:"x402Version"`
		Error     string          `json:"error"`
		Message   string          `json:"message"`
		Accepts   []requirementV1 `json:"accepts"`
		Scheme    Scheme          `json:"scheme"`
		Recipient string          `json:"recipient"`
		Expiry    int64           `json:"expiry"`
		Inference Inference       `json:"inference"`
		Price     PriceQuote      `json:"price"`
	}{1, o.reason(), o.Detail, accepts, SchemeExact, t.PayTo.String(), o.Expires.Unix(), o.Inference, o.Price})
	if err != nil {
		return nil // no value of these types fails
	}
	return b
}

// Settled is the settlement response that a client gets.
type Settled struct {
	Success     bool   `json:"success"`
	ErrorReason string `json:"errorReason,omitempty"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
	Amount      string `json:"amount,omitempty"` // moved, or to be moved, in units of the token
}

// Encode returns the value of the headers PAYMENT-RESPONSE and X-PAYMENT-RESPONSE.
func (s Settled) Encode() string { return encode(s) }

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // no value of these types fails
	}
	return base64.StdEncoding.EncodeToString(b)
}
