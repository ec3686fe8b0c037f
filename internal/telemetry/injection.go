package telemetry

// InjectionJudged counts a text that was checked for injected instructions, by its source and the verdict: clean, flagged, blocked, quarantined,
// unscored, skipped.
func (m *Metrics) InjectionJudged(source, verdict string) {
	m.injected.WithLabelValues(source, verdict).Inc()
}

// InjectionDoubted counts a second model's verdict on a text: agrees, disagrees or unscored.
func (m *Metrics) InjectionDoubted(source, verdict string) {
	m.secondVerdicts.WithLabelValues(source, verdict).Inc()
}
