package cache

// Sized is the number of tenants that the store compares by size.
func (s *Store) Sized() (n int) {
	for i := range s.shards {
		n += s.shards[i].bySize.Len()
	}
	return n
}
