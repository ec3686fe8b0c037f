package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// Report is what an audit found.
type Report struct {
	OK       bool    `json:"ok"`
	Accounts int64   `json:"accounts"`
	Journals int64   `json:"journals"`
	Requests int64   `json:"requests"` // of those that are still kept
	Checks   []Check `json:"checks"`
}

// Check is one law that the books keep, and the rows that break it.
type Check struct {
	Name      string   `json:"name"`
	OK        bool     `json:"ok"`
	Offending []string `json:"offending,omitempty"` // at most 100
}

// audits are the laws. Each query returns a sentence for every row that breaks its law.
var audits = []struct{ name, query string }{
	{"every journal sums to zero", `
SELECT printf('journal %d (%s) sums to %d over %d entries', j.id, j.idem, coalesce(sum(e.amount), 0), count(e.amount))
FROM journal j LEFT JOIN entry e ON e.journal = j.id
GROUP BY j.id HAVING coalesce(sum(e.amount), 0) <> 0 OR count(e.amount) < 2 LIMIT 100`},

	{"every balance is the sum of its entries", `
SELECT printf('account %s has a balance of %d and entries of %d', a.name, coalesce(b.micro, 0), coalesce(s.amount, 0))
FROM account a JOIN "key" k ON k.id = a.name
LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(amount) AS amount FROM entry GROUP BY account) s ON s.account = a.id
WHERE coalesce(b.micro, 0) <> coalesce(s.amount, 0) LIMIT 100`},

	{"what is held lies in open blocks", `
SELECT printf('account %s holds %d and has %d in %d blocks', a.name, coalesce(b.held, 0), coalesce(k.micro, 0), coalesce(k.blocks, 0))
FROM account a LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(micro) AS micro, count(*) AS blocks FROM block GROUP BY account) k ON k.account = a.id
WHERE coalesce(b.held, 0) <> coalesce(k.micro, 0) LIMIT 100`},

	{"no balance is below its credit", `
SELECT printf('account %s has a balance of %d, holds %d, and has a credit of %d', a.name, b.micro, b.held, b.credit)
FROM balance b JOIN account a ON a.id = b.account
WHERE b.micro < -b.credit OR b.held < 0 OR b.micro - b.held < -b.credit LIMIT 100`},

	{"every charge is what its request paid", `
SELECT printf('request %s paid %d of %d, its journal says %d of %d', r.id, r.charged, r.amount, coalesce(-e.amount, 0), coalesce(v.amount, 0))
FROM request r JOIN account a ON a.name = r.account
LEFT JOIN entry e ON e.journal = r.journal AND e.account = a.id
LEFT JOIN entry v ON v.journal = r.journal AND v.account = 2
WHERE r.journal IS NOT NULL AND (coalesce(-e.amount, 0) <> r.charged OR coalesce(v.amount, 0) <> r.amount) LIMIT 100`},

	{"every idempotency key is unique", `
SELECT printf('%s is used %d times', idem, count(*)) FROM (SELECT idem FROM journal NOT INDEXED)
GROUP BY idem HAVING count(*) > 1 LIMIT 100`},

	{"every row refers to a row", `
SELECT printf('%s %d refers to a missing %s', "table", rowid, parent) FROM pragma_foreign_key_check LIMIT 100`},

	{"the file is intact", `
SELECT integrity_check FROM pragma_integrity_check WHERE integrity_check <> 'ok' LIMIT 100`},
}

// Audit proves the books, on one state of the store, while gateways may go on writing. It first gives back what
// gateways that are gone have left held. The error says that the audit could not be made; what it found is in the report.
func (l *Ledger) Audit(ctx context.Context) (Report, error) {
	r, err := l.audit(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}

func (l *Ledger) audit(ctx context.Context) (r Report, err error) {
	if _, err := l.recoverDead(ctx, l.write); err != nil {
		return Report{}, err
	}
	tx, err := l.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Report{}, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	err = tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM journal), (SELECT count(*) FROM request)`).
		Scan(&r.Accounts, &r.Journals, &r.Requests)
	if err != nil {
		return Report{}, err
	}
	r.OK = true
	for _, a := range audits {
		offending, err := readAll(ctx, tx, scanSentence, a.query)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", a.name, err)
		}
		r.Checks = append(r.Checks, Check{Name: a.name, OK: len(offending) == 0, Offending: offending})
		r.OK = r.OK && len(offending) == 0
	}
	return r, nil
}

func scanSentence(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}
