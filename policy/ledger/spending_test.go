package ledger

import (
	"reflect"
	"testing"
	"time"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/store"
	"bardo.money/gateway/policy/ledger/usage"
)

// dreamCharge is a charge of an agent's part dream.
func dreamCharge(id string, acct policy.Account, agent string, amount policy.Micro) Charge {
	return Charge{RequestID: id, Account: acct, Agent: agent, Part: "dream", Amount: amount, At: monday}
}

// onDay opens a store on a day: earlier spending is pruned.
func onDay(t *testing.T, path string, day time.Time) *Ledger {
	t.Helper()
	return openWith(t, path, Options{Gateway: true, IdleReturn: time.Hour, Now: func() time.Time { return day }})
}

func wantSpent(t *testing.T, l *Ledger, acct policy.Account, agent string, day time.Time, want map[string]policy.Micro) {
	t.Helper()
	have, err := l.SpentByPart(t.Context(), acct, agent, day)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("agent %q of %q spent %v, want %v", agent, acct, have, want)
	}
}

func TestWhatAgentsSpendIsCommittedWithTheirCharges(t *testing.T) {
	path := storePath(t)
	l := onDay(t, path, monday)
	withKey(t, l, "k", 10*usd)
	hold := reserve(t, l, "k", "r", usd)
	if _, err := l.Capture(t.Context(), hold, dreamCharge("", "", "g1", 2*usd)); err != nil {
		t.Fatal(err)
	}
	again := reserve(t, l, "k", "r", usd)
	if _, err := l.Capture(t.Context(), again, dreamCharge("", "", "g1", 2*usd)); err != nil { // it is found to be a repetition
		t.Fatal(err)
	}
	for _, c := range []Charge{
		dreamCharge("1", "m", "g1", 5), dreamCharge("2", "m", "g1", 7), dreamCharge("2", "m", "g1", 7), dreamCharge("3", "m", "g2", 11), dreamCharge("4", "m", "", 13), dreamCharge("5", "m", "g1", 0),
		{RequestID: "6", Account: "m", Agent: "g1", Part: "risk", Amount: 17, At: monday},
		{RequestID: "7", Account: "m", Agent: "g1", Part: "risk", Amount: 19, At: monday.AddDate(0, 0, 1)},
		{RequestID: "8", Account: "m", Agent: "g1", Amount: 23, At: monday},
	} {
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	check := func(l *Ledger) {
		wantSpent(t, l, "k", "g1", monday, map[string]policy.Micro{"dream": 2 * usd})
		wantSpent(t, l, "m", "g1", monday, map[string]policy.Micro{"dream": 12, "risk": 17}) // not committed yet, and included in reads
		wantSpent(t, l, "m", "g1", monday.AddDate(0, 0, 1), map[string]policy.Micro{"risk": 19})
		wantSpent(t, l, "m", "g2", monday, map[string]policy.Micro{"dream": 11})
		wantSpent(t, l, "m", "", monday, map[string]policy.Micro{"dream": 13})
		wantSpent(t, l, "k", "", monday, map[string]policy.Micro{})
	}
	check(l)
	wantClean(t, l)
	check(onDay(t, path, monday)) // another gateway
}

func TestWhatStakedCreditPaidForIsCountedForEverybody(t *testing.T) {
	l := onDay(t, storePath(t), monday)
	for id, c := range map[string]Charge{"1": {Account: "a", Agent: "g", Part: "dream", Staked: 3}, "2": {Account: "b", Staked: 4, Amount: 1}, "3": {Staked: 0}} {
		c.RequestID, c.At = id, monday
		if err := l.Record(c); err != nil {
			t.Fatal(err)
		}
	}
	wantSpent(t, l, "", "", monday, map[string]policy.Micro{PartStake: 7})
	wantSpent(t, l, "a", "g", monday, map[string]policy.Micro{})
}

func TestWhatAgentsSpentInOneGroupIsReadInIt(t *testing.T) {
	l := onDay(t, storePath(t), monday)
	between := map[string]policy.Micro{}
	note := func(c Charge) func(*book) error {
		return func(b *book) error {
			_, err := b.record(&c)
			return err
		}
	}
	errs := asOneGroup(t, l, note(dreamCharge("a", "k", "g", 10)), func(*book) error { return errMine },
		func(b *book) error { return b.tally.SpentByPart(b.Book, "k", "g", usage.DayOf(monday), between) }, note(dreamCharge("b", "k", "g", 20)))
	if errs[0] != nil || errs[1] == nil || errs[2] != nil || errs[3] != nil {
		t.Fatalf("%v", errs)
	}
	if between["dream"] != 10 {
		t.Errorf("in the middle of its group the agent had spent %v", between)
	}
	wantSpent(t, l, "k", "g", monday, map[string]policy.Micro{"dream": 30})
}

func TestSpendingOfAgentsIsPrunedAfterYesterday(t *testing.T) {
	path := storePath(t)
	l := onDay(t, path, monday)
	for i := range usage.PruneLimit + 7 {
		agent := string(rune('a' + i))
		if err := l.Record(Charge{RequestID: "r" + agent, Account: "m", Agent: agent, Part: "dream", Amount: 1}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(l *Ledger) (n int) {
		if err := l.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM spending`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	wantSpent(t, l, "m", "a", monday, map[string]policy.Micro{"dream": 1})
	l.pruneSpending()
	yesterday := onDay(t, path, monday.AddDate(0, 0, 1))
	yesterday.pruneSpending()
	if n := left(yesterday); n != usage.PruneLimit+7 {
		t.Errorf("of yesterday's rows %d are left", n)
	}
	later := onDay(t, path, monday.AddDate(0, 0, 2)) // its janitor prunes
	eventually(t, "all of it is pruned", func() bool { return left(later) == 0 })
}

func TestAStoreOfAnEarlierVersionCountsWhatAgentsSpend(t *testing.T) {
	path := firstVersion(t)
	l := onDay(t, path, monday)
	wantSpent(t, l, "k", "g", monday, map[string]policy.Micro{})
	if _, err := l.Capture(t.Context(), reserve(t, l, "k", "r2", usd), dreamCharge("", "", "g", usd)); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, l, "k", "g", monday, map[string]policy.Micro{"dream": usd})
	if v := userVersion(t, path); v != store.SchemaVersion {
		t.Errorf("the store is of version %d", v)
	}
}
