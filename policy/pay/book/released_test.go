package book

import (
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bardo.money/gateway/policy/pay"
)

// aheadClock is a clock that is ahead by a duration.
type aheadClock struct{ by time.Duration }

func (l *aheadClock) now() time.Time { return time.Now().Add(l.by) }

// TestReleasedPaymentsAreLookedForAndKeptOnce: those of scheme exact that are still released after a while.
func TestReleasedPaymentsAreLookedForAndKeptOnce(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		clock := &aheadClock{}
		b, err := Open(t.Context(), at, clock.now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		if ok, err := b.Claim(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		ids := b.release(t, 5)
		want := func(what string, limit int, want ...int64) {
			t.Helper()
			list, err := b.DueForLookup(t.Context(), limit)
			if err != nil || len(list) != len(want) {
				t.Fatalf("%s: %d are looked for, want %d, %v", what, len(list), len(want), err)
			}
			for i := range list {
				if list[i].ID != want[i] {
					t.Errorf("%s: %d is looked for, want %d", what, list[i].ID, want[i])
				}
			}
		}
		want("at once", 9)
		clock.by = firstQueryDelay + time.Second
		want("after a while", 9, ids[0], ids[1], ids[2], ids[3])
		want("some of them", 2, ids[0], ids[1])
		if err := b.ScheduleLookup(t.Context(), ids[0], time.Time{}); err != nil {
			t.Fatal(err)
		}
		if err := b.ScheduleLookup(t.Context(), ids[1], clock.now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		serving := b.reserveAgain(t, 3)
		want("not now, and not while it serves", 9, ids[3])
		if err := b.ScheduleLookup(t.Context(), ids[2], clock.now()); err != nil {
			t.Fatal(err)
		}
		b.wantArrived(t, serving, false)
		if err := b.MarkServed(t.Context(), serving, 10, 5000); err != nil {
			t.Fatal(err)
		}
		clock.by += time.Minute
		want("not when it has served", 9, ids[1], ids[3])
		b.wantArrived(t, serving, false)
		b.wantArrived(t, ids[4], false) // of scheme upto
		b.wantArrived(t, ids[3], true)
		b.wantArrived(t, ids[3], false)
		want("not when it is kept", 9, ids[1])
		if err := b.MarkFailed(t.Context(), ids[1], "by hand"); err != nil {
			t.Fatal(err)
		}
		b.wantArrived(t, ids[1], false)
		if got, err := b.ByID(t.Context(), serving); err != nil || got.Fee != 1000 || got.Charge != 10 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// release reserves some payments and releases them, the last one of scheme upto.
func (b *Book) release(t *testing.T, n int) (ids []int64) {
	t.Helper()
	for i := range n {
		q := *one
		q.Nonce = pay.Word{byte(i + 1)}
		if i == n-1 {
			q.UpTo, q.Facilitator = true, pay.Address{9}
		}
		p, err := b.Reserve(t.Context(), terms, &q, "req_"+string(rune('a'+i)), 7, Limits{})
		if err == nil {
			err = b.Release(t.Context(), p.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	return ids
}

// reserveAgain reserves a payment again.
func (b *Book) reserveAgain(t *testing.T, nonce byte) int64 {
	t.Helper()
	q := *one
	q.Nonce = pay.Word{nonce}
	p, err := b.Reserve(t.Context(), terms, &q, "req_again", 9, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// wantArrived checks whether Arrived makes a payment its payer's money.
func (b *Book) wantArrived(t *testing.T, id int64, want bool) {
	t.Helper()
	p, ok, err := b.MarkMovedByOther(t.Context(), id, pay.Word{77})
	if err != nil || ok != want || ok && (p.Service != Served || p.Settlement != Settling || p.Tx != pay.Word{77} || p.Captured != 5000 || p.Fee != 0 || p.Charge != 0 || p.Holder != b.holder || p.Booked) {
		t.Errorf("%+v, %v, want %v, %v", p, ok, want, err)
	}
}

// TestOnlyTheGatewayThatSettlesKeepsPayments.
func TestOnlyTheGatewayThatSettlesKeepsPayments(t *testing.T) {
	at := database(t)
	a, b := open(t, at), open(t, elsewhere(t, at))
	if ok, err := a.Claim(t.Context()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ids := b.release(t, 2)
	if _, ok, err := b.MarkMovedByOther(t.Context(), ids[0], pay.Word{77}); ok || err == nil {
		t.Errorf("by one that does not settle: %v, %v", ok, err)
	}
	if err := b.ScheduleLookup(t.Context(), ids[0], time.Time{}); err == nil {
		t.Error("by one that does not settle")
	}
	a.wantArrived(t, ids[0], true)
}

// TestTablesOfBeforeAreUpgraded: their released payments are not looked for; new ones are.
func TestTablesOfBeforeAreUpgraded(t *testing.T) {
	at := database(t)
	b := open(t, at)
	b.release(t, 2)
	for _, change := range []string{"DROP INDEX payment_look", "ALTER TABLE payment DROP COLUMN look_at", "ALTER TABLE payment DROP COLUMN debt", "ALTER TABLE payment DROP COLUMN kept", "UPDATE payment_book SET mark = 0"} {
		if _, err := b.exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	clock := &aheadClock{by: time.Hour}
	for range 2 {
		again, err := Open(t.Context(), at, clock.now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = again.Close() })
		if list, err := again.DueForLookup(t.Context(), 9); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		b = again
	}
	id := b.reserveAgain(t, 1)
	if err := b.Release(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	clock.by += time.Minute
	if list, err := b.DueForLookup(t.Context(), 9); err != nil || len(list) != 1 || list[0].ID != id {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestKeptPaymentsOfBeforeAreMarked: those for which no transaction was signed and nothing was served, and whose blocks are still checked.
func TestKeptPaymentsOfBeforeAreMarked(t *testing.T) {
	inBoth(t, func(t *testing.T, at Place) {
		t.Helper()
		b := open(t, at)
		if ok, err := b.Claim(t.Context()); !ok || err != nil {
			t.Fatal(ok, err)
		}
		rows := []struct {
			what, settlement, reason string
			booked, charge           int
			signed, kept             bool
		}{
			{"in a block", "confirmed", "", 1, 0, false, true},
			{"removed", "settling", reorganised, 1, 0, false, true},
			{"to be settled", "settling", "", 1, 0, false, false},
			{"in use", "confirmed", "", 0, 0, false, false},
			{"served", "confirmed", "", 1, 10, false, false},
			{"settled by this gateway", "confirmed", "", 1, 0, true, false},
		}
		ids := make([]int64, len(rows))
		for i, row := range rows {
			q := *one
			q.Nonce = pay.Word{byte(i)}
			p, err := b.Reserve(t.Context(), terms, &q, row.what, 7, Limits{})
			if err == nil && row.signed {
				err = b.MarkSigned(t.Context(), p.ID, &pay.Transaction{Hash: pay.Word{1}, Raw: []byte{1}, Fees: pay.Fees{Tip: big.NewInt(1), Cap: big.NewInt(1)}})
			}
			if err == nil {
				_, err = b.exec(t.Context(), `UPDATE payment SET service = 'served', settlement = ?, reason = ?, booked = ?, charge = ? WHERE id = ?`,
					row.settlement, row.reason, row.booked, row.charge, p.ID)
			}
			if err != nil {
				t.Fatal(err)
			}
			ids[i] = p.ID
		}
		changes := []string{"ALTER TABLE payment DROP COLUMN kept"}
		if at.File != "" {
			changes = append(changes, "PRAGMA user_version = 5")
		}
		for _, change := range changes {
			if _, err := b.exec(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
		b = open(t, at)
		for i, row := range rows {
			if kept, err := b.IsMovedByOther(t.Context(), ids[i]); kept != row.kept || err != nil {
				t.Errorf("%s: %v, %v", row.what, kept, err)
			}
		}
	})
}

// TestTheFileIsItsUsersAlone, like SQLite's files beside it.
func TestTheFileIsItsUsersAlone(t *testing.T) {
	dir := t.TempDir()
	b := open(t, InFile(filepath.Join(dir, "payments.db")))
	b.release(t, 2)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < 2 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
		}
	}
}
