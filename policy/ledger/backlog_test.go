package ledger

import (
	"log/slog"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// TestAnOutageLastsWhileAChargeWaits: one that comes as the others are written is written too, before new requests are served.
func TestAnOutageLastsWhileAChargeWaits(t *testing.T) {
	l := &backlog{log: slog.New(slog.DiscardHandler), onOutage: func(Outage) {}, now: time.Now}
	l.begin(errGone)
	if !l.add(&op{note: &note{Charge: &Charge{RequestID: "r", Amount: 1, Record: []byte("{}")}}}) {
		t.Fatal("it does not wait")
	}
	if l.end() || l.failed() == nil {
		t.Error("the outage has ended, and a charge waits")
	}
	if l.bytes == 0 || l.unwritten().Charges != 1 {
		t.Errorf("%d bytes, %s", l.bytes, l.unwritten())
	}
	l.drop(l.next(10))
	if l.bytes != 0 || l.unwritten().Charges != 0 {
		t.Errorf("%d bytes, %s, and all is written", l.bytes, l.unwritten())
	}
	if !l.end() || l.failed() != nil {
		t.Error("the outage goes on, and nothing waits")
	}
}

// TestNothingWaitsInAClosedBacklog: nobody would write it.
func TestNothingWaitsInAClosedBacklog(t *testing.T) {
	l := &backlog{log: slog.New(slog.DiscardHandler), onOutage: func(Outage) {}, now: time.Now}
	l.begin(errGone)
	if _, err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l.add(&op{note: &note{Charge: &Charge{RequestID: "r"}}}) {
		t.Error("it was taken")
	}
}

// TestTheFirstAccountHasAThing, also while it waits for the store.
func TestTheFirstAccountHasAThing(t *testing.T) {
	var w waiting
	for _, acct := range []policy.Account{"ada", "bob"} {
		w.addThings([]Kept{{ID: "file", Account: acct}})
	}
	if k, ok := w.thing("file"); !ok || k.Account != "ada" {
		t.Errorf("%+v, %v", k, ok)
	}
	w.removeThings([]Kept{{ID: "file"}})
	if k, ok := w.thing("file"); ok {
		t.Errorf("%+v still waits", k)
	}
}

// TestARecordOfAnEarlierEpochIsNone: what was written to the store is not read again where the next epoch is shorter.
func TestARecordOfAnEarlierEpochIsNone(t *testing.T) {
	s, err := createSpill(t.TempDir()+"/ledger", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.close() }()
	for range 2 {
		if err := s.add([]*note{{Charge: &Charge{RequestID: "old"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.reset(); err != nil {
		t.Fatal(err)
	}
	if notes, err := s.notes(); err != nil || len(notes) != 0 {
		t.Errorf("%d notes, %v", len(notes), err)
	}
	if err := s.add([]*note{{Charge: &Charge{RequestID: "new"}}}); err != nil {
		t.Fatal(err)
	}
	if notes, err := s.notes(); err != nil || len(notes) != 1 || notes[0].Charge.RequestID != "new" {
		t.Errorf("%d notes, %v", len(notes), err)
	}
}
