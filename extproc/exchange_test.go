package extproc

import (
	"slices"
	"testing"
	"time"
)

func TestRequestIDsAreInTheOrderOfTime(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var ids []string
	for range 1000 {
		ids = append(ids, newID(at))
		at = at.Add(17 * time.Millisecond)
	}
	if !slices.IsSorted(ids) || len(ids[0]) != len("req_")+24 {
		t.Errorf("%v", ids)
	}
	if first, second := newID(at), newID(at); first == second {
		t.Errorf("%s twice", first)
	}
}
