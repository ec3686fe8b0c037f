package telemetry

// PromptsLogged counts requests of the prompt log by result: written, full, unmasked, failed.
func (m *Metrics) PromptsLogged(result string, n int) {
	m.prompts.WithLabelValues(result).Add(float64(n))
}
