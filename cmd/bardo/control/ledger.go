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

// Ledger is what a running gateway knows of its ledger and others do not: why it cannot write it, and what it has in memory alone.
type Ledger struct {
	Unready string `json:"unready"` // why it cannot be written; "" if it can
	Charges int    `json:"charges"`
	Micro   int64  `json:"micro_usd"`
	Store   string `json:"store"` // StoreID of the ledger
}

// StoreID tells one ledger from another without its name, which may have a password.
func StoreID(name string) string {
	digest := sha256.Sum256([]byte("bardo ledger " + name))
	return hex.EncodeToString(digest[:16])
}

// Waiting is what the gateway has not written, as an audit counts it.
func (s Ledger) Waiting() ledger.Waiting {
	return ledger.Waiting{Charges: s.Charges, Amount: policy.Micro(s.Micro)}
}

// AskLedger asks the gateway that runs on this state; the zero value where none does.
func AskLedger(ctx context.Context, h home.Dir) (s Ledger) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := Do(ctx, h, http.MethodGet, "/ledger", &s); err != nil {
		return Ledger{}
	}
	return s
}
