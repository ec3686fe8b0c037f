package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Ledger is the state of a ledger that only its running gateway knows: why it cannot be written, and what is only in memory.
type Ledger struct {
	Unready string `json:"unready"` // why it cannot be written; "" if it can
	Charges int    `json:"charges"`
	Micro   int64  `json:"micro_usd"`
	Store   string `json:"store"` // StoreID of the ledger
}

// StoreID identifies a ledger without revealing its name, which may contain a password.
func StoreID(name string) string {
	digest := sha256.Sum256([]byte("bardo ledger " + name))
	return hex.EncodeToString(digest[:16])
}

// Waiting is what the gateway has not written, for an audit.
func (s Ledger) Waiting() ledger.Waiting {
	return ledger.Waiting{Charges: s.Charges, Amount: policy.Micro(s.Micro)}
}

// ReadLedger returns the state of the running gateway's ledger; the zero value if none runs.
func ReadLedger(ctx context.Context, h home.Dir) (s Ledger) {
	const timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := Do(ctx, h, http.MethodGet, "/ledger", &s); err != nil {
		return Ledger{}
	}
	return s
}
