package align

// PlainlyChanges is plainlyChanges.
var PlainlyChanges = plainlyChanges

// Len is the number of stored streams.
func (m *Memory) Len() int { return m.streams.Len() }
