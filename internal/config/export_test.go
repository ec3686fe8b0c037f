package config

// Layout is layout, for tests from outside.
func Layout(data []byte) (line int, message string, ok bool) {
	line, message, _, ok = layout(data)
	return line, message, ok
}
