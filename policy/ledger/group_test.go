package ledger

import (
	"errors"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
	"bardo.money/gateway/policy/ledger/commit"
)

var errMine = errors.New("mine")

// asOneGroup runs changes in one commit, and returns their errors.
func asOneGroup(t *testing.T, l *Ledger, changes ...func(*book) error) []error {
	t.Helper()
	errs := make([]error, len(changes))
	ops := make([]*commit.Op, len(changes))
	for i, change := range changes {
		ops[i] = &commit.Op{Apply: func() error { return change(l.book) }, Done: func(err error) { errs[i] = err }}
	}
	if err := l.writer.Between(func() error { l.writer.Commit(ops); return nil }); err != nil {
		t.Fatal(err)
	}
	return errs
}

func TestEntriesAreCommittedWithTheNextGroup(t *testing.T) {
	l := openWith(t, storePath(t), Options{Gateway: true, Flush: time.Hour})
	if err := l.Record(Charge{RequestID: "behind"}); err != nil {
		t.Fatal(err)
	}
	withKey(t, l, "k", usd)
	if rows, err := l.Usage(t.Context(), Filter{}, ByDay); err != nil || len(rows) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestACaptureSucceedsAfterAFailedCommit(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	h := reserve(t, l, "k", "r", usd)
	breakNext := func(b *book) error { return errors.Join(b.Do("ROLLBACK"), errMine) }
	charge := func(b *book) error {
		e := &chargelog.Entry{Charge: &Charge{RequestID: "r", Account: "k", Amount: usd, At: monday}, Prepaid: true, Paid: usd}
		_, err := b.captureHold(e, h.account)
		return err
	}
	if errs := asOneGroup(t, l, charge, breakNext); errs[0] == nil {
		t.Fatal("a charge whose commit failed was acknowledged")
	}
	eventually(t, "the store is tried again", func() bool { return l.StoreFailure() == nil })
	if r := capture(t, l, h, usd); r != (Receipt{Charged: usd}) {
		t.Errorf("%+v", r)
	}
	wantClean(t, l)
}
