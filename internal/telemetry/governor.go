package telemetry

import "strconv"

// KnobChanged counts a setting of a layer that the governor changed, or would change if it were on.
func (m *Metrics) KnobChanged(knob string, applied bool) {
	m.knobs.WithLabelValues(knob, strconv.FormatBool(applied)).Inc()
}
