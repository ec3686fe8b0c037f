package ledger

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestRequestsAreListedLatestFirst(t *testing.T) {
	l, err := open(t.Context(), t.TempDir()+"/l.db", Options{Gateway: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	start := time.Now().Add(-time.Minute).Truncate(time.Microsecond)
	for i := range 5 {
		c := Charge{RequestID: fmt.Sprint("r", i), At: start.Add(time.Duration(i) * time.Second), Provider: "p", Model: "m", Status: "ok"}
		if i%2 == 1 {
			c.Status, c.Record = "failed", fmt.Appendf(nil, `{"http_status":50%d,"attempt_log":[{"provider":"q"}]}`, i)
		}
		if err := l.do(func(b *book) error { _, err := b.record(&c); return err }, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		about string
		f     RequestFilter
		want  []string
	}{
		{"all", RequestFilter{}, []string{"r4", "r3", "r2", "r1", "r0"}},
		{"at most one", RequestFilter{Limit: 1}, []string{"r4"}},
		{"at most two", RequestFilter{Limit: 2}, []string{"r4", "r3"}},
		{"by how they ended", RequestFilter{Status: "failed"}, []string{"r3", "r1"}},
		{"by status", RequestFilter{Status: "503"}, []string{"r3"}},
		{"by class", RequestFilter{Status: "5xx"}, []string{"r3", "r1"}},
		{"by an invalid class", RequestFilter{Status: "zxx"}, nil},
		{"by an attempted provider", RequestFilter{Provider: "q", Limit: 1}, []string{"r3"}},
		{"by the provider that answered", RequestFilter{Provider: "p", Limit: 3}, []string{"r4", "r3", "r2"}},
		{"of a period", RequestFilter{Since: start.Add(time.Second), Until: start.Add(2 * time.Second)}, []string{"r2", "r1"}},
		{"of a key without requests", RequestFilter{Account: "nobody"}, nil},
	} {
		found, err := l.Requests(t.Context(), row.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range found {
			got = append(got, r.RequestID)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.about, got, row.want)
		}
	}
}
