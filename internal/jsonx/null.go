package jsonx

// OrNull is a JSON value, or null where there is none.
func OrNull(present bool, value string) string {
	if present {
		return value
	}
	return "null"
}
