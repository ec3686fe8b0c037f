package spend

// Len is the number of budgets that are counted.
func (b *Book) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counters.Len()
}
