package align

// PlainlyChanges is plainlyChanges.
var PlainlyChanges = plainlyChanges

// Len is how many streams are remembered.
func (m *Memory) Len() int { return m.streams.Len() }
