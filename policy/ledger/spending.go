package ledger

import (
	"context"
	"fmt"
	"time"

	"bardo.money/gateway/policy"
)

// spending is what the charges of one transaction add to agents' spending per part. It is committed with the charges.
type spending map[spendingKey]policy.Micro

// spendingKey is the key of a row of spending.
type spendingKey struct {
	day         int64
	account     policy.Account
	agent, part string
}

// PartStake is the part in SpentByPart for what the operator's staked credit paid, under an empty account and agent.
const PartStake = "stake"

// add counts a charge that has a part. An op calls it as its last step.
func (s spending) add(c *Charge, charged policy.Micro) {
	if c.Staked > 0 {
		s[spendingKey{day: dayOf(c.At), part: PartStake}] += c.Staked
	}
	if c.Part != "" && charged > 0 {
		s[spendingKey{dayOf(c.At), c.Account, c.Agent, c.Part}] += charged
	}
}

// writeSpending writes the transaction's spending.
func (b *book) writeSpending() error {
	for k, charged := range b.spending {
		if _, err := b.exec(`INSERT INTO spending (day, account, agent, part, charged) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, account, agent, part) DO UPDATE SET charged = spending.charged + excluded.charged`, k.day, k.account, k.agent, k.part, charged); err != nil {
			return err
		}
	}
	clear(b.spending)
	return nil
}

// SpentByPart is the charges of each subsystem on the UTC day of a time, including pending charges and those of other gateways. Days before
// yesterday are deleted. It waits for the store even if the context ends.
func (l *Ledger) SpentByPart(ctx context.Context, acct policy.Account, agent string, day time.Time) (map[string]policy.Micro, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := map[string]policy.Micro{}
	// The writer reads it, so that it is known which charges are in it: those that it answered before.
	err := l.writer.do(func(b *book) error { return b.spentByPart(acct, agent, dayOf(day), out) }, nil)
	if isUnwritable(err) { // free requests are served during an outage
		err = readSpentByPart(ctx, l.reads, acct, agent, dayOf(day), out)
	}
	if err != nil {
		return nil, fmt.Errorf("spent by agent %q of key %s: %w", agent, acct, err)
	}
	return out, nil
}

// spentByPart reads an agent's spending of a day, including the current transaction's. It may run twice.
func (b *book) spentByPart(acct policy.Account, agent string, day int64, into map[string]policy.Micro) error {
	if err := readSpentByPart(context.Background(), b, acct, agent, day, into); err != nil {
		return err
	}
	for k, charged := range b.spending {
		if k.day == day && k.account == acct && k.agent == agent {
			into[k.part] += charged
		}
	}
	return nil
}

// readSpentByPart reads the committed spending.
func readSpentByPart(ctx context.Context, db queryer, acct policy.Account, agent string, day int64, into map[string]policy.Micro) error {
	clear(into)
	type row struct {
		part    string
		charged policy.Micro
	}
	rows, err := readAll(ctx, db, func(s scanner) (r row, err error) {
		err = s.Scan(&r.part, &r.charged)
		return r, err
	}, `SELECT part, charged FROM spending WHERE day = ? AND account = ? AND agent = ?`, day, acct, agent)
	for _, r := range rows {
		into[r.part] = r.charged
	}
	return err
}

// forgetSpending removes spending from before yesterday.
func (l *Ledger) forgetSpending() {
	before := dayOf(l.o.Now()) - 1
	l.removeOld("sums of what agents spent", func(b *book) (int64, error) { return b.forgetSpending(before) })
}

func (b *book) forgetSpending(before int64) (int64, error) {
	return b.exec(`DELETE FROM spending WHERE (day, account, agent, part) IN
	(SELECT day, account, agent, part FROM spending WHERE day < ? LIMIT ?)`, before, pruneLimit)
}
