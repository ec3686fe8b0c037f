package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/policy/catalog"
)

func TestQuarantineEnds(t *testing.T) {
	var q catalog.Quarantine
	now := time.Date(2026, 8, 5, 12, 0, 0, 0, time.UTC)
	if !q.Until(now, "p", "m").IsZero() || !q.Empty() {
		t.Error("the zero value holds something")
	}
	until, ok := q.Hold(now, "p", "m")
	if !ok || until.Sub(now) != catalog.QuarantineTime || q.Empty() {
		t.Errorf("held until %v, %v", until, ok)
	}
	if _, again := q.Hold(now.Add(time.Minute), "p", "m"); again {
		t.Error("it is taken in twice")
	}
	for _, row := range []struct {
		about, upstream string
		after           time.Duration
		held            bool
	}{
		{"while it is held", "m", catalog.QuarantineTime - 1, true},
		{"when it is over", "m", catalog.QuarantineTime, false},
		{"another model", "n", 0, false},
	} {
		if got := !q.Until(now.Add(row.after), "p", row.upstream).IsZero(); got != row.held {
			t.Errorf("%s: held is %v", row.about, got)
		}
	}
	if !q.Until(now, "q", "m").IsZero() {
		t.Error("it holds at another provider")
	}
	if _, ok := q.Hold(now.Add(catalog.QuarantineTime), "p", "m"); !ok {
		t.Error("it cannot be held again")
	}
}

func TestQuarantineIsBounded(t *testing.T) {
	var q catalog.Quarantine
	now, held := time.Now(), 0
	for i := range 5000 {
		if _, ok := q.Hold(now, "p", fmt.Sprint(i)); ok {
			held++
		}
	}
	if held == 0 || held == 5000 {
		t.Errorf("%d held", held)
	}
	if _, ok := q.Hold(now.Add(catalog.QuarantineTime), "p", "later"); !ok {
		t.Error("there is no room when they are free")
	}
}
