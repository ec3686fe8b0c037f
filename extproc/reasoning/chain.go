package reasoning

import (
	"bardo.money/gateway/policy"
)

// Chain is the reasoning of an answer in a form that is the same for all providers. Clients get it as JSON.
type Chain struct {
	Provider    policy.ProviderID `json:"provider"`
	Model       policy.ModelID    `json:"model"`
	Visibility  Visibility        `json:"visibility"`
	Content     *string           `json:"content"` // nil if the provider returned no text
	Tokens      int64             `json:"reasoning_tokens"`
	Estimated   bool              `json:"estimated,omitempty"` // Tokens is an estimate of the gateway
	Truncated   bool              `json:"truncated,omitempty"` // the content was longer than the gateway records
	Interleaved bool              `json:"interleaved"`         // reasoning continued after a tool call
	Steps       []Step            `json:"steps"`
	Cost        Cost              `json:"cost"`
}

// Visibility is how much of the reasoning the provider returns.
type Visibility uint8

// The visibilities, from nothing to all.
const (
	None       Visibility = iota // no reasoning
	Opaque                       // reasoning without its text
	Summarized                   // a summary of the text
	Visible                      // the whole text
)

var visibilities = [...]string{None: "none", Opaque: "opaque", Summarized: "summarized", Visible: "visible"}

// String is the name in JSON.
func (v Visibility) String() string { return visibilities[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Visibility) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Cost is the cost of the reasoning. Its tokens are part of the output tokens and billed once, however the provider reports them (D-43).
type Cost struct {
	Tokens         int64        `json:"reasoning_tokens"`
	BilledAsOutput bool         `json:"billed_as_output"` // the provider reports them only as part of the output tokens
	Discount       float64      `json:"discount_factor"`  // factor on the output price; 1 is the full price
	USD            *policy.Pico `json:"usd"`              // part of the provider's charge for the answer; nil if unknown
}
