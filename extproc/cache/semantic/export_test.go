package semantic

// Tenants is the number of accounts that the index holds something of, and of those that it compares by size.
func (ix *Index) Tenants() (held, sized int) { return len(ix.tenants), ix.bySize.Len() }
