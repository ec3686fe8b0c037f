package ledger

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/polltest"
	"bardo.money/gateway/policy/ledger/audit"
	"bardo.money/gateway/policy/ledger/chargelog"
)

var auditCases = []struct {
	sentence, change string
	check, offending string
}{
	{
		"a changed entry", `UPDATE entry SET amount = amount + 1 WHERE journal = 2 AND account = 2`,
		"every journal sums to zero", "journal 2 (request:r) sums to 1 over 2 entries",
	},
	{
		"a journal without entries", `INSERT INTO journal (id, idem, kind, at, ref) VALUES (3, 'x', 'charge', 0, 'x')`,
		"every journal sums to zero", "journal 3 (x) sums to 0 over 0 entries",
	},
	{
		"a balance out of nowhere", `UPDATE balance SET micro = micro + 7`,
		"every balance is the sum of its entries", "account k has a balance of 4000007 and entries of 4000000",
	},
	{
		"a lost balance", `DELETE FROM balance`,
		"every balance is the sum of its entries", "account k has a balance of 0 and entries of 4000000",
	},
	{
		"held money without a block", `UPDATE balance SET held = 5`,
		"what is held lies in open blocks", "account k holds 5 and has 0 in 0 blocks",
	},
	{
		"a block that nothing holds", `INSERT INTO instance VALUES (77, 0); INSERT INTO block VALUES (4, 77, 5, 0, 0)`,
		"what is held lies in open blocks", "account k holds 0 and has 5 in 1 blocks",
	},
	{
		"a block of no gateway", `UPDATE balance SET held = 5; INSERT INTO block VALUES (4, 77, 5, 0, 0)`,
		"every row refers to a row", "a missing instance",
	},
	{
		"a balance below its credit", `UPDATE balance SET micro = -3, credit = 2`,
		"no balance is below its credit", "account k has a balance of -3, holds 0, and has a credit of 2",
	},
	{
		"a loss that was forgotten", `INSERT INTO journal (id, idem, kind, at, ref) VALUES (3, 'lost:k:x', 'deposit', 0, 'x'); INSERT INTO entry (journal, account, amount) VALUES (3, 1, 9), (3, 3, -9)`,
		"what payments that never arrived have cost is owed until it is recovered", "account k owes 0 and was forgiven 0: payments that never arrived cost 9, of which 0 were recovered",
	},
	{
		"what was never recovered", `INSERT INTO journal (id, idem, kind, at, ref) VALUES (3, 'recovered:k:3', 'deposit', 0, 'x'); INSERT INTO entry (journal, account, amount) VALUES (3, 4, -9), (3, 3, 9)`,
		"what payments that never arrived have cost is owed until it is recovered", "cost 0, of which 9 were recovered",
	},
	{
		"who owes and is not blocked", `UPDATE balance SET owed = 9, micro = 0`,
		"who owes is blocked, and has nothing that could be taken", "account k owes 9, has 0 and holds 0, and its mark as blocked is 0",
	},
	{
		"who owes and has something", `UPDATE balance SET owed = 9, blocked = 1`,
		"who owes is blocked, and has nothing that could be taken", "account k owes 9, has 4000000 and holds 0, and its mark as blocked is 1",
	},
	{
		"a debt that was forgiven by hand", `UPDATE balance SET forgiven = 9`,
		"every loss is forgiven once, and for no more than it was", "account k was forgiven 9, and its losses 0",
	},
	{
		"more than was lost is forgiven", `INSERT INTO journal (id, idem, kind, at, ref) VALUES (3, 'lost:k:x', 'deposit', 0, 'x'); INSERT INTO entry (journal, account, amount) VALUES (3, 1, 9), (3, 3, -9);
INSERT INTO forgiven (account, journal, micro, at, via, reason) VALUES (4, 3, 10, 0, '', ''); UPDATE balance SET forgiven = 10`,
		"every loss is forgiven once, and for no more than it was", "account k was forgiven 10 of journal 3 (lost:k:x), which took back 9",
	},
	{
		"what is forgiven is no loss", `INSERT INTO forgiven (account, journal, micro, at, via, reason) VALUES (4, 2, 0, 0, '', '')`,
		"every loss is forgiven once, and for no more than it was", "account k was forgiven 0 of journal 2 (request:r), which took back 0",
	},
	{
		"a request that says something else", `UPDATE request SET charged = 1`,
		"every charge is what its request paid", "request r paid 1 of 1000000, its journal says 1000000 of 1000000",
	},
	{
		"a charge of another request", `UPDATE journal SET idem = 'request:other' WHERE id = 2`,
		"every request is charged once", "request r has the journal of request:other",
	},
	{
		"a charge without its request", `UPDATE request SET journal = NULL`,
		"every request is charged once", "journal 2 charges request r, whose row has no journal",
	},
	{
		"a request that the sums lack", `UPDATE usage SET requests = 0`,
		"the sums of usage have every request", "account k was charged 1000000 for 1 requests",
	},
	{
		"a charge that the sums lack", `UPDATE usage SET charged = charged - 1`,
		"the sums of usage have every request", "and the sums have 999999 for 1",
	},
	{
		"an entry of no account", `UPDATE entry SET account = 77 WHERE journal = 2 AND account = 2`,
		"every row refers to a row", "a missing account",
	},
	{
		"an idempotency key used twice", `DROP TABLE journal;
CREATE TABLE journal (id INTEGER PRIMARY KEY, idem TEXT, kind TEXT, at INTEGER, ref TEXT);
INSERT INTO journal VALUES (1, 'same', 'deposit', 0, ''), (2, 'same', 'charge', 0, '')`,
		"every idempotency key is unique", "same is used 2 times",
	},
	{
		"a value that its column forbids", `UPDATE balance SET blocked = 9`,
		"the file is intact", "CHECK constraint failed in balance",
	},
}

func TestAuditFindsViolations(t *testing.T) {
	for _, c := range auditCases {
		if c.check == "the file is intact" && inPostgres(t) {
			continue
		}
		t.Run(c.sentence, func(t *testing.T) {
			path := storePath(t)
			l := gateway(t, path)
			withKey(t, l, "k", 5*usd)
			capture(t, l, reserve(t, l, "k", "r", usd), usd)
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			change(t, path, c.change)
			r, err := tool(t, path).Audit(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(r.Checks, func(k audit.Check) bool { return k.Name == c.check })
			if r.OK || r.Checks[i].OK || !strings.Contains(strings.Join(r.Checks[i].Offending, "\n"), c.offending) {
				t.Errorf("%+v, want %s: %s", r, c.check, c.offending)
			}
		})
	}
}

func TestAuditIsReadableByPrograms(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", 5*usd)
	capture(t, l, reserve(t, l, "k", "r", usd), usd)
	flush(t, l)
	r, err := l.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const start = `{"ok":true,"accounts":4,"journals":2,"requests":1,"checks":[{"name":"every journal sums to zero","ok":true},`
	if !strings.HasPrefix(string(text), start) {
		t.Errorf("%s\nwant it to start with %s", text, start)
	}
}

func TestAnAuditLeavesARunningGatewaysBlocksAlone(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	withKey(t, l, "k", 5*usd)
	h := reserve(t, l, "k", "r", 5*usd)
	wantClean(t, tool(t, path))
	wantClean(t, l)
	if r := capture(t, l, h, 5*usd); r.Charged != 5*usd {
		t.Errorf("%+v", r)
	}
}

// TestAnAuditChecksDiscrepanciesOfLogsAgain: logs and store are read one after the other, so discrepancies between them are checked again; those that remain are
// offending. New ones are not of the audit's snapshot, and are left out.
func TestAnAuditChecksDiscrepanciesOfLogsAgain(t *testing.T) {
	for _, c := range []struct {
		check, offending, wrong, right string
		applied                        bool
	}{
		{
			"every charge log agrees with the ledger", "the ledger 1.000001 USD",
			`UPDATE request SET amount = amount + 1 WHERE id = 'r'`, `UPDATE request SET amount = amount - 1 WHERE id = 'r'`, true,
		},
		{
			"what charge logs take is in the blocks of their gateways", `takes 1.000000 USD of key "k", the block has 0.000001 USD`,
			`UPDATE block SET micro = 1`, `UPDATE block SET micro = 2000000`, false,
		},
	} {
		t.Run(c.check, func(t *testing.T) {
			path := storePath(t)
			l := openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Flush: time.Hour})
			withKey(t, l, "k", 5*usd)
			capture(t, l, reserve(t, l, "k", "other", usd), 0)
			flush(t, l)
			capture(t, l, reserve(t, l, "k", "r", usd), usd)
			if c.applied {
				flush(t, l)
			}
			look := func(wait time.Duration, between string) (audit.Report, audit.Check) {
				change(t, path, c.wrong)
				r, err := audit.Run(t.Context(), l.reads, l.path, wait, func() chargelog.Waiting {
					if between != "" {
						change(t, path, between, `UPDATE request SET amount = amount + 5 WHERE id = 'other'`)
					}
					return chargelog.Waiting{}
				})
				if err != nil {
					t.Fatal(err)
				}
				return r, r.Checks[slices.IndexFunc(r.Checks, func(k audit.Check) bool { return k.Name == c.check })]
			}
			r, check := look(polltest.Patience, c.right)
			if !check.OK || r.Again == nil || r.Again.Found != 1 || r.Again.Unexplained != 0 || !strings.Contains(r.Again.For[0], c.offending) {
				t.Errorf("it was right again: %+v %+v", check, r.Again)
			}
			r, check = look(50*time.Millisecond, "")
			if check.OK || r.OK || !strings.Contains(strings.Join(check.Offending, "\n"), c.offending) || r.Again == nil || r.Again.Unexplained == 0 {
				t.Errorf("it stays wrong: %+v %+v", check, r.Again)
			}
			change(t, path, c.right, `UPDATE request SET amount = 0 WHERE id = 'other'`)
		})
	}
}
