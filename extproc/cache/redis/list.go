package redis

import (
	"context"
	"errors"

	redigo "github.com/gomodule/redigo/redis"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/policy"
)

// scanCount is the number of entries that are scanned, and deleted, in one step.
const scanCount = 500

// Tenants implements cache.Shared.
func (s *Store) Tenants(ctx context.Context) (names []policy.Account, err error) {
	s.drain()
	for cursor := "0"; ; {
		found, next, err := s.someTenants(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if names, cursor = append(names, found...), next; cursor == "0" {
			return names, nil
		}
	}
}

// someTenants returns some of the tenants that have entries, and the cursor of the next ones; "0" after the last one.
func (s *Store) someTenants(ctx context.Context, cursor string) (names []policy.Account, next string, err error) {
	c, err := s.conn(ctx)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = c.Close() }()
	reply, err := redigo.Values(c.Do("ZSCAN", s.prefix+"sizes", cursor, "COUNT", scanCount))
	if err != nil {
		return nil, "", err
	}
	var sizes []string // tenants, each followed by its size
	if _, err := redigo.Scan(reply, &next, &sizes); err != nil {
		return nil, "", err
	}
	for ; len(sizes) > 1; sizes = sizes[2:] {
		sealed, err := redigo.Bytes(c.Do("HGET", s.prefix+"i:"+sizes[0], "a"))
		if errors.Is(err, redigo.ErrNil) { // it has just expired, or an earlier version wrote it
			continue
		}
		if err != nil {
			return nil, "", err
		}
		if name, err := s.open(sealed, "account", sizes[0]); err == nil {
			names = append(names, policy.Account(name))
		}
	}
	return names, next, nil
}

// List implements cache.Shared.
func (s *Store) List(ctx context.Context, name policy.Account) (l cache.Listing, err error) {
	s.drain()
	tenant := s.tenant(name)
	reply, err := redigo.Values(s.run(ctx, listScript, s.prefix, tenant, cache.MaxListed))
	if err != nil {
		return l, err
	}
	var saved int64
	if reply, err = redigo.Scan(reply, &l.Epoch, &l.Count, &l.Bytes, &l.Hits, &l.Misses, &saved); err != nil {
		return l, err
	}
	l.Saved = policy.Micro(saved)
	for len(reply) > 1 {
		var value []byte
		var hits int64
		if reply, err = redigo.Scan(reply, &value, &hits); err != nil {
			return l, err
		}
		e, err := s.readHeading(tenant, value, hits)
		if err != nil {
			return l, err
		}
		l.Entries = append(l.Entries, e)
	}
	return l, nil
}

// Matching implements cache.Shared.
func (s *Store) Matching(ctx context.Context, name policy.Account, which func(*cache.Entry) bool) (n int, err error) {
	s.drain()
	return n, s.scan(ctx, name, which, func(ids []any) error {
		n += len(ids)
		return nil
	})
}

// Remove implements cache.Shared. Entries that this gateway has not yet written are deleted, too.
func (s *Store) Remove(ctx context.Context, name policy.Account, which func(*cache.Entry) bool) (int, error) {
	s.drain()
	return s.remove(ctx, name, which)
}

func (s *Store) remove(ctx context.Context, name policy.Account, which func(*cache.Entry) bool) (n int, err error) {
	drop := func(ids []any) error {
		one, err := redigo.Int(s.run(ctx, removeScript, append([]any{s.prefix, s.tenant(name), ms(indexLife)}, ids...)...))
		n += one
		return err
	}
	if err := drop(nil); err != nil { // counts the removal, which makes other gateways' private entries invalid
		return 0, err
	}
	err = s.scan(ctx, name, which, drop)
	return n, err
}

// scan calls f with the names of a tenant's entries for which the predicate is true, in batches.
func (s *Store) scan(ctx context.Context, name policy.Account, which func(*cache.Entry) bool, f func(ids []any) error) error {
	tenant := s.tenant(name)
	for cursor := "0"; ; {
		c, err := s.conn(ctx)
		if err != nil {
			return err
		}
		reply, err := redigo.Values(c.Do("HSCAN", s.prefix+"i:"+tenant, cursor, "COUNT", scanCount))
		_ = c.Close()
		if err != nil {
			return err
		}
		var fields [][]byte
		if _, err := redigo.Scan(reply, &cursor, &fields); err != nil {
			return err
		}
		if ids := s.matching(tenant, fields, which); len(ids) > 0 {
			if err := f(ids); err != nil {
				return err
			}
		}
		if cursor == "0" {
			return nil
		}
	}
}

// matching are the names of entries for which the predicate is true, and of those that cannot be read and so are of no use.
func (s *Store) matching(tenant string, fields [][]byte, which func(*cache.Entry) bool) (ids []any) {
	for ; len(fields) > 1; fields = fields[2:] {
		if len(fields[0]) == 1 { // a property of the tenant, not an entry
			continue
		}
		if e, err := s.readHeading(tenant, fields[1], 0); err != nil || which(e) {
			ids = append(ids, fields[0])
		}
	}
	return ids
}

// Flush implements cache.Shared.
func (s *Store) Flush(ctx context.Context, name policy.Account) (epoch, removed int, err error) {
	s.drain()
	for first, left := 1, 1; left > 0; first = 0 {
		reply, err := redigo.Values(s.run(ctx, flushScript, s.prefix, s.tenant(name), ms(indexLife), first))
		if err != nil {
			return 0, removed, err
		}
		var some int
		if _, err := redigo.Scan(reply, &epoch, &some, &left); err != nil {
			return 0, removed, err
		}
		removed += some
	}
	return epoch, removed, nil
}
