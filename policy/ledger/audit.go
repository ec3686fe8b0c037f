package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
)

// Report is the result of an audit.
type Report struct {
	OK       bool    `json:"ok"`
	Accounts int64   `json:"accounts"`
	Journals int64   `json:"journals"`
	Requests int64   `json:"requests"` // requests within the retention
	Checks   []Check `json:"checks"`

	// Unwritten is charges that are not applied yet, in the charge logs or in this program's memory. Those in a log are safe.
	Unwritten Unwritten `json:"unwritten"`
}

// Check is one invariant, and the rows that violate it.
type Check struct {
	Name      string   `json:"name"`
	OK        bool     `json:"ok"`
	Offending []string `json:"offending,omitempty"` // at most 100
}

// invariant is a query that returns a sentence for every row that violates it.
type invariant struct{ name, query string }

// audits are the invariants of every store.
var audits = []invariant{
	{"every journal sums to zero", `
SELECT format('journal %s (%s) sums to %s over %s entries', j.id, j.idem, coalesce(sum(e.amount), 0), count(e.amount))
FROM journal j LEFT JOIN entry e ON e.journal = j.id
GROUP BY j.id HAVING coalesce(sum(e.amount), 0) <> 0 OR count(e.amount) < 2 LIMIT 100`},

	{"every balance is the sum of its entries", `
SELECT format('account %s has a balance of %s and entries of %s', a.name, coalesce(b.micro, 0), coalesce(s.amount, 0))
FROM account a JOIN "key" k ON k.id = a.name
LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(amount) AS amount FROM entry GROUP BY account) s ON s.account = a.id
WHERE coalesce(b.micro, 0) <> coalesce(s.amount, 0) LIMIT 100`},

	{"what is held lies in open blocks", `
SELECT format('account %s holds %s and has %s in %s blocks, and %s for later', a.name, coalesce(b.held, 0), coalesce(k.micro, 0), coalesce(k.blocks, 0), coalesce(s.micro, 0))
FROM account a LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(micro) AS micro, count(*) AS blocks FROM block GROUP BY account) k ON k.account = a.id
LEFT JOIN (SELECT account, sum(micro) AS micro FROM standing GROUP BY account) s ON s.account = a.id
WHERE coalesce(b.held, 0) <> coalesce(k.micro, 0) + coalesce(s.micro, 0) LIMIT 100`},

	{"no balance is below its credit", `
SELECT format('account %s has a balance of %s, holds %s, and has a credit of %s', a.name, b.micro, b.held, b.credit)
FROM balance b JOIN account a ON a.id = b.account
WHERE b.micro < -b.credit OR b.held < 0 OR b.micro - b.held < -b.credit LIMIT 100`},

	{"every charge is what its request paid", `
SELECT format('request %s paid %s of %s, its journal says %s of %s', r.id, r.charged, r.amount, coalesce(-e.amount, 0), coalesce(v.amount, 0))
FROM request r JOIN account a ON a.name = r.account
LEFT JOIN entry e ON e.journal = r.journal AND e.account = a.id
LEFT JOIN entry v ON v.journal = r.journal AND v.account = 2
WHERE r.journal IS NOT NULL AND (coalesce(-e.amount, 0) <> r.charged OR coalesce(v.amount, 0) <> r.amount) LIMIT 100`},

	{"every idempotency key is unique", `
SELECT format('%s is used %s times', idem, count(*)) FROM (SELECT idem FROM journal NOT INDEXED)
GROUP BY idem HAVING count(*) > 1 LIMIT 100`},
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
	logs, err := l.readLogs() // first: what is applied afterwards is in the snapshot
	if err != nil {
		return Report{}, err
	}
	tx, err := l.reads.start(ctx)
	if err != nil {
		return Report{}, err
	}
	defer tx.close()
	err = tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM journal), (SELECT count(*) FROM request)`).
		Scan(&r.Accounts, &r.Journals, &r.Requests)
	if err != nil {
		return Report{}, err
	}
	r.OK = true
	for _, a := range slices.Concat(audits, l.reads.audits) {
		offending, err := readAll(ctx, tx, scanSentence, a.query)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", a.name, err)
		}
		r.Checks = append(r.Checks, Check{Name: a.name, OK: len(offending) == 0, Offending: offending})
		r.OK = r.OK && len(offending) == 0
	}
	return r, l.auditLogs(ctx, tx, logs, &r)
}

// The invariants of charges that are not in the store.
const (
	checkWritten = "every charge is in the ledger or in a charge log"
	checkLogs    = "every charge log agrees with the ledger"
	checkBlocks  = "what charge logs take is in the blocks of their gateways"
)

// readLogs reads all charge logs beside the store.
func (l *Ledger) readLogs() (logs []logAudit, err error) {
	names, err := logsBeside(l.path)
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(names)) {
		found, err := chargelog.Read(names[id])
		if err != nil {
			return nil, fmt.Errorf("charge log %s: %w", names[id], err)
		}
		logs = append(logs, logAudit{entries: found.Entries, instance: id, name: filepath.Base(names[id])})
	}
	return logs, nil
}

// auditLogs adds what the charge logs say to a report.
func (l *Ledger) auditLogs(ctx context.Context, tx *snapshot, logs []logAudit, r *Report) error {
	written, agree, blocks := Check{Name: checkWritten}, Check{Name: checkLogs}, Check{Name: checkBlocks}
	if m := l.Unwritten().InMemory; m.Charges > 0 {
		r.Unwritten.InMemory = m
		written.offend("this gateway has %d charges of %s USD in memory alone", m.Charges, m.Amount)
	}
	for i := range logs {
		a := &logs[i]
		a.snapshot = tx
		if err := a.run(ctx); err != nil {
			return fmt.Errorf("charge log %s: %w", a.name, err)
		}
		r.Unwritten.Charges += a.unapplied.Charges
		r.Unwritten.Amount += a.unapplied.Amount
		agree.Offending, blocks.Offending = append(agree.Offending, a.disagree...), append(blocks.Offending, a.beyond...)
	}
	refused, err := refusedFiles(l.path)
	for _, name := range refused {
		written.offend("the store refused the charges in %s", name)
	}
	for _, c := range []Check{written, agree, blocks} {
		c.OK = len(c.Offending) == 0
		r.OK = r.OK && c.OK
		r.Checks = append(r.Checks, c)
	}
	return err
}

func (c *Check) offend(format string, args ...any) {
	const most = 100
	if len(c.Offending) < most {
		c.Offending = append(c.Offending, fmt.Sprintf(format, args...))
	}
}

// logAudit compares one charge log with a snapshot of the store.
type logAudit struct {
	*snapshot

	entries   []chargelog.Located
	instance  int64
	name      string
	unapplied Unwritten
	disagree  []string
	beyond    []string // what it takes beyond its gateway's blocks
}

func (a *logAudit) run(ctx context.Context) error {
	takes := map[policy.Account]policy.Micro{}
	seen := map[string]bool{}
	for _, e := range a.entries {
		if e.Charge == nil || seen[e.Charge.RequestID] {
			continue
		}
		seen[e.Charge.RequestID] = true
		stored, err := a.compare(ctx, &e)
		if err != nil {
			return err
		}
		if !stored && !e.Applied {
			a.unapplied = a.unapplied.plus(e.Charge.Amount, false)
			takes[e.Charge.Account] += e.Paid
		}
	}
	for _, account := range slices.Sorted(maps.Keys(takes)) {
		if err := a.compareBlock(ctx, account, takes[account]); err != nil {
			return err
		}
	}
	return nil
}

// compare compares an entry with its request's row, or with its journal, where the row is older than the retention.
func (a *logAudit) compare(ctx context.Context, e *chargelog.Located) (stored bool, err error) {
	var account policy.Account
	var amount policy.Micro
	c := e.Charge
	err = a.QueryRowContext(ctx, `SELECT account, amount FROM request WHERE id = ?`, c.RequestID).Scan(&account, &amount)
	switch {
	case errors.Is(err, sql.ErrNoRows) && e.Applied && e.Prepaid && c.Amount > 0:
		return a.isJournaled(ctx, c.RequestID)
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	if account != c.Account || amount != c.Amount {
		a.disagree = append(a.disagree, fmt.Sprintf("request %s: %s has %s USD of key %q, the ledger %s USD of key %q", c.RequestID, a.name, c.Amount, c.Account, amount, account))
	}
	return true, nil
}

func (a *logAudit) isJournaled(ctx context.Context, request string) (is bool, err error) {
	err = a.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal WHERE idem = 'request:' || ?)`, request).Scan(&is)
	if err == nil && !is {
		a.disagree = append(a.disagree, fmt.Sprintf("request %s: %s says that it is in the ledger, and it is not", request, a.name))
	}
	return true, err
}

// compareBlock compares what the log takes from an account with the gateway's block. A gateway whose block others have returned takes it from the
// balance.
func (a *logAudit) compareBlock(ctx context.Context, account policy.Account, takes policy.Micro) error {
	var block policy.Micro
	err := a.QueryRowContext(ctx, `SELECT k.micro FROM block k JOIN account a ON a.id = k.account WHERE a.name = ? AND k.instance = ?`, account, a.instance).Scan(&block)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && takes > block {
		a.beyond = append(a.beyond, fmt.Sprintf("%s takes %s USD of key %q, the block has %s USD", a.name, takes, account, block))
	}
	return err
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
