package ledger

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"bardo.money/gateway/policy/ledger/usage"
)

func TestRefusalsAreCountedByKeyMinuteAndReason(t *testing.T) {
	path := storePath(t)
	l, f := breakable(t, path)
	for i := range 3000 {
		r := Refusal{RequestID: fmt.Sprint(i), Account: "k", Reason: "rate_limit_exceeded", Status: 429, At: monday, Record: []byte(`{"request_id":"x"}`)}
		if i%3 == 0 {
			r.Account, r.Reason, r.Status = "", "invalid_api_key", 401
		}
		l.Refuse(r)
	}
	l.Refuse(Refusal{RequestID: "later", Account: "k", Reason: "rate_limit_exceeded", Status: 429, At: monday.Add(time.Minute)})
	f.set(errFull)
	l.writeRefusals() // they wait
	f.set(nil)
	wantWritten(t, l)
	l.writeRefusals()
	l.writeRefusals() // there is nothing more
	eventually(t, "what the janitor took, which writes them too", func() bool {
		var n int
		err := l.reads.QueryRowContext(t.Context(), `SELECT coalesce(sum(requests), 0) FROM refusal`).Scan(&n)
		return err == nil && n >= 3001
	})
	for query, want := range map[string]int{
		`SELECT count(*) FROM request`:                                           0,
		`SELECT count(*) FROM refusal`:                                           3,
		`SELECT requests FROM refusal WHERE account = ''`:                        1000,
		`SELECT sum(requests) FROM refusal WHERE account = 'k' AND status = 429`: 2001,
	} {
		var n int
		if err := l.reads.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, %v, want %d", query, n, err, want)
		}
	}
	rows, err := l.Usage(t.Context(), Filter{Account: "k"}, ByDay)
	if err != nil || len(rows) != 1 || rows[0].Requests != 2001 || rows[0].Refused != 2001 {
		t.Errorf("%+v, %v", rows, err)
	}
	wantClean(t, l)
}

func TestTheLatestRefusalsCanBeLookedUp(t *testing.T) {
	const ring, record = 1024, 4096 // the limits of package usage
	l := gateway(t, storePath(t))
	for i := range ring + 10 {
		l.Refuse(Refusal{RequestID: fmt.Sprint(i), Account: "k", Reason: "rate_limit_exceeded", Status: 429, Record: []byte(`{}`)})
	}
	l.Refuse(Refusal{RequestID: "large", Account: "k", Reason: "model_not_found", Status: 404, Record: make([]byte, record+1)})
	for id, there := range map[string]bool{"9": false, "10": true, fmt.Sprint(ring + 9): true, "large": false} {
		r, err := l.Request(t.Context(), "k", id)
		if there != (err == nil) || !there && !errors.Is(err, ErrUnknownRequest) {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	if _, err := l.Request(t.Context(), "other", "10"); !errors.Is(err, ErrUnknownRequest) {
		t.Errorf("another account's: %v", err)
	}
}

func TestRefusalsAreWrittenAtTheEndAndPrunedLater(t *testing.T) {
	path := storePath(t)
	l := gateway(t, path)
	l.Refuse(Refusal{RequestID: "r", Account: "k", Reason: "rate_limit_exceeded", Status: 429, At: monday})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cli := openWith(t, path, Options{Now: func() time.Time { return monday.AddDate(0, 0, 29) }, Retention: 30 * 24 * time.Hour})
	rows, err := cli.Usage(t.Context(), Filter{Account: "k"}, ByModel)
	if err != nil || len(rows) != 1 || rows[0].Refused != 1 || rows[0].Name != "" {
		t.Errorf("%+v, %v", rows, err)
	}
	count := func() (n int) {
		if err := cli.reads.QueryRowContext(t.Context(), `SELECT count(*) FROM refusal`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 1 {
		t.Errorf("%d rows before the retention ends", n)
	}
	if err := cli.do(func(b *book) error { _, err := usage.PruneRefusals(b.Book, monday.AddDate(0, 0, 1)); return err }, nil); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 0 {
		t.Errorf("%d rows after it", n)
	}
}
