// Package audit checks the ledger's invariants: every journal sums to zero, every balance is the sum of its entries, held money is in blocks or standing holds,
// every charge log agrees with the store. It reads one snapshot and changes nothing.
package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/store"
)

// Report is the result of an audit.
type Report struct {
	OK       bool    `json:"ok"`
	Accounts int64   `json:"accounts"`
	Journals int64   `json:"journals"`
	Requests int64   `json:"requests"` // requests within the retention
	Checks   []Check `json:"checks"`

	// Unwritten sums charges that are not applied yet, in the charge logs or in this process's memory. Those in a log are safe.
	Unwritten chargelog.Unwritten `json:"unwritten"`

	Forgiven Forgiven `json:"forgiven"`

	Again *Again        `json:"looked_again,omitempty"` // nil: there was nothing to check again
	Left  time.Duration `json:"-"`                      // the remaining time for checking again
}

// Forgiven sums the losses that operators have forgiven.
type Forgiven struct {
	Losses int64        `json:"losses"`
	Amount policy.Micro `json:"usd"`
}

// Check is one invariant, and the rows that violate it.
type Check struct {
	Name      string   `json:"name"`
	OK        bool     `json:"ok"`
	Offending []string `json:"offending,omitempty"` // at most 100
}

// maxOffending is the maximum number of rows that a check names.
const maxOffending = 100

// audits are the invariants of every store.
var audits = []store.Invariant{
	{Name: "every journal sums to zero", Query: `
SELECT format('journal %s (%s) sums to %s over %s entries', j.id, j.idem, coalesce(sum(e.amount), 0), count(e.amount))
FROM journal j LEFT JOIN entry e ON e.journal = j.id
GROUP BY j.id HAVING coalesce(sum(e.amount), 0) <> 0 OR count(e.amount) < 2 LIMIT 100`},

	{Name: "every balance is the sum of its entries", Query: `
SELECT format('account %s has a balance of %s and entries of %s', a.name, coalesce(b.micro, 0), coalesce(s.amount, 0))
FROM account a JOIN "key" k ON k.id = a.name
LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(amount) AS amount FROM entry GROUP BY account) s ON s.account = a.id
WHERE coalesce(b.micro, 0) <> coalesce(s.amount, 0) LIMIT 100`},

	{Name: "what is held lies in open blocks", Query: `
SELECT format('account %s holds %s and has %s in %s blocks, and %s for later', a.name, coalesce(b.held, 0), coalesce(k.micro, 0), coalesce(k.blocks, 0), coalesce(s.micro, 0))
FROM account a LEFT JOIN balance b ON b.account = a.id
LEFT JOIN (SELECT account, sum(micro) AS micro, count(*) AS blocks FROM block GROUP BY account) k ON k.account = a.id
LEFT JOIN (SELECT account, sum(micro) AS micro FROM standing GROUP BY account) s ON s.account = a.id
WHERE coalesce(b.held, 0) <> coalesce(k.micro, 0) + coalesce(s.micro, 0) LIMIT 100`},

	{Name: "no balance is below its credit", Query: `
SELECT format('account %s has a balance of %s, holds %s, and has a credit of %s', a.name, b.micro, b.held, b.credit)
FROM balance b JOIN account a ON a.id = b.account
WHERE b.micro < -b.credit OR b.held < 0 OR b.micro - b.held < -b.credit LIMIT 100`},

	{Name: "what payments that never arrived have cost is owed until it is recovered", Query: `
SELECT format('account %s owes %s and was forgiven %s: payments that never arrived cost %s, of which %s were recovered', a.name, b.owed, b.forgiven, coalesce(l.micro, 0), coalesce(r.micro, 0))
FROM balance b JOIN account a ON a.id = b.account
LEFT JOIN (SELECT substr(j.idem, 6, length(j.idem) - length(j.ref) - 6) AS name, -sum(e.amount) AS micro
	FROM journal j JOIN entry e ON e.journal = j.id AND e.account = 3 WHERE substr(j.idem, 1, 5) = 'lost:'
	GROUP BY substr(j.idem, 6, length(j.idem) - length(j.ref) - 6)) l ON l.name = a.name
LEFT JOIN (SELECT e.account, -sum(e.amount) AS micro
	FROM journal j JOIN entry e ON e.journal = j.id AND e.account > 3 WHERE substr(j.idem, 1, 10) = 'recovered:'
	GROUP BY e.account) r ON r.account = b.account
WHERE b.owed + b.forgiven <> coalesce(l.micro, 0) - coalesce(r.micro, 0) LIMIT 100`},

	{Name: "who owes is blocked, and has nothing that could be taken", Query: `
SELECT format('account %s owes %s, has %s and holds %s, and its mark as blocked is %s', a.name, b.owed, b.micro, b.held, b.blocked)
FROM balance b JOIN account a ON a.id = b.account
WHERE b.owed > 0 AND (b.blocked = 0 OR b.micro > b.held) LIMIT 100`},

	{Name: "every loss is forgiven once, and for no more than it was", Query: `
SELECT format('account %s was forgiven %s, and its losses %s', a.name, b.forgiven, coalesce(f.micro, 0))
FROM balance b JOIN account a ON a.id = b.account LEFT JOIN (SELECT account, sum(micro) AS micro FROM forgiven GROUP BY account) f ON f.account = b.account
WHERE b.forgiven <> coalesce(f.micro, 0)
UNION ALL
SELECT format('account %s was forgiven %s of journal %s (%s), which took back %s', a.name, f.micro, j.id, j.idem, coalesce(e.amount, 0))
FROM forgiven f JOIN account a ON a.id = f.account JOIN journal j ON j.id = f.journal LEFT JOIN entry e ON e.journal = j.id AND e.account = 1
WHERE f.micro > coalesce(e.amount, 0) OR j.idem <> 'lost:' || a.name || ':' || j.ref LIMIT 100`},

	{Name: "every charge is what its request paid", Query: `
SELECT format('request %s paid %s of %s, its journal says %s of %s', r.id, r.charged, r.amount, coalesce(-e.amount, 0), coalesce(v.amount, 0))
FROM request r JOIN account a ON a.name = r.account
LEFT JOIN entry e ON e.journal = r.journal AND e.account = a.id
LEFT JOIN entry v ON v.journal = r.journal AND v.account = 2
WHERE r.journal IS NOT NULL AND (coalesce(-e.amount, 0) <> r.charged OR coalesce(v.amount, 0) <> r.amount) LIMIT 100`},

	{Name: "every request is charged once", Query: `
SELECT format('request %s has the journal of %s', r.id, j.idem)
FROM request r JOIN journal j ON j.id = r.journal
WHERE j.kind <> 'charge' OR j.idem <> 'request:' || r.id
UNION ALL
SELECT format('journal %s charges %s, and its key is %s', id, ref, idem) FROM journal WHERE kind = 'charge' AND idem <> 'request:' || ref
UNION ALL
SELECT format('journal %s charges request %s, whose row has no journal', j.id, r.id)
FROM request r JOIN journal j ON j.idem = 'request:' || r.id WHERE r.journal IS NULL LIMIT 100`},

	{Name: "the sums of usage have every request", Query: `
SELECT format('account %s was charged %s for %s requests of day %s, and the sums have %s for %s', r.account, r.charged, r.requests, r.day, coalesce(u.charged, 0), coalesce(u.requests, 0))
FROM (SELECT account, at / 86400000000 AS day, count(*) AS requests, sum(charged) AS charged FROM request GROUP BY account, at / 86400000000) r
LEFT JOIN (SELECT account, day, sum(requests) - sum(refused) AS requests, sum(charged) AS charged FROM usage GROUP BY account, day) u
	ON u.account = r.account AND u.day = r.day
WHERE coalesce(u.requests, 0) < r.requests OR coalesce(u.charged, 0) < r.charged LIMIT 100`},

	{Name: "every idempotency key is unique", Query: `
SELECT format('%s is used %s times', idem, count(*)) FROM (SELECT idem FROM journal NOT INDEXED)
GROUP BY idem HAVING count(*) > 1 LIMIT 100`},
}

// Run checks the invariants on one snapshot of the store, while gateways may continue to write. The error means that the audit failed to run; violations
// are in the report. path is the prefix of the files beside the store, and memory returns the charges of this process that no log has. Logs and
// store are read one after the other, so discrepancies between them are checked again for up to wait.
func Run(ctx context.Context, reads *store.Readers, path string, wait time.Duration, memory func() chargelog.Waiting) (r Report, err error) {
	r.Left = wait
	found, err := r.first(ctx, reads, path, memory)
	if err != nil {
		return Report{}, err
	}
	left, err := r.Settle(ctx, found, func(ctx context.Context, _ []Finding) ([]Finding, error) { return compareLogs(ctx, reads, path) })
	if err != nil {
		return Report{}, err
	}
	r.AddFindings(checkLogs, left)
	r.AddFindings(checkBlocks, left)
	return r, nil
}

// first checks everything, and returns the findings that are to be checked again.
func (r *Report) first(ctx context.Context, reads *store.Readers, path string, memory func() chargelog.Waiting) (found []Finding, err error) {
	logs, err := readLogs(path) // before the store: entries that are applied meanwhile are in the snapshot
	if err != nil {
		return nil, err
	}
	tx, err := reads.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Close()
	err = tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM account), (SELECT count(*) FROM journal), (SELECT count(*) FROM request),
	(SELECT count(*) FROM forgiven WHERE journal IS NOT NULL), (SELECT CAST(coalesce(sum(micro), 0) AS BIGINT) FROM forgiven WHERE journal IS NOT NULL)`).
		Scan(&r.Accounts, &r.Journals, &r.Requests, &r.Forgiven.Losses, &r.Forgiven.Amount)
	if err != nil {
		return nil, err
	}
	r.OK = true
	for _, a := range slices.Concat(audits, reads.Audits) {
		offending, err := store.ReadAll(ctx, tx, store.Text, a.Query)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Name, err)
		}
		r.Checks = append(r.Checks, Check{Name: a.Name, OK: len(offending) == 0, Offending: offending})
		r.OK = r.OK && len(offending) == 0
	}
	return r.addLogs(ctx, tx, logs, path, memory())
}

// The invariants of charges that are not in the store.
const (
	checkWritten = "every charge is in the ledger or in a charge log"
	checkLogs    = "every charge log agrees with the ledger"
	checkBlocks  = "what charge logs take is in the blocks of their gateways"
)

// readLogs reads all charge logs beside the store.
func readLogs(path string) (logs []logAudit, err error) {
	names, err := chargelog.List(path)
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

// addLogs adds the sums of the charge logs, and checks for charges that are in none.
func (r *Report) addLogs(ctx context.Context, tx *store.Snapshot, logs []logAudit, path string, memory chargelog.Waiting) ([]Finding, error) {
	written := Check{Name: checkWritten}
	if memory.Charges > 0 {
		r.Unwritten.InMemory = memory
		written.addOffending("this gateway has %d charges of %s USD in memory alone", memory.Charges, memory.Amount)
	}
	found, err := compareAll(ctx, tx, logs)
	if err != nil {
		return nil, err
	}
	for i := range logs {
		r.Unwritten.Charges += logs[i].unapplied.Charges
		r.Unwritten.Amount += logs[i].unapplied.Amount
	}
	refused, err := chargelog.Refused(path)
	for _, name := range refused {
		written.addOffending("the store refused the charges in %s", name)
	}
	r.Add(written.Name, written.Offending)
	return found, err
}

// compareLogs compares the charge logs with the store.
func compareLogs(ctx context.Context, reads *store.Readers, path string) ([]Finding, error) {
	logs, err := readLogs(path)
	if err != nil {
		return nil, err
	}
	tx, err := reads.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Close()
	return compareAll(ctx, tx, logs)
}

func compareAll(ctx context.Context, tx *store.Snapshot, logs []logAudit) (found []Finding, err error) {
	for i := range logs {
		a := &logs[i]
		a.Snapshot = tx
		if err := a.run(ctx); err != nil {
			return nil, fmt.Errorf("charge log %s: %w", a.name, err)
		}
		found = append(found, a.found...)
	}
	return found, nil
}

func (c *Check) addOffending(format string, args ...any) {
	if len(c.Offending) < maxOffending {
		c.Offending = append(c.Offending, fmt.Sprintf(format, args...))
	}
}

// logAudit compares one charge log with a snapshot of the store.
type logAudit struct {
	*store.Snapshot

	entries   []chargelog.LocatedEntry
	instance  int64
	name      string
	unapplied chargelog.Unwritten
	found     []Finding
}

func (a *logAudit) addFinding(check, subject, format string, args ...any) {
	a.found = append(a.found, Finding{check, subject, fmt.Sprintf(format, args...)})
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
			a.unapplied = a.unapplied.Plus(e.Charge.Amount, false)
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

// compare compares an entry with its request's row, or with its journal if the row is older than the retention.
func (a *logAudit) compare(ctx context.Context, e *chargelog.LocatedEntry) (stored bool, err error) {
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
		a.addFinding(checkLogs, c.RequestID, "request %s: %s has %s USD of key %q, the ledger %s USD of key %q", c.RequestID, a.name, c.Amount, c.Account, amount, account)
	}
	return true, nil
}

func (a *logAudit) isJournaled(ctx context.Context, request string) (is bool, err error) {
	err = a.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal WHERE idem = 'request:' || ?)`, request).Scan(&is)
	if err == nil && !is {
		a.addFinding(checkLogs, request, "request %s: %s says that it is in the ledger, and it is not", request, a.name)
	}
	return true, err
}

// compareBlock checks that the gateway's block of an account covers the log's charges. If others have returned the block, the charges are paid from the
// balance.
func (a *logAudit) compareBlock(ctx context.Context, account policy.Account, takes policy.Micro) error {
	var block policy.Micro
	err := a.QueryRowContext(ctx, `SELECT k.micro FROM block k JOIN account a ON a.id = k.account WHERE a.name = ? AND k.instance = ?`, account, a.instance).Scan(&block)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && takes > block {
		a.addFinding(checkBlocks, fmt.Sprint(a.instance, " ", account), "%s takes %s USD of key %q, the block has %s USD", a.name, takes, account, block)
	}
	return err
}

// AddInMemory adds charges that another process has only in memory.
func (r *Report) AddInMemory(w chargelog.Waiting, reason string) {
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
