package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Notifications count notifications to operators. They exist only in a process that sends, like Exports.
type Notifications struct{ sent *prometheus.CounterVec }

// Notifications returns the counters of notifications, created at the first call.
func (m *Metrics) Notifications() *Notifications {
	m.notificationsOnce.Do(func() {
		m.notifications = &Notifications{m.counters("bardo_notifications_total", "Notifications of operators that were sent, could not be, or were dropped.", "receiver", "result")}
	})
	return m.notifications
}

// Count counts a notification: sent, failed or dropped.
func (n *Notifications) Count(receiver, result string) {
	n.sent.WithLabelValues(receiver, result).Inc()
}
