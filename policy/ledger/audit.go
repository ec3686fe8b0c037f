package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Report is the result of an audit.
type Report struct {
	OK       bool    `json:"ok"`
	Accounts int64   `json:"accounts"`
	Journals int64   `json:"journals"`
	Requests int64   `json:"requests"` // requests within the retention
	Checks   []Check `json:"checks"`

	// Unwritten is charges that running gateways could not write yet, in their spill files or in this program's memory.
	Unwritten Unwritten `json:"unwritten"`
}

// Check is one invariant, and the rows that violate it.
type Check struct {
	Name      string   `json:"name"`
	OK        bool     `json:"ok"`
	Offending []string `json:"offending,omitempty"` // at most 100
}

// audits are the invariants. Each query returns a sentence for every row that violates it.
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

// Audit checks the invariants on one snapshot of the store, while gateways may continue to write. It first returns the blocks of dead
// gateways. The error means that the audit failed to run; violations are in the report.
func (l *Ledger) Audit(ctx context.Context) (Report, error) {
	r, err := l.audit(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}

func (l *Ledger) audit(ctx context.Context) (r Report, err error) {
	if _, err := l.recoverDead(l.write); err != nil && !isUnwritable(err) {
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
	return r, l.auditWaiting(ctx, tx, &r)
}

// checkWritten is the invariant that no charge is unwritten.
const checkWritten = "every charge is written"

// auditWaiting adds unwritten charges to a report.
func (l *Ledger) auditWaiting(ctx context.Context, tx *sql.Tx, r *Report) error {
	c := Check{Name: checkWritten}
	if r.Unwritten = l.Unwritten(); r.Unwritten.Charges > 0 {
		c.Offending = append(c.Offending, "this gateway could not write "+r.Unwritten.String())
	}
	files, err := spillFiles(l.path)
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if id == l.instance.Load() {
			continue
		}
		u, err := unwrittenIn(ctx, tx, files[id])
		if err != nil {
			return err
		}
		if u.Charges > 0 {
			c.Offending = append(c.Offending, fmt.Sprintf("gateway %d could not write %s: they wait in %s", id, u, filepath.Base(files[id])))
			r.Unwritten.Charges += u.Charges
			r.Unwritten.Amount += u.Amount
		}
	}
	refused, err := refusedFiles(l.path)
	for _, name := range refused {
		c.Offending = append(c.Offending, "the store refused the charges in "+name)
	}
	c.OK = len(c.Offending) == 0
	r.OK = r.OK && c.OK
	r.Checks = append(r.Checks, c)
	return err
}

// unwrittenIn is the charges in a spill file that are not in the store.
func unwrittenIn(ctx context.Context, tx *sql.Tx, path string) (u Unwritten, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	defer func() { _ = f.Close() }() // it was only read
	notes, err := (&spill{path: path, file: f}).notes()
	if err != nil {
		return u, err
	}
	for _, n := range notes {
		if n.Charge == nil {
			continue
		}
		var written bool
		if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM request WHERE id = ?)`, n.Charge.RequestID).Scan(&written); err != nil {
			return u, err
		}
		if !written {
			u = u.plus(n.Charge.Amount, false)
		}
	}
	return u, nil
}

// AddInMemory adds charges that another process reports to have only in memory.
func (r *Report) AddInMemory(w Waiting, reason string) {
	if w.Charges == 0 {
		return
	}
	r.Unwritten.Charges += w.Charges
	r.Unwritten.Amount += w.Amount
	r.Unwritten.InMemory = w
	for i := range r.Checks {
		c := &r.Checks[i]
		if c.Name == checkWritten {
			c.OK, r.OK = false, false
			c.Offending = append(c.Offending, fmt.Sprintf("the running gateway has %d charges of %s USD in memory: %s", w.Charges, w.Amount, reason))
		}
	}
}

func scanSentence(row scanner) (s string, err error) {
	err = row.Scan(&s)
	return s, err
}
