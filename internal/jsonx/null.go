package jsonx

// OrNull returns a JSON value, or null if it is absent.
func OrNull(present bool, value string) string {
	if present {
		return value
	}
	return "null"
}
