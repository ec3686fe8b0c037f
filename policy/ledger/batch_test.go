package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
	"bardo.money/gateway/policy/ledger/store"
)

// batchStore is a store to which a test applies charges itself.
type batchStore struct {
	*Ledger
	t testing.TB
}

func newBatchStore(t testing.TB) batchStore {
	t.Helper()
	l := openWith(t, storePath(t), Options{
		Gateway: true, IdleReturn: time.Hour, Flush: time.Hour, Poll: time.Hour, Retention: -1, Now: func() time.Time { return monday },
	})
	for _, id := range []policy.Account{"a", "b", "poor"} {
		balance := 100 * usd
		if id == "poor" {
			balance = usd
		}
		withKey(t, l, id, balance)
		l.Release(reserve(t, l, id, "block", balance/2)) // half of the balance is in the block
	}
	return batchStore{l, t}
}

// apply applies entries in one group, and returns their receipts.
func (s batchStore) apply(entries ...chargelog.Entry) (receipts []string) {
	s.t.Helper()
	ops := make([]*commit.Op, len(entries))
	for i, e := range entries {
		c := &batched{entry: &e, receipt: &Receipt{}}
		o := &commit.Op{Entry: &e, Batch: c}
		if e.Prepaid {
			c.payer = s.account(e.Charge.Account)
			o.Apply = func() (err error) { *c.receipt, err = s.book.captureHold(&e, c.payer); return err }
		} else {
			o.Apply = func() (err error) { c.receipt.Charged, err = s.book.record(e.Charge); return err }
		}
		o.Done = func(err error) {
			receipts = append(receipts, fmt.Sprintf("%s: %+v, %v", e.Charge.RequestID, *c.receipt, err))
		}
		ops[i] = o
	}
	commitGroup(s.t, s.Ledger, ops)
	return receipts
}

// commitGroup commits ops together.
func commitGroup(t testing.TB, l *Ledger, ops []*commit.Op) {
	t.Helper()
	err := l.writer.Between(func() error {
		if !l.writer.Commit(ops) {
			return errors.New("the group was not committed")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents are the rows of the tables that charges are written to.
func (s batchStore) contents() (all []string) {
	s.t.Helper()
	for table, columns := range map[string]string{
		"journal": "id, idem, kind, at, ref", "entry": "journal, account, amount", "balance": "account, micro, held, blocked", "block": "account, micro",
		"usage": "account, day, model, provider, requests, input, output, charged, provider_cost", "spending": "day, account, agent, part, charged",
		"request": "id, account, coalesce(journal, 0), at, provider, model, subsystem, status, input, cached, cache_write, output, reasoning, amount, charged, provider_cost, length(record)",
	} {
		row := strings.Repeat("%s ", strings.Count(strings.ReplaceAll(columns, "coalesce(journal, 0)", "journal"), ",")+1)
		rows, err := store.ReadAll(s.t.Context(), s.reads, store.Text, fmt.Sprintf(`SELECT format('%s %s', %s) FROM %s`, table, row, columns, table))
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, rows...)
	}
	slices.Sort(all)
	return all
}

// randomEntry is a charge: usually one that the block pays in full, sometimes with an id that was used before.
func randomEntry(random *rand.Rand) chargelog.Entry {
	n := random.IntN(100_000)
	if random.IntN(60) == 0 {
		n = random.IntN(20)
	}
	c := &Charge{
		RequestID: fmt.Sprint("r", n), Account: []policy.Account{"a", "b"}[random.IntN(2)], Amount: policy.Micro(random.IntN(2000)), ProviderCost: policy.Pico(random.IntN(1e6)),
		Tokens: Tokens{Input: random.Int64N(9), Output: random.Int64N(9)}, Provider: "p", Model: policy.ModelID(fmt.Sprint("m", random.IntN(3))), Status: "ok",
		Record: make([]byte, random.IntN(50)), At: monday.Add(time.Duration(random.IntN(90)) * time.Hour), Part: []string{"", "dream"}[random.IntN(2)],
	}
	e := chargelog.Entry{Charge: c, Prepaid: true, Paid: c.Amount}
	switch random.IntN(40) {
	case 0, 1, 2:
		c.Amount, e.Paid = 0, 0
	case 3, 4, 5, 6:
		e.Prepaid, e.Paid = false, 0
	case 7:
		c.Account, e.Open = "poor", true
		e.Paid /= 2
	case 8:
		e.Paid /= 2
	case 9:
		c.Amount, e.Paid = 300*usd, 300*usd // the block has less
	}
	return e
}

// TestAGroupIsAppliedLikeItsChargesOneByOne: for any group, the store and the receipts are the same as if each charge had been applied alone.
func TestAGroupIsAppliedLikeItsChargesOneByOne(t *testing.T) {
	for seed := range uint64(iterations(t, 3, 30)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 4))
			together, apart := newBatchStore(t), newBatchStore(t)
			for group := range 12 {
				entries := make([]chargelog.Entry, 1+random.IntN(100))
				for i := range entries {
					entries[i] = randomEntry(random)
				}
				have := together.apply(entries...)
				for i, e := range entries {
					if want := apart.apply(e); have[i] != want[0] {
						t.Fatalf("group %d, charge %d of %d: %s, alone it is %s", group, i, len(entries), have[i], want[0])
					}
				}
			}
			for _, l := range []batchStore{together, apart} { // an audit would report the refused charges
				if err := os.Remove(chargelog.PrefixOf(l.Path(), l.instance.Load()) + chargelog.RefusedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
			have, want := together.contents(), apart.contents()
			for _, row := range have {
				if !slices.Contains(want, row) {
					t.Errorf("there is %s", row)
				}
			}
			for _, row := range want {
				if !slices.Contains(have, row) {
					t.Errorf("there is no %s", row)
				}
			}
			wantClean(t, together.Ledger)
		})
	}
}

// countUpdates creates the triggers of the test below in PostgreSQL.
const countUpdates = `CREATE TABLE changed (what TEXT)
--
CREATE FUNCTION note() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN INSERT INTO changed VALUES (TG_TABLE_NAME); RETURN NEW; END $$
--
CREATE TRIGGER of_balance AFTER UPDATE ON balance FOR EACH ROW EXECUTE FUNCTION note()
--
CREATE TRIGGER of_block AFTER UPDATE ON block FOR EACH ROW EXECUTE FUNCTION note()`

// TestABalanceIsUpdatedOnceForAGroup: the charges of one key in a group are one update of its balance and one of its block.
func TestABalanceIsUpdatedOnceForAGroup(t *testing.T) {
	s := newBatchStore(t)
	err := s.do(func(b *book) error {
		if inPostgres(t) {
			return b.Do(strings.Split(countUpdates, "\n--\n")...)
		}
		return b.Do(`CREATE TEMP TABLE changed (what TEXT)`,
			`CREATE TEMP TRIGGER of_balance AFTER UPDATE ON balance BEGIN INSERT INTO changed VALUES ('balance'); END`,
			`CREATE TEMP TRIGGER of_block AFTER UPDATE ON block BEGIN INSERT INTO changed VALUES ('block'); END`)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	entries := make([]chargelog.Entry, 100)
	for i := range entries {
		c := &Charge{RequestID: fmt.Sprint(i), Account: []policy.Account{"a", "b"}[i%2], Amount: 10, At: monday}
		entries[i] = chargelog.Entry{Charge: c, Prepaid: true, Paid: c.Amount}
	}
	s.apply(entries...)
	changed := map[string]int{}
	err = s.between(func(b *book) error {
		rows, err := store.ReadAll(t.Context(), b, store.Text, `SELECT what FROM changed`)
		for _, r := range rows {
			changed[r]++
		}
		return err
	})
	if want := map[string]int{"balance": 2, "block": 2}; err != nil || !maps.Equal(changed, want) {
		t.Errorf("%v, %v, want %v", changed, err, want)
	}
	wantBalance(t, s.Ledger, "a", Balance{Prepaid: true, Amount: 100*usd - 500, Held: 0, Available: 100*usd - 500})
}
