package admin

import (
	"net/netip"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// Key is an API key without its secret.
type Key struct {
	ID       policy.Account `json:"id"`
	Name     string         `json:"name"`
	Tier     policy.Tier    `json:"tier"`
	Balance  *policy.Micro  `json:"balance_usd"`   // null: the key is metered
	Credit   *policy.Micro  `json:"credit_usd"`    // how far below zero the balance may go; null: the key is metered
	SpendDay *policy.Micro  `json:"limit_usd_day"` // null: no limit
	RPM      *int           `json:"rpm"`           // null: the configured limit; 0: no limit
	Networks []netip.Prefix `json:"ip"`
	ReadOnly bool           `json:"read_only"`
	Guards   policy.Guards  `json:"policies"` // absent members: the configured policy
	Created  time.Time      `json:"created_at"`
	Revoked  *time.Time     `json:"revoked_at"`

	SpendMonth  *policy.Micro `json:"limit_usd_month"` // null: no limit
	Models      []string      `json:"models"`          // none: any
	Subsystems  []string      `json:"subsystems"`
	Origins     []string      `json:"origins"`
	Publishable bool          `json:"publishable"`
	Expires     *time.Time    `json:"expires_at"` // null: never
	OldUntil    *time.Time    `json:"old_secret_until"`
	Project     string        `json:"project,omitempty"`
}

// keyOf returns a key's row as operators see it, without its balance.
func keyOf(k *ledger.KeyRow) Key {
	list := func(l []string) []string { return append([]string{}, l...) }
	out := Key{
		ID: k.ID, Name: k.Name, Tier: k.Tier, Networks: append([]netip.Prefix{}, k.Networks...), ReadOnly: k.ReadOnly, Guards: k.Guards,
		Created: k.CreatedAt.UTC(), Revoked: timeOrNull(k.RevokedAt), SpendDay: limitOrNull(k.SpendDay), SpendMonth: limitOrNull(k.SpendMonth),
		Models: list(k.Models), Subsystems: list(k.Subsystems), Origins: list(k.Origins), Publishable: k.Publishable,
		Expires: timeOrNull(k.Expires), Project: k.Project,
	}
	if k.RPM != 0 {
		out.RPM = new(max(k.RPM, 0))
	}
	if k.OldHash != "" && time.Now().Before(k.OldUntil) {
		out.OldUntil = timeOrNull(k.OldUntil)
	}
	return out
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func limitOrNull(m policy.Micro) *policy.Micro {
	if m <= 0 {
		return nil
	}
	return &m
}

// NewKey is the request to create a key. With a balance the key is prepaid, otherwise metered.
type NewKey struct {
	KeyFields

	Balance     Field[policy.Micro] `json:"balance_usd,omitzero"`
	Publishable Field[bool]         `json:"publishable,omitzero"`
}

// Limits returns the future key without its id and balance. Invalid members are left out.
func (n *NewKey) Limits() *Key {
	row, _, _ := n.row() // CreateKey reports the error
	k := keyOf(&row)
	return &k
}

// Created is a new key with its secret. The secret is not stored.
type Created struct {
	ID      policy.Account `json:"id"`
	Key     string         `json:"key"`
	Name    string         `json:"name"`
	Tier    policy.Tier    `json:"tier"`
	Balance *policy.Micro  `json:"balance_usd"` // null: the key is metered
}

// Rotation controls how a key's secret is replaced.
type Rotation struct {
	Overlap Field[int64] `json:"overlap_seconds,omitzero"` // how long the old secret stays valid; absent: a day
}

// Rotated is a key with a new secret.
type Rotated struct {
	ID       policy.Account `json:"id"`
	Key      string         `json:"key"`
	OldUntil time.Time      `json:"old_secret_until"`
}
