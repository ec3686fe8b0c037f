package reasoning

import (
	"bardo.money/gateway/policy"
)

// Chain is what an answer shows of its reasoning, whoever gave it.
type Chain struct {
	Provider    policy.ProviderID `json:"provider"`
	Model       policy.ModelID    `json:"model"`
	Visibility  Visibility        `json:"visibility"`
	Content     *string           `json:"content"` // nil when nothing is shown
	Tokens      int64             `json:"reasoning_tokens"`
	Estimated   bool              `json:"estimated,omitempty"` // the tokens were counted by the gateway
	Truncated   bool              `json:"truncated,omitempty"` // the content is longer than what was kept
	Interleaved bool              `json:"interleaved"`         // it thought again after it had called a tool
	Steps       []Step            `json:"steps"`
	Cost        Cost              `json:"cost"`
}

// Visibility is how much of its reasoning an answer shows.
type Visibility uint8

// The visibilities, from nothing to all.
const (
	None       Visibility = iota // there was none
	Opaque                       // there was some, and its text is not shown
	Summarized                   // a summary is shown
	Visible                      // the whole text is shown
)

var visibilities = [...]string{None: "none", Opaque: "opaque", Summarized: "summarized", Visible: "visible"}

// String is the visibility's name, as clients read it.
func (v Visibility) String() string { return visibilities[v] }

// MarshalText implements encoding.TextMarshaler.
func (v Visibility) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Cost is what the reasoning took. Its tokens are a part of the answer's output, and billed as such once, however the provider reports
// them (D-43).
type Cost struct {
	Tokens         int64        `json:"reasoning_tokens"`
	BilledAsOutput bool         `json:"billed_as_output"` // the provider counts them among output tokens and nowhere else
	Discount       float64      `json:"discount_factor"`  // of their price; 1 is full
	USD            *policy.Pico `json:"usd"`              // the provider's price of them, a part of the answer's; nil where it is not known
}
