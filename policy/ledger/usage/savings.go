package usage

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// The savings of the pipeline's layers are written with the charges: in a column of each request, and as sums by layer, which are
// written once for a transaction, like the sums of usage.

// savings are the amounts that one transaction adds to the sums by layer.
type savings map[savingKey]SavingRow

// savingKey is the key of a row of saving.
type savingKey struct {
	sumKey

	layer string
}

// SavingRow is the savings of one layer on some requests.
type SavingRow struct {
	Layer    string       `json:"name"`
	Requests int64        `json:"requests"` // on which it saved or lost something
	Tokens   int64        `json:"saved_tokens"`
	Amount   policy.Micro `json:"saved_usd"`
}

func (r *SavingRow) add(s *policy.Saving) {
	r.Requests++
	r.Tokens = policy.AddTokens(r.Tokens, s.Tokens)
	r.Amount = r.Amount.Plus(s.Amount)
}

// add counts a charge's savings. An op calls it as its last step.
func (s savings) add(c *chargelog.Charge) {
	for i := range c.Savings {
		k := savingKey{keyOf(c), c.Savings[i].Layer}
		row := s[k]
		row.add(&c.Savings[i])
		s[k] = row
	}
}

var savingRows = store.NewBulk(`INSERT INTO saving (account, day, layer, model, provider, subsystem, agent, requests, tokens, saved) VALUES `,
	`($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, `
ON CONFLICT (account, day, layer, model, provider, subsystem, agent) DO UPDATE SET requests = saving.requests + excluded.requests, tokens = saving.tokens + excluded.tokens, saved = saving.saved + excluded.saved`)

// write adds the transaction's sums to the store.
func (s savings) write(b *store.Book) error {
	if len(s) == 0 {
		return nil
	}
	values := make([]any, 0, len(s)*savingRows.Width)
	for k, v := range s {
		values = append(values, string(k.account), k.day, k.layer, string(k.model), string(k.provider), k.subsystem, k.agent, v.Requests, v.Tokens, int64(v.Amount))
	}
	_, err := b.ExecAll(savingRows, values)
	clear(s)
	return err
}

// savedOn sums the savings of all layers on a request.
func savedOn(c *chargelog.Charge) (sum policy.Micro) {
	for i := range c.Savings {
		sum = sum.Plus(c.Savings[i].Amount)
	}
	return sum
}

// Savings sums the savings of layers, by layer, the greatest first.
func (v *View) Savings(ctx context.Context, f Filter) (rows []SavingRow, err error) {
	sums, err := v.SavingsReport(ctx, Query{Filter: f, By: []By{ByLayer}})
	for i := range sums {
		rows = append(rows, sums[i].SavingRow)
	}
	return rows, err
}

// days are the first and last day of a filter, in days since 1970.
func (f Filter) days() (first, last int64) {
	last = int64(1) << 40
	if !f.Since.IsZero() {
		first = DayOf(f.Since)
	}
	if !f.Until.IsZero() {
		last = DayOf(f.Until)
	}
	return first, last
}

// selects reports whether an entry is a charge that the filter selects.
func (f Filter) selects(e *chargelog.Entry) bool {
	if !e.IsOf(f.Account) {
		return false
	}
	first, last := f.days()
	day := DayOf(e.Charge.At)
	return first <= day && day <= last && (f.Golem == "" || f.Golem == e.Charge.Agent)
}

// formatSavings formats the column of a request: "l4 11800 4720;l1 0 -35".
func formatSavings(all []policy.Saving) string {
	if len(all) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(all))
	for i := range all {
		if i > 0 {
			b = append(b, ';')
		}
		b = strconv.AppendInt(append(append(b, all[i].Layer...), ' '), all[i].Tokens, 10)
		b = strconv.AppendInt(append(b, ' '), int64(all[i].Amount), 10)
	}
	return string(b)
}

// parseSavings parses the form of formatSavings.
func parseSavings(s string) (all []policy.Saving, err error) {
	if s == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(s, ";") {
		layer, numbers, _ := strings.Cut(one, " ")
		tokens, amount, _ := strings.Cut(numbers, " ")
		n, err := strconv.ParseInt(tokens, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("savings %q: %w", s, err)
		}
		m, err := strconv.ParseInt(amount, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("savings %q: %w", s, err)
		}
		all = append(all, policy.Saving{Layer: layer, Tokens: n, Amount: policy.Micro(m)})
	}
	return all, nil
}
