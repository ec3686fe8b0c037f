// Package credit manages the operator's account at a prepaid provider (P-12): its balance, when credit is bought, and whether the provider's usage
// report matches the ledger. It reads and writes the documents of Bankr's account API, and decides. It makes no calls.
package credit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// MaxDocument limits what is read of an answer, in bytes.
const MaxDocument = 1 << 20

// MaxPurchase is Bankr's limit for one purchase.
const MaxPurchase = 1000 * policy.USD

// dollars is a JSON number of dollars, in 1e-12 USD: providers write floats, so further digits are rounded. It is below a billion dollars, and may be
// negative: Bankr deducts usage later.
type dollars policy.Pico

// errAmount is the error of a member that is not an amount of dollars.
var errAmount = errors.New("not an amount of dollars")

// UnmarshalJSON implements json.Unmarshaler.
func (d *dollars) UnmarshalJSON(b []byte) error {
	const longest = 40 // digits and exponent of a float
	if len(b) > longest || len(b) == 0 || b[0] != '-' && (b[0] < '0' || b[0] > '9') || exponent(b) {
		return errAmount
	}
	r, ok := new(big.Rat).SetString(string(b))
	if !ok || r.Cmp(maxAmount) > 0 || r.Cmp(new(big.Rat).Neg(maxAmount)) < 0 {
		return errAmount
	}
	r.Mul(r, new(big.Rat).SetInt64(1e12))
	*d = dollars(new(big.Int).Quo(r.Num(), r.Denom()).Int64())
	return nil
}

// maxAmount limits an amount: a million dollars.
var maxAmount = new(big.Rat).SetInt64(1_000_000)

// exponent reports whether a number's power of ten has more than two digits, which would take long to compute.
func exponent(b []byte) bool {
	i := bytes.IndexAny(b, "eE")
	return i >= 0 && len(bytes.TrimLeft(b[i+1:], "+-0")) > 2
}

// micro returns the amount in base units, rounded down, so that a balance is never overstated.
func (d dollars) micro() policy.Micro {
	const unit = 1_000_000
	m := policy.Micro(d / unit)
	if d%unit < 0 {
		m--
	}
	return m
}

// ParseBalance reads the remaining credit, less usage that is not deducted yet where the document states it.
func ParseBalance(b []byte) (policy.Micro, error) {
	var doc struct {
		Balance   *dollars `json:"balanceUsd"`
		Effective *dollars `json:"effectiveBalanceUsd"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return 0, fmt.Errorf("the credit: %w", err)
	}
	switch {
	case doc.Effective != nil:
		return doc.Effective.micro(), nil
	case doc.Balance != nil:
		return doc.Balance.micro(), nil
	}
	return 0, errors.New("the credit: neither effectiveBalanceUsd nor balanceUsd")
}

// Line is the usage of one model in a period.
type Line struct {
	Model    string      `json:"model"`
	Requests int64       `json:"requests"`
	Cost     policy.Pico `json:"cost_usd"`
}

// Usage is a provider's report of the usage in a period.
type Usage struct {
	From, To time.Time
	Lines    []Line // by model
}

// maxModels limits the models in a usage report.
const maxModels = 1024

// ParseUsage reads a usage report.
func ParseUsage(b []byte) (Usage, error) {
	var doc struct {
		From    time.Time `json:"startDate"`
		To      time.Time `json:"endDate"`
		ByModel []struct {
			Model    string  `json:"model"`
			Requests int64   `json:"requests"`
			Cost     dollars `json:"totalCost"`
		} `json:"byModel"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return Usage{}, fmt.Errorf("the usage: %w", err)
	}
	switch {
	case doc.From.IsZero(), doc.To.Before(doc.From):
		return Usage{}, errors.New("the usage: no time from startDate to endDate")
	case doc.ByModel == nil:
		return Usage{}, errors.New("the usage: no byModel")
	case len(doc.ByModel) > maxModels:
		return Usage{}, fmt.Errorf("the usage: of more than %d models", maxModels)
	}
	u := Usage{From: doc.From, To: doc.To}
	for _, m := range doc.ByModel {
		if m.Requests < 0 || m.Cost < 0 || len(m.Model) > 256 {
			return Usage{}, errors.New("the usage: a model's counts are below zero, or its name is too long")
		}
		u.Lines = append(u.Lines, Line{m.Model, m.Requests, policy.Pico(m.Cost)})
	}
	return u, nil
}

// Order returns the body of a purchase.
func Order(amount policy.Micro, token string) []byte {
	b, _ := json.Marshal(struct {
		Amount policy.Micro `json:"amount"`
		Token  string       `json:"token"`
	}{amount, token}) // cannot fail for these types
	return b
}

// Difference is one model's usage in the ledger and in the provider's report.
type Difference struct {
	Model         string      `json:"model"`
	Requests      int64       `json:"requests"` // in the ledger
	Cost          policy.Pico `json:"cost_usd"`
	TheirRequests int64       `json:"their_requests"`
	TheirCost     policy.Pico `json:"their_cost_usd"`
	Differs       bool        `json:"differs"` // the costs differ by more than rounding
}

// Comparison is the ledger's usage beside a provider's report.
type Comparison struct {
	From  time.Time    `json:"from"`
	To    time.Time    `json:"to"`
	Lines []Difference `json:"models"`
	Cost  policy.Pico  `json:"cost_usd"`       // total in the ledger
	Their policy.Pico  `json:"their_cost_usd"` // total in the provider's report
}

// Differs reports whether the usage of any model differs.
func (c *Comparison) Differs() bool {
	return slices.ContainsFunc(c.Lines, func(d Difference) bool { return d.Differs })
}

// Cost differences that rounding explains: one percent, or one cent.
const (
	percent = 100
	cent    = policy.Pico(1e10)
)

// Compare compares the ledger's lines of a period with a provider's report.
func Compare(ours []Line, theirs Usage) Comparison {
	c := Comparison{From: theirs.From, To: theirs.To, Lines: []Difference{}}
	at := map[string]int{}
	line := func(model string) *Difference {
		key := spelling(model)
		i, ok := at[key]
		if !ok {
			i = len(c.Lines)
			at[key] = i
			c.Lines = append(c.Lines, Difference{Model: model})
		}
		return &c.Lines[i]
	}
	for _, l := range ours {
		d := line(l.Model)
		d.Requests, d.Cost, c.Cost = policy.AddTokens(d.Requests, l.Requests), d.Cost.Plus(l.Cost), c.Cost.Plus(l.Cost)
	}
	for _, l := range theirs.Lines {
		d := line(l.Model)
		d.TheirRequests, d.TheirCost, c.Their = policy.AddTokens(d.TheirRequests, l.Requests), d.TheirCost.Plus(l.Cost), c.Their.Plus(l.Cost)
	}
	for i := range c.Lines {
		d := &c.Lines[i]
		d.Differs = differ(d.Cost, d.TheirCost)
	}
	slices.SortStableFunc(c.Lines, func(a, b Difference) int { return strings.Compare(a.Model, b.Model) })
	return c
}

// differ reports whether two costs differ by more than rounding.
func differ(a, b policy.Pico) bool {
	d := max(a.Minus(b), b.Minus(a))
	return d > cent && d > max(a, b)/percent
}

// spelling returns a model's name without the vendor, with the version written alike: claude-opus-4.6 and claude-opus-4-6 are the same.
func spelling(model string) string {
	return strings.ReplaceAll(strings.ToLower(model[strings.LastIndexByte(model, '/')+1:]), ".", "-")
}
