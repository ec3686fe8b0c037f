package usage

import (
	"context"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// sums are the amounts that one transaction adds to the sums of usage. Its requests mostly share a few models, so each sum is written once, right before the
// commit. An op adds to them as its last step: one that failed has added nothing.
type sums map[sumKey]sum

// sumKey is the key of a row of usage.
type sumKey struct {
	account   policy.Account
	day       int64
	model     policy.ModelID
	provider  policy.ProviderID
	subsystem string
	agent     string
}

type sum struct {
	requests int64
	refused  int64 // of them
	tokens   chargelog.Tokens
	charged  policy.Micro
	cost     policy.Pico
	saved    policy.Micro
}

// keyOf is the key of a charge's row.
func keyOf(c *chargelog.Charge) sumKey {
	return sumKey{c.Account, DayOf(c.At), c.Model, c.Provider, c.Subsystem, c.Agent}
}

func (s sums) add(c *chargelog.Charge, charged policy.Micro) {
	k := keyOf(c)
	v := s[k]
	v.requests++
	addTokens(&v.tokens, &c.Tokens)
	v.charged += charged
	v.cost += c.ProviderCost
	v.saved = v.saved.Plus(savedOn(c))
	s[k] = v
}

func addTokens(to, t *chargelog.Tokens) {
	to.Input += t.Input
	to.Cached += t.Cached
	to.CacheWrite += t.CacheWrite
	to.Output += t.Output
	to.Reasoning += t.Reasoning
}

// refuse counts refused requests of a day.
func (s sums) refuse(account policy.Account, day, n int64) {
	k := sumKey{account: account, day: day}
	v := s[k]
	v.requests += n
	v.refused += n
	s[k] = v
}

var usageRows = store.NewBulk(`INSERT INTO usage (account, day, model, provider, subsystem, agent,
	requests, refused, input, cached, cache_write, output, reasoning, charged, provider_cost, saved) VALUES `,
	`($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`, `
ON CONFLICT (account, day, model, provider, subsystem, agent) DO UPDATE SET requests = usage.requests + excluded.requests, refused = usage.refused + excluded.refused,
	input = usage.input + excluded.input, cached = usage.cached + excluded.cached, cache_write = usage.cache_write + excluded.cache_write,
	output = usage.output + excluded.output, reasoning = usage.reasoning + excluded.reasoning,
	charged = usage.charged + excluded.charged, provider_cost = usage.provider_cost + excluded.provider_cost, saved = usage.saved + excluded.saved`)

// write adds the transaction's sums to the store.
func (s sums) write(b *store.Book) error {
	if len(s) == 0 {
		return nil
	}
	values := make([]any, 0, len(s)*usageRows.Width)
	for k, v := range s {
		t := &v.tokens
		values = append(values, string(k.account), k.day, string(k.model), string(k.provider), k.subsystem, k.agent,
			v.requests, v.refused, t.Input, t.Cached, t.CacheWrite, t.Output, t.Reasoning, int64(v.charged), int64(v.cost), int64(v.saved))
	}
	_, err := b.ExecAll(usageRows, values)
	clear(s)
	return err
}

const selectCharged = `SELECT coalesce(sum(charged), 0) FROM usage WHERE account = ? AND day = ?`

// ChargedOn sums the charges of an account on a day, including those of the transaction.
func (t *Tally) ChargedOn(b *store.Book, acct policy.Account, day int64) (sum policy.Micro, err error) {
	err = b.Row(selectCharged, acct, day).Scan(&sum)
	for k, v := range t.sums {
		if k.account == acct && k.day == day {
			sum += v.charged
		}
	}
	return sum, err
}

// ChargedOn sums the committed charges of an account on a day.
func ChargedOn(ctx context.Context, reads *store.Readers, acct policy.Account, day int64) (sum policy.Micro, err error) {
	err = reads.QueryRowContext(ctx, selectCharged, acct, day).Scan(&sum)
	return sum, err
}
