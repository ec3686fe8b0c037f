package ledger

import (
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/usage"
)

// noted records a request of a metered key.
func recordUsage(id string, account policy.Account, amount policy.Micro) func(*book) error {
	return func(b *book) error {
		_, err := b.record(&Charge{RequestID: id, Account: account, Amount: amount, At: monday, Tokens: Tokens{Input: 3, Output: 2}})
		return err
	}
}

func TestAGroupsRequestsAreSummedOnce(t *testing.T) {
	l := gateway(t, storePath(t))
	var between policy.Micro
	first, again := recordUsage("a", "k", 10), recordUsage("a", "k", 10)
	errs := asOneGroup(t, l, first, recordUsage("b", "other", 5), again,
		func(b *book) (err error) {
			between, err = b.tally.ChargedOn(b.Book, "k", usage.DayOf(monday))
			return err
		},
		recordUsage("c", "k", 20))
	for i, err := range errs {
		if err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if between != 10 {
		t.Errorf("in the middle of its group the key had spent %d, want 10", between)
	}
	rows, err := l.Usage(t.Context(), Filter{Account: "k"}, ByModel)
	if err != nil || len(rows) != 1 || rows[0].Requests != 2 || rows[0].Cost != 30 || rows[0].Input != 6 || rows[0].Output != 4 {
		t.Errorf("%+v, %v", rows, err)
	}
	wantClean(t, l)
}

func TestAFailedChangeAddsNothingToTheSums(t *testing.T) {
	l := gateway(t, storePath(t))
	errs := asOneGroup(t, l, recordUsage("a", "k", 10), func(*book) error { return errMine }, recordUsage("b", "k", 20))
	if errs[0] != nil || errs[1] == nil || errs[2] != nil {
		t.Fatalf("%v", errs)
	}
	rows, err := l.Usage(t.Context(), Filter{Account: "k"}, ByModel)
	if err != nil || len(rows) != 1 || rows[0].Requests != 2 || rows[0].Cost != 30 {
		t.Errorf("%+v, %v", rows, err)
	}
	wantClean(t, l)
}
