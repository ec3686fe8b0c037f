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

// filter decides which alerts are sent, and when. Its rules are those of docs/notifications.md. Safe for concurrent use; times are given to it.
type filter struct {
	mu     sync.Mutex
	things map[string]*thing
	sent   []time.Time // in the last hour, the oldest first
}

// thing is what alerts are about.
type thing struct {
	alert   alerts.Alert // the last one
	due     time.Time    // when it is sent; zero: it was
	told    time.Time    // when one was sent last; zero: none was
	event   string       // of the last one that was not an end
	lasting bool         // its end is to be told
	more    int          // that were not sent since
}

// maxThings bounds what is remembered.
const maxThings = 4096

// message is an alert to send.
type message struct {
	alerts.Alert
	More int // alerts about the same since the last message about it
}

// rules are those of a configuration.
type rules struct {
	downFor, quiet time.Duration
	perHour        int
	wants          func(topic string) bool
}

func rulesOf(n *config.Notifications) rules {
	return rules{time.Duration(n.DownFor), n.Quiet, n.PerHour, n.Wants}
}

// take notes an alert. What is to be sent of it, due returns.
func (f *filter) take(now time.Time, a *alerts.Alert, r *rules) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !r.wants(a.Topic) {
		return
	}
	t := f.things[a.About]
	if a.Over {
		f.end(now, t, a)
		return
	}
	if t == nil {
		t = f.add(now, a.About, r.quiet)
	}
	switch {
	case !t.due.IsZero(): // the latest word is sent
		if !a.Lasts {
			t.more++
		}
	case t.told.IsZero() || t.event != a.Event:
		t.due = now.Add(r.delay(a))
	default:
		t.due = latest(now.Add(r.delay(a)), t.told.Add(r.quiet))
	}
	t.alert = *a
}

// delay is how long an alert waits for its end.
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

// end notes that a thing is over: that is sent if its beginning was.
func (f *filter) end(now time.Time, t *thing, a *alerts.Alert) {
	if t == nil {
		return
	}
	t.due = time.Time{}
	if t.lasting {
		t.alert, t.due = *a, now
	}
}

// add remembers a thing. Where there are too many, those that are told and not lasting are forgotten; if all are, any one.
func (f *filter) add(now time.Time, about string, quiet time.Duration) *thing {
	if f.things == nil {
		f.things = map[string]*thing{}
	}
	if len(f.things) >= maxThings {
		maps.DeleteFunc(f.things, func(_ string, t *thing) bool { return t.stale(now, quiet) })
	}
	if len(f.things) >= maxThings {
		for other := range f.things {
			delete(f.things, other)
			break
		}
	}
	t := &thing{}
	f.things[about] = t
	return t
}

func (t *thing) stale(now time.Time, quiet time.Duration) bool {
	return t.due.IsZero() && !t.lasting && now.Sub(t.told) >= quiet
}

// due returns what is to be sent now, in the order of its alerts, and when there will be more; zero: when an alert comes.
func (f *filter) due(now time.Time, r *rules) (ready []message, next time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.things, func(_ string, t *thing) bool { return t.stale(now, r.quiet) })
	waiting := slices.SortedFunc(maps.Values(f.things), func(a, b *thing) int { return a.alert.Time.Compare(b.alert.Time) })
	for _, t := range waiting {
		if !t.due.IsZero() && !t.due.After(now) && f.mayTell(now, t, r) {
			ready = append(ready, t.tell(now))
			f.sent = append(f.sent, now)
		}
		if !t.due.IsZero() && (next.IsZero() || t.due.Before(next)) {
			next = t.due
		}
	}
	return ready, next
}

// mayTell reports whether the hour has room for a message; else it is due when it has.
func (f *filter) mayTell(now time.Time, t *thing, r *rules) bool {
	for len(f.sent) > 0 && now.Sub(f.sent[0]) >= time.Hour {
		f.sent = f.sent[1:]
	}
	if len(f.sent) < r.perHour || t.alert.Topic == "ledger" {
		return true
	}
	t.due = f.sent[len(f.sent)-r.perHour].Add(time.Hour)
	return false
}

// tell is the message of a thing that is due.
func (t *thing) tell(now time.Time) message {
	m := message{t.alert, t.more}
	t.due, t.told, t.lasting, t.more = time.Time{}, now, t.alert.Lasts, 0
	if !t.alert.Over {
		t.event = t.alert.Event
	}
	return m
}

// text is a message as people read it.
func (m *message) text(gateway string) string {
	s := fmt.Sprintf("[bardo %s] %s", gateway, m.Text)
	if m.More > 0 {
		s += fmt.Sprintf(" The same happened %d more times since this was told last.", m.More)
	}
	return s
}
