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

// Extra is what a requirement says beyond the protocol's members: the token's EIP-712 domain, and the signed quote.
type Extra struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Quote   string `json:"quote,omitempty"`

	Facilitator string `json:"facilitatorAddress,omitempty"` // with scheme upto: who may use the permit
}

// Resource is what is paid for.
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
	Reason    string // why an earlier payment was not taken; "" for the first quote
	Detail    string // the same for a person
	Inference Inference
	Price     PriceQuote

	UpTo        bool // scheme upto is taken too
	Facilitator Address
}

// Inference is what a quote says of the request.
type Inference struct {
	EstimatedInputTokens  int64          `json:"estimatedInputTokens"`
	EstimatedOutputTokens int64          `json:"estimatedOutputTokens"`
	RoutedFrom            policy.ModelID `json:"routedFrom"`
	CacheEligible         bool           `json:"cacheEligible"`
	Optimizations         []string       `json:"optimizations"`
}

// PriceQuote is what the price is made of, in USD. It is the most that the request can cost, so its discounts are zero: what they bring is known when the
// request was served, and is not charged then.
type PriceQuote struct {
	InputTokens         int64        `json:"input_tokens"`
	OutputTokens        int64        `json:"output_tokens"`
	ProviderCost        policy.Pico  `json:"provider_cost"`
	RoutingDiscount     policy.Micro `json:"routing_discount"`
	CacheDiscount       policy.Micro `json:"cache_discount"`
	CompressionDiscount policy.Micro `json:"compression_discount"`
	Margin              policy.Micro `json:"margin"`
	SettlementFee       policy.Micro `json:"settlement_fee"`
	Credit              policy.Micro `json:"credit"`         // of the wallet that will pay
	Owed                policy.Micro `json:"owed,omitempty"` // by this wallet, for payments that never arrived
	Total               policy.Micro `json:"total_charged"`
}

// requirements are the ways to pay a quote, the one that costs a client the least first.
func (t *Terms) requirements(o *Offer) []Requirement {
	exact := t.requirement(o)
	if !o.UpTo {
		return []Requirement{exact}
	}
	upTo := exact
	upTo.Scheme, upTo.Extra.Facilitator = SchemeUpTo, o.Facilitator.String()
	return []Requirement{upTo, exact}
}

// requirement is the exact scheme for a quote.
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

// reason is the protocol's error of a quote.
func (o *Offer) reason() string {
	if o.Reason != "" {
		return o.Reason
	}
	return "payment_required"
}

// oldRequirement is a requirement as version 1 writes it.
type oldRequirement struct {
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

// Body is the body of the answer with a quote: a message of version 1, and what the price is made of.
func (t *Terms) Body(o *Offer) []byte {
	accepts := []oldRequirement{}
	if t.Network.Name != "" {
		r := t.requirement(o)
		accepts = append(accepts, oldRequirement{
			r.Scheme, t.Network.Name, r.Amount, o.Resource.URL, o.Resource.Description, o.Resource.MimeType, r.PayTo, r.MaxTimeoutSeconds, r.Asset,
			Extra{Name: r.Extra.Name, Version: r.Extra.Version},
		})
	}
	b, err := json.Marshal(struct {
		Version   int              `json:"x402Version"`
		Error     string           `json:"error"`
		Message   string           `json:"message"`
		Accepts   []oldRequirement `json:"accepts"`
		Scheme    Scheme           `json:"scheme"`
		Recipient string           `json:"recipient"`
		Expiry    int64            `json:"expiry"`
		Inference Inference        `json:"inference"`
		Price     PriceQuote       `json:"price"`
	}{1, o.reason(), o.Detail, accepts, SchemeExact, t.PayTo.String(), o.Expires.Unix(), o.Inference, o.Price})
	if err != nil {
		return nil // no value of these types fails
	}
	return b
}

// Settled is what a client is told of its payment.
type Settled struct {
	Success     bool   `json:"success"`
	ErrorReason string `json:"errorReason,omitempty"`
	Transaction string `json:"transaction"`
	Network     string `json:"network"`
	Payer       string `json:"payer"`
	Amount      string `json:"amount,omitempty"` // what was moved, or will be, in units of the token
}

// Encode is the value of PAYMENT-RESPONSE and X-PAYMENT-RESPONSE.
func (s Settled) Encode() string { return encode(s) }

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "" // no value of these types fails
	}
	return base64.StdEncoding.EncodeToString(b)
}
