package notify

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/internal/config"
)

// filter decides which alerts are sent, and when, by the rules of docs/notifications.md. Time is a parameter of its methods. Safe for concurrent use.
type filter struct {
	mu       sync.Mutex
	subjects map[string]*subject
	sent     []time.Time // in the last hour, oldest first
}

// subject is the state of what alerts are about.
type subject struct {
	alert      alerts.Alert // the latest
	due        time.Time    // when it is to be sent; zero: it was sent
	notified   time.Time    // when an alert was last sent; zero: never
	event      string       // of the last sent alert that was not a resolution
	resolvable bool         // its resolution is to be sent
	more       int          // alerts suppressed since the last one sent
}

// maxSubjects bounds the subjects that are remembered.
const maxSubjects = 4096

// message is an alert to send.
type message struct {
	alerts.Alert
	More int // suppressed alerts about the same subject since the last message
}

// rules are the rules of a configuration.
type rules struct {
	downFor, quiet time.Duration
	perHour        int
	wants          func(topic string) bool
}

func rulesOf(n *config.Notifications) rules {
	return rules{time.Duration(n.DownFor), n.Quiet, n.PerHour, n.Sends}
}

// add adds an alert. due returns it when it is to be sent.
func (f *filter) add(now time.Time, a *alerts.Alert, r *rules) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !r.wants(a.Topic) {
		return
	}
	t := f.subjects[a.About]
	if a.Over {
		f.resolve(now, t, a)
		return
	}
	if t == nil {
		t = f.remember(now, a.About, r.quiet)
	}
	switch {
	case !t.due.IsZero(): // only the latest is sent
		if !a.Lasts {
			t.more++
		}
	case t.notified.IsZero() || t.event != a.Event:
		t.due = now.Add(r.delay(a))
	default:
		t.due = latest(now.Add(r.delay(a)), t.notified.Add(r.quiet))
	}
	t.alert = *a
}

// delay is how long an alert is held back, in case it is resolved.
func (r *rules) delay(a *alerts.Alert) time.Duration {
	if a.Topic == "provider" && a.Lasts {
		return r.downFor
	}
	return 0
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// resolve handles the end of a problem: it is sent if the problem was.
func (f *filter) resolve(now time.Time, t *subject, a *alerts.Alert) {
	if t == nil {
		return
	}
	t.due = time.Time{}
	if t.resolvable {
		t.alert, t.due = *a, now
	}
}

// remember adds a subject. If there are too many, those that are sent and not resolvable are forgotten; if none is, an arbitrary one.
func (f *filter) remember(now time.Time, about string, quiet time.Duration) *subject {
	if f.subjects == nil {
		f.subjects = map[string]*subject{}
	}
	if len(f.subjects) >= maxSubjects {
		maps.DeleteFunc(f.subjects, func(_ string, t *subject) bool { return t.stale(now, quiet) })
	}
	if len(f.subjects) >= maxSubjects {
		for other := range f.subjects {
			delete(f.subjects, other)
			break
		}
	}
	t := &subject{}
	f.subjects[about] = t
	return t
}

func (t *subject) stale(now time.Time, quiet time.Duration) bool {
	return t.due.IsZero() && !t.resolvable && now.Sub(t.notified) >= quiet
}

// due returns the messages to send now, ordered by the time of their alerts, and when the next is due; zero: none is.
func (f *filter) due(now time.Time, r *rules) (ready []message, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.subjects, func(_ string, t *subject) bool { return t.stale(now, r.quiet) })
	waiting := slices.SortedFunc(maps.Values(f.subjects), func(a, b *subject) int { return a.alert.Time.Compare(b.alert.Time) })
	for _, t := range waiting {
		if !t.due.IsZero() && !t.due.After(now) && f.allowed(now, t, r) {
			ready = append(ready, t.message(now))
			f.sent = append(f.sent, now)
		}
		if !t.due.IsZero() && (next.IsZero() || t.due.Before(next)) {
			next = t.due
		}
	}
	return ready, next
}

// allowed reports whether the hourly limit allows a message; if not, the message is postponed until it does.
func (f *filter) allowed(now time.Time, t *subject, r *rules) bool {
	for len(f.sent) > 0 && now.Sub(f.sent[0]) >= time.Hour {
		f.sent = f.sent[1:]
	}
	if len(f.sent) < r.perHour || t.alert.Topic == "ledger" {
		return true
	}
	t.due = f.sent[len(f.sent)-r.perHour].Add(time.Hour)
	return false
}

// message returns the message of a subject that is due, and marks it as sent.
func (t *subject) message(now time.Time) message {
	m := message{t.alert, t.more}
	t.due, t.notified, t.resolvable, t.more = time.Time{}, now, t.alert.Lasts, 0
	if !t.alert.Over {
		t.event = t.alert.Event
	}
	return m
}

// text is the message's text for people.
func (m *message) text(gateway string) string {
	s := fmt.Sprintf("[bardo %s] %s", gateway, m.Text)
	if m.More > 0 {
		s += fmt.Sprintf(" The same happened %d more times since this was told last.", m.More)
	}
	return s
}
