package ledger

import (
	"errors"
	"strconv"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// Most ops are charges that are paid in full by their gateway's block. Those of a group are applied as a batch: each balance and block is
// updated once, and rows are inserted many at a time. If that fails, for instance because a request was charged before, the group's ops are applied one
// by one.

// errOneByOne means that charges of a batch cannot be applied together.
var errOneByOne = errors.New("the charges of a batch are to be applied one by one")

// minBatch is the minimum number of charges that are applied together.
const minBatch = 2

// batched is a charge of this gateway that may be applied with others.
type batched struct {
	entry   *chargelog.Entry
	payer   *account // nil for a metered or anonymous request
	receipt *Receipt // set by the batch
}

// isPlain reports whether a charge can be applied together with others: it has no loss and its gateway's block pays all of it.
func (c *batched) isPlain() bool {
	if c.entry.Charge == nil || len(c.entry.Resources) > 0 {
		return false
	}
	return !c.entry.Prepaid || !c.entry.Open && c.entry.Paid == c.entry.Charge.Amount
}

// plain returns the plain charges that a group begins with.
func plain(ops []*commit.Op) (charges []*batched) {
	for _, o := range ops {
		c, ok := o.Batch.(*batched)
		if !ok || !c.isPlain() {
			break
		}
		charges = append(charges, c)
	}
	return charges
}

// applyBatch applies the plain charges that a group begins with as one, and returns how many; none if there are too few.
func (b *book) applyBatch(ops []*commit.Op) (applied int, err error) {
	charges := plain(ops)
	if len(charges) < minBatch {
		return 0, nil
	}
	return len(charges), b.applyTogether(charges)
}

// The rows of a charge, and the debits of accounts: an account, an amount and an instance each.
var (
	journalRows = store.NewBulk(`INSERT INTO journal (id, idem, kind, at, ref) VALUES `, `($1, 'request:' || $2, 'charge', $3, $2)`, ``)
	entryRows   = store.NewBulk(`INSERT INTO entry (journal, account, amount) VALUES `, `($1, $2, -CAST($3 AS BIGINT)), ($1, `+strconv.Itoa(accountRevenue)+`, $3)`, ``)
	requestRows = store.NewBulk(usage.InsertRequest, `($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`, ``)

	fromBlocks = store.NewBulk(`UPDATE block SET micro = micro - d.column2 FROM (VALUES `, `(CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT))`,
		`) d WHERE account = d.column1 AND instance = d.column3 AND micro >= d.column2`)
	fromBalances = store.NewBulk(`UPDATE balance SET micro = micro - d.column2, held = held - d.column2 FROM (VALUES `, `(CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT))`,
		`) d WHERE account = d.column1 RETURNING account, micro`)
)

// batch has the debits of the accounts in a batch, and the rows to insert. It is reused for the next one.
type batch struct {
	debits map[*account]*debit
	byRow  map[int64]*debit

	debitRows, journals, entries, requests []any
}

// debit is the sum of a batch's charges to one account.
type debit struct {
	row     int64        // the account's number in the store
	sum     policy.Micro // of the charges; while receipts are set, of those after the current charge
	balance policy.Micro // the balance after all of them
}

// reset empties a batch and drops its references.
func (t *batch) reset() {
	clear(t.debits)
	clear(t.byRow)
	for _, rows := range []*[]any{&t.debitRows, &t.journals, &t.entries, &t.requests} {
		clear(*rows)
		*rows = (*rows)[:0]
	}
}

// applyTogether applies plain charges and sets their receipts. After an error the transaction must be rolled back.
func (b *book) applyTogether(charges []*batched) error {
	t := &b.batch
	defer t.reset()
	if err := b.debit(t, charges); err != nil {
		return err
	}
	var last int64
	if err := b.Row(`SELECT coalesce(max(id), 0) FROM journal`).Scan(&last); err != nil {
		return err
	}
	for _, c := range charges {
		t.add(c, &last)
	}
	for _, i := range []struct {
		into   *store.Bulk
		values []any
	}{{journalRows, t.journals}, {entryRows, t.entries}, {requestRows, t.requests}} {
		if _, err := b.ExecAll(i.into, i.values); err != nil {
			return err
		}
	}
	for _, c := range charges {
		b.setReceipt(t, c)
	}
	return nil
}

// debit takes the charges out of the blocks and balances. The error is errOneByOne if others have returned one of the gateway's blocks.
func (b *book) debit(t *batch, charges []*batched) error {
	if err := b.sumDebits(t, charges); err != nil {
		return err
	}
	for row, d := range t.byRow {
		if d.sum == 0 {
			var err error
			if d.balance, err = b.micro(row); err != nil {
				return err
			}
			continue
		}
		t.debitRows = append(t.debitRows, row, int64(d.sum), b.Instance)
	}
	changed, err := b.ExecAll(fromBlocks, t.debitRows)
	if err != nil {
		return err
	}
	if changed*int64(fromBlocks.Width) != int64(len(t.debitRows)) {
		return errOneByOne
	}
	return b.QueryAll(fromBalances, t.debitRows, func(row store.Scanner) error {
		left, err := scanEntry(row)
		if err == nil {
			t.byRow[left.account].balance = left.amount
		}
		return err
	})
}

// sumDebits sums the charges of each account.
func (b *book) sumDebits(t *batch, charges []*batched) error {
	if t.debits == nil {
		t.debits, t.byRow = map[*account]*debit{}, map[int64]*debit{}
	}
	for _, c := range charges {
		if !c.entry.Prepaid {
			continue
		}
		d, ok := t.debits[c.payer]
		if !ok {
			row, err := b.numberOf(c.payer)
			if err != nil {
				return err
			}
			d = &debit{row: row}
			t.debits[c.payer], t.byRow[row] = d, d
		}
		d.sum += c.entry.Paid
	}
	return nil
}

// add adds the rows of a charge. last is the latest journal's id.
func (t *batch) add(b *batched, last *int64) {
	c := b.entry.Charge
	var journal any
	if b.entry.Prepaid && c.Amount > 0 {
		*last++
		journal = *last
		t.journals = append(t.journals, journal, c.RequestID, c.At.UnixMicro())
		t.entries = append(t.entries, journal, t.debits[b.payer].row, int64(c.Amount))
	}
	t.requests = usage.AppendRequest(t.requests, c, journal, c.Amount)
}

// setReceipt sets the receipt of a charge that was applied, and adds the charge to the sums of usage.
func (b *book) setReceipt(t *batch, of *batched) {
	c := of.entry.Charge
	*of.receipt = Receipt{Charged: c.Amount}
	if of.entry.Prepaid {
		d := t.debits[of.payer]
		d.sum -= c.Amount
		of.receipt.Balance = d.balance + d.sum
	}
	b.tally.Add(c, c.Amount)
}
