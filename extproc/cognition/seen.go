package cognition

import (
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/policy"
)

// Kind is the name of the private provider's adapter.
const Kind = "venice"

// Seen is what the headers of one of its answers state besides the answer.
type Seen struct {
	Ray     string        // CF-Ray
	Balance *policy.Micro // balance of the account; nil if not stated
}

// maxRay bounds a CF-Ray, in bytes.
const maxRay = 64

// Look parses the head of an answer.
func Look(h header.List) (s Seen) {
	if ray := h.Get("cf-ray"); isRay(ray) {
		s.Ray = ray
	}
	if m, err := policy.ParseUSD(h.Get("x-venice-balance-usd")); err == nil {
		s.Balance = &m
	}
	return s
}

// isRay reports whether a text looks like a CF-Ray: no other text of the provider is repeated.
func isRay(text string) bool {
	for _, c := range []byte(text) {
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return text != "" && len(text) <= maxRay
}
