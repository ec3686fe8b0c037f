package telemetry

// InjectionJudged counts a text that was judged for instructions, by its source and the verdict: clean, flagged, blocked, quarantined, unscored, skipped.
func (m *Metrics) InjectionJudged(source, verdict string) {
	m.injected.WithLabelValues(source, verdict).Inc()
}
