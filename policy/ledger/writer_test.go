package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger/chargelog"
)

var errMine = errors.New("mine")

// asOneGroup runs changes in one commit, and returns their errors.
func asOneGroup(t *testing.T, w *writer, changes ...func(*book) error) []error {
	t.Helper()
	busy, begun := make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.do(func(*book) error { close(begun); <-busy; return nil }, nil)
	}()
	<-begun
	ops := make([]*op, len(changes))
	for i, change := range changes {
		ops[i] = &op{apply: change, reply: make(chan error, 1)}
		if _, err := w.send(ops[i]); err != nil {
			t.Fatal(err)
		}
	}
	close(busy)
	errs := make([]error, len(ops))
	for i, o := range ops {
		errs[i] = <-o.reply
	}
	return errs
}

func addAccount(name string) func(*book) error {
	return func(b *book) error {
		_, err := b.Exec(`INSERT INTO account (name) VALUES (?)`, name)
		return err
	}
}

func countAccounts(t *testing.T, l *Ledger) (n int) {
	t.Helper()
	err := l.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM account WHERE name NOT LIKE 'operator:%'`).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAChangeThatFailsTakesNothingWithIt(t *testing.T) {
	l := gateway(t, storePath(t))
	errs := asOneGroup(t, l.writer, addAccount("a"),
		func(b *book) error { return errors.Join(addAccount("undone")(b), errMine) },
		addAccount("b"))
	if errs[0] != nil || !errors.Is(errs[1], errMine) || errs[2] != nil {
		t.Errorf("%v", errs)
	}
	if n := countAccounts(t, l); n != 2 {
		t.Errorf("%d accounts, want a and b", n)
	}
}

func TestALostTransactionFailsItsWholeGroup(t *testing.T) {
	l := gateway(t, storePath(t))
	errs := asOneGroup(t, l.writer, addAccount("a"),
		func(b *book) error { return errors.Join(b.Do("ROLLBACK"), errMine) }, // as SQLite does when the disk is full
		addAccount("b"))
	for i, err := range errs {
		if err == nil {
			t.Errorf("change %d was acknowledged", i)
		}
	}
	if n := countAccounts(t, l); n != 0 {
		t.Errorf("%d accounts are left", n)
	}
	eventually(t, "the store is tried again", func() bool { return l.writer.backlog.storeFailure() == nil })
	if errs := asOneGroup(t, l.writer, addAccount("c")); errs[0] != nil {
		t.Errorf("the writer did not recover: %v", errs[0])
	}
}

func TestWhatIsWrittenBehindGoesWithTheNextGroup(t *testing.T) {
	l := openWith(t, storePath(t), Options{Gateway: true, Flush: time.Hour})
	if err := l.Record(Charge{RequestID: "behind"}); err != nil {
		t.Fatal(err)
	}
	withKey(t, l, "k", usd)
	if rows, err := l.Usage(t.Context(), Filter{}, ByDay); err != nil || len(rows) != 1 {
		t.Errorf("%+v, %v", rows, err)
	}
}

func TestTheWorldGoesOnAfterAFailedCapture(t *testing.T) {
	l := gateway(t, storePath(t))
	withKey(t, l, "k", usd)
	h := reserve(t, l, "k", "r", usd)
	breakNext := func(b *book) error { return errors.Join(b.Do("ROLLBACK"), errMine) }
	charge := func(b *book) error {
		e := &chargelog.Entry{Charge: &Charge{RequestID: "r", Account: "k", Amount: usd, At: monday}, Prepaid: true, Paid: usd}
		_, err := b.captureHold(e, h.account)
		return err
	}
	if errs := asOneGroup(t, l.writer, charge, breakNext); errs[0] == nil {
		t.Fatal("a charge whose commit failed was acknowledged")
	}
	eventually(t, "the store is tried again", func() bool { return l.writer.backlog.storeFailure() == nil })
	if r := capture(t, l, h, usd); r != (Receipt{Charged: usd}) {
		t.Errorf("%+v", r)
	}
	wantClean(t, l)
}

func TestAChangeThatComesAloneIsCommittedByWhoeverBringsIt(t *testing.T) {
	path := storePath(t)
	b := bookAt(t, path)
	w := newWriter(b, Options{}) // its goroutine does not run
	if err := errors.Join(w.do(addAccount("a"), nil), b.Close()); err != nil {
		t.Fatal(err)
	}
	if n := countAccounts(t, gateway(t, path)); n != 1 {
		t.Errorf("%d accounts, want a", n)
	}
}

func TestWhoeverWaitsForTheBookGetsItBeforeThoseWhoComeLater(t *testing.T) {
	for name, wait := range map[string]func(*writer){
		"to look":      func(w *writer) { w.entering++ },
		"for a commit": func(w *writer) { w.waiters++ },
	} {
		w := newWriter(nil, Options{})
		wait(w)
		o := &op{reply: make(chan error, 1)}
		if group, err := w.send(o); group != nil || err != nil {
			t.Errorf("somebody waits %s: who came later got %d ops to commit, %v", name, len(group), err)
		}
	}
}

func TestWhatQueuesUpDuringACommitIsOneGroup(t *testing.T) {
	var groups []int
	l := openWith(t, storePath(t), Options{Gateway: true, Retention: -1, Committed: func(_ time.Duration, n int) { groups = append(groups, n) }})
	asOneGroup(t, l.writer, addAccount("a"), addAccount("b"), addAccount("c"))
	l.writer.enter()
	defer l.writer.exit()
	if most := slices.Max(groups); most < 3 { // the janitor's may be in it too
		t.Errorf("commits of %v changes, want one of 3", groups)
	}
}
