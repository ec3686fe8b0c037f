package usage

import (
	"context"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// spending has the amounts that one transaction adds to agents' spending per part. They are committed with the charges.
type spending map[spendingKey]policy.Micro

// spendingKey is the key of a row of spending.
type spendingKey struct {
	day         int64
	account     policy.Account
	agent, part string
}

// PartStake is the part in SpentByPart for payments from the operator's staked credit, under an empty account and agent.
const PartStake = "stake"

// add counts a charge with a part. An op calls it as its last step.
func (s spending) add(c *chargelog.Charge, charged policy.Micro) {
	if c.Staked > 0 {
		s[spendingKey{day: DayOf(c.At), part: PartStake}] += c.Staked
	}
	if c.Part != "" && charged > 0 {
		s[spendingKey{DayOf(c.At), c.Account, c.Agent, c.Part}] += charged
	}
}

// write writes the transaction's spending.
func (s spending) write(b *store.Book) error {
	for k, charged := range s {
		if _, err := b.Exec(`INSERT INTO spending (day, account, agent, part, charged) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, account, agent, part) DO UPDATE SET charged = spending.charged + excluded.charged`, k.day, k.account, k.agent, k.part, charged); err != nil {
			return err
		}
	}
	clear(s)
	return nil
}

// SpentByPart reads an agent's spending of a day, including the current transaction's. It may run again after a rollback.
func (t *Tally) SpentByPart(b *store.Book, acct policy.Account, agent string, day int64, into map[string]policy.Micro) error {
	if err := SpentByPart(context.Background(), b, acct, agent, day, into); err != nil {
		return err
	}
	for k, charged := range t.spending {
		if k.day == day && k.account == acct && k.agent == agent {
			into[k.part] += charged
		}
	}
	return nil
}

// SpentByPart reads the committed spending.
func SpentByPart(ctx context.Context, db store.Queryer, acct policy.Account, agent string, day int64, into map[string]policy.Micro) error {
	clear(into)
	type row struct {
		part    string
		charged policy.Micro
	}
	rows, err := store.ReadAll(ctx, db, func(s store.Scanner) (r row, err error) {
		err = s.Scan(&r.part, &r.charged)
		return r, err
	}, `SELECT part, charged FROM spending WHERE day = ? AND account = ? AND agent = ?`, day, acct, agent)
	for _, r := range rows {
		into[r.part] = r.charged
	}
	return err
}

// PruneSpending removes up to PruneLimit rows from before a day, and returns how many.
func PruneSpending(b *store.Book, before int64) (int64, error) {
	return b.Exec(`DELETE FROM spending WHERE (day, account, agent, part) IN
	(SELECT day, account, agent, part FROM spending WHERE day < ? LIMIT ?)`, before, PruneLimit)
}
