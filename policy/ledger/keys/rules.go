package keys

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// Rules are restrictions of a key beyond the columns of its row. The zero value restricts nothing.
type Rules struct {
	policy.Scope
	SpendMonth  policy.Micro // charged amount per UTC month; 0 for no limit
	Publishable bool         // may be shown to others; it cannot be changed
	OldHash     string       // hash of the replaced secret
	OldUntil    time.Time    // when that expires
}

// ErrRules says that a key's rules contradict each other.
var ErrRules = errors.New("rules of the key")

// check returns ErrRules for a publishable key whose spending or use is not restricted.
func (k Row) check() error {
	switch {
	case !k.Publishable:
		return nil
	case !k.Prepaid:
		return fmt.Errorf("%w: a publishable key is prepaid, so that what it can lose is bounded", ErrRules)
	case k.SpendDay <= 0 && k.SpendMonth <= 0:
		return fmt.Errorf("%w: a publishable key needs a limit of its spending per day or month", ErrRules)
	case len(k.Networks) == 0 && len(k.Origins) == 0:
		return fmt.Errorf("%w: a publishable key needs networks or origins that it may be used from", ErrRules)
	}
	return nil
}

// Usable reports whether the key was not revoked and has not expired.
func (k Row) Usable(now time.Time) bool { return !k.Revoked() && !k.Expired(now) }

// storedRules is the JSON form of Rules in a key's row. Times are in microseconds since 1970.
type storedRules struct {
	Models      []string `json:"models,omitempty"`
	Subsystems  []string `json:"subsystems,omitempty"`
	Origins     []string `json:"origins,omitempty"`
	Expires     int64    `json:"expires,omitempty"`
	SpendMonth  int64    `json:"spend_per_month,omitempty"` // USDC base units
	Publishable bool     `json:"publishable,omitempty"`
	OldHash     string   `json:"old_hash,omitempty"`
	OldUntil    int64    `json:"old_until,omitempty"`
}

func (r *Rules) text() (string, error) {
	b, err := json.Marshal(storedRules{
		Models: r.Models, Subsystems: r.Subsystems, Origins: r.Origins, Expires: micros(r.Expires), SpendMonth: int64(r.SpendMonth),
		Publishable: r.Publishable, OldHash: r.OldHash, OldUntil: micros(r.OldUntil),
	})
	if string(b) == "{}" {
		return "", err
	}
	return string(b), err
}

func (r *Rules) parse(text string) error {
	*r = Rules{}
	if text == "" {
		return nil
	}
	var s storedRules
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	*r = Rules{
		Scope:      policy.Scope{Models: s.Models, Subsystems: s.Subsystems, Origins: s.Origins, Expires: timeAt(s.Expires)},
		SpendMonth: policy.Micro(s.SpendMonth), Publishable: s.Publishable, OldHash: s.OldHash, OldUntil: timeAt(s.OldUntil),
	}
	return nil
}

// micros is a time in microseconds since 1970, 0 for none.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func timeAt(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros)
}

// budgets returns the budgets of the key's requests, besides its daily limit.
func (k Row) budgets() (list []policy.Budget) {
	if k.SpendMonth > 0 {
		list = append(list, policy.Budget{Holder: policy.OfKey, ID: string(k.ID), PerMonth: k.SpendMonth})
	}
	return append(list, k.groups.budgets()...)
}
