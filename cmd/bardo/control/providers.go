package control

import (
	"fmt"
	"strconv"

	"bardo.money/gateway/policy"
)

// Provider is a provider as in the control socket's answers and `providers --json`.
type Provider struct {
	Provider  policy.ProviderID `json:"provider"`
	State     string            `json:"state"` // healthy, degraded, down, credential_refused, unknown, disabled; not running without a gateway
	Reason    string            `json:"reason,omitempty"`
	Requests  int               `json:"requests"`   // recent
	ErrorRate float64           `json:"error_rate"` // share of Requests, 0 to 1
	Order     int               `json:"order"`      // 1 is tried first; 0: not tried
}

// NotRunning is the state of every provider when no gateway runs.
const NotRunning = "not running"

// Cells are its columns in a table: provider, state, error rate, order, reason.
func (s Provider) Cells() []string {
	rate, order := "", ""
	if s.Requests > 0 {
		rate = fmt.Sprintf("%.1f%% of %d", 100*s.ErrorRate, s.Requests)
	}
	if s.Order > 0 {
		order = strconv.Itoa(s.Order)
	}
	return []string{string(s.Provider), s.State, rate, order, s.Reason}
}
