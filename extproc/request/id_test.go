package request_test

import (
	"slices"
	"testing"
	"time"

	"bardo.money/gateway/extproc/request"
)

func TestRequestIDsAreInTheOrderOfTime(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	var ids []string
	for range 1000 {
		ids = append(ids, request.NewID(at))
		at = at.Add(17 * time.Millisecond)
	}
	if !slices.IsSorted(ids) || len(ids[0]) != len("req_")+24 {
		t.Errorf("%v", ids)
	}
	if first, second := request.NewID(at), request.NewID(at); first == second {
		t.Errorf("%s twice", first)
	}
}
