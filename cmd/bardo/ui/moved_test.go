package ui

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger"
)

// TestB07TheLiveStreamFollowsTheProjectOfItsKey: a stream shows what its key may see now, not what it could see when the stream began.
func TestB07TheLiveStreamFollowsTheProjectOfItsKey(t *testing.T) {
	l := newLab(t)
	for _, g := range []ledger.Group{{Kind: policy.OfOwner, ID: "o"}, {Kind: policy.OfProject, ID: "one", Owner: "o"}, {Kind: policy.OfProject, ID: "two", Owner: "o"}} {
		if err := l.books.CreateGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}
	mover, secret := l.key(ledger.KeyRow{Name: "mover", Tier: policy.TierPro, Project: "one"}, 0)
	before, _ := l.key(ledger.KeyRow{Name: "before", Tier: policy.TierPro, Project: "one"}, 0)
	after, _ := l.key(ledger.KeyRow{Name: "after", Tier: policy.TierPro, Project: "two"}, 0)
	b := l.loggedIn(secret)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.server.URL+"/ui/live/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	next := eventsOf(t, resp)
	until := func(name string) string {
		t.Helper()
		for {
			got, data := next()
			if got == "" {
				t.Fatalf("the stream ended before %s", name)
			}
			if got == name {
				return data
			}
		}
	}
	until("hello")
	l.feed.Publish(record.Finished{ID: "req_1", Account: before, Status: 200, At: time.Now()})
	if data := until("request"); !strings.Contains(data, "req_1") {
		t.Fatal(data)
	}
	if err := l.books.UpdateKey(t.Context(), mover, func(k *ledger.KeyRow) error { k.Project = "two"; return nil }); err != nil {
		t.Fatal(err)
	}
	until("stats")
	until("stats") // the first one may already have been sent
	l.feed.Publish(record.Finished{ID: "req_2", Account: before, Status: 200, At: time.Now()})
	l.feed.Publish(record.Finished{ID: "req_3", Account: after, Status: 200, At: time.Now()})
	if data := until("request"); !strings.Contains(data, "req_3") || !strings.Contains(data, `"key":"after"`) {
		t.Errorf("a key that has moved to another project sees %s", data)
	}
}
