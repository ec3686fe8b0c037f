package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/internal/config"
)

var (
	began    = time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	standard = rulesOf(&config.Notifications{DownFor: config.Interval(time.Minute), Quiet: 15 * time.Minute, PerHour: 30})
)

func down(p string) alerts.Alert {
	return alerts.Alert{Topic: "provider", Event: "provider:down", About: "provider/" + p, Text: p + " is down", Lasts: true}
}

func up(p string) alerts.Alert {
	return alerts.Alert{Topic: "provider", Event: "provider:up", About: "provider/" + p, Text: p + " works", Over: true}
}

func lost() alerts.Alert {
	return alerts.Alert{Topic: "payment", Event: "payment:lost", About: "payment/lost", Text: "lost"}
}

// step is an alert at a time, or only a call of due.
type step struct {
	at    time.Duration
	alert *alerts.Alert
}

// sentTexts returns the texts that a filter lets through, with their times. due is called when it has announced a message, and at the end.
func sentTexts(f *filter, r *rules, end time.Duration, steps ...step) (out []string) {
	var next time.Time
	look := func(now time.Time) {
		var ready []message
		ready, next = f.due(now, r)
		for i := range ready {
			out = append(out, fmt.Sprintf("%s %s", now.Sub(began), strings.TrimPrefix(ready[i].text("g"), "[bardo g] ")))
		}
	}
	for _, s := range append(steps, step{at: end}) {
		now := began.Add(s.at)
		for !next.IsZero() && !next.After(now) {
			look(next)
		}
		if s.alert != nil {
			s.alert.Time = now
			f.add(now, s.alert, r)
		}
		look(now)
	}
	return out
}

// TestNotificationsAreSuppressed by the rules of docs/notifications.md.
func TestNotificationsAreSuppressed(t *testing.T) {
	at := func(d time.Duration, a alerts.Alert) step { return step{d, &a} }
	const s, m = time.Second, time.Minute
	refused := down("a")
	refused.Event, refused.Text = "provider:credential_refused", "a refuses"
	broken := alerts.Alert{Topic: "ledger", Event: "ledger:unwritable", About: "ledger", Text: "broken", Lasts: true}
	for _, row := range []struct {
		about string
		steps []step
		want  []string
	}{
		{"down and back", []step{at(0, down("a")), at(2*m, up("a"))}, []string{"1m0s a is down", "2m0s a works"}},
		{"back before it is told", []step{at(0, down("a")), at(59*s, up("a"))}, nil},
		{"back, and nobody knew of it", []step{at(0, up("a"))}, nil},
		{"two providers", []step{at(0, down("a")), at(s, down("b")), at(2*m, up("b"))}, []string{"1m0s a is down", "1m1s b is down", "2m0s b works"}},
		{"it comes and goes", []step{at(0, down("a")), at(2*m, up("a")), at(3*m, down("a")), at(5*m, up("a")), at(6*m, down("a"))}, []string{"1m0s a is down", "2m0s a works", "17m0s a is down"}},
		{"what is wrong changes", []step{at(0, down("a")), at(2*m, refused)}, []string{"1m0s a is down", "3m0s a refuses"}},
		{"repeated", []step{at(0, lost()), at(s, lost()), at(2*s, lost()), at(40*m, lost())}, []string{"0s lost", "15m0s lost The same happened 1 more times since this was told last.", "40m0s lost"}},
		{"a ledger is told at once", []step{at(0, broken)}, []string{"0s broken"}},
	} {
		var f filter
		if got := sentTexts(&f, &standard, time.Hour, row.steps...); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", row.about, got)
		}
	}
}

// TestOnlyWantedTopicsAreTold, and other topics are not remembered.
func TestOnlyWantedTopicsAreTold(t *testing.T) {
	var f filter
	r := rulesOf(&config.Notifications{Topics: []string{"ledger"}, PerHour: 30})
	a := lost()
	if got := sentTexts(&f, &r, time.Hour, step{0, &a}); len(got) != 0 || len(f.subjects) != 0 {
		t.Errorf("%q", got)
	}
}

// TestNotificationsOfAnHourAreBounded: further messages are postponed, and are not sent if they are resolved by then; the ledger's are not limited.
func TestNotificationsOfAnHourAreBounded(t *testing.T) {
	var f filter
	r := rulesOf(&config.Notifications{Quiet: time.Minute, PerHour: 2})
	var steps []step
	for i, a := range []alerts.Alert{down("a"), down("b"), down("c"), down("d"), up("c"), {Topic: "ledger", Event: "ledger:unwritable", About: "ledger", Text: "broken"}} {
		steps = append(steps, step{time.Duration(i) * time.Second, &a})
	}
	got := sentTexts(&f, &r, 3*time.Hour, steps...)
	if want := []string{"0s a is down", "1s b is down", "5s broken", "1h0m1s d is down"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// TestWhatIsRememberedIsBounded, and subjects are forgotten in time.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	var f filter
	for i := range 2 * maxSubjects {
		a := down(fmt.Sprint(i))
		f.add(began, &a, &standard)
	}
	if n := len(f.subjects); n != maxSubjects {
		t.Errorf("%d are remembered", n)
	}
	f = filter{}
	a := lost()
	sentTexts(&f, &standard, time.Hour, step{0, &a})
	if len(f.subjects) != 0 {
		t.Errorf("%d are remembered for ever", len(f.subjects))
	}
}
