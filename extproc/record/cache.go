package record

import "bardo.money/gateway/internal/telemetry"

// CacheStatus is what the cache had for a request, in the words of X-Bardo-Cache.
type CacheStatus string

// The cache statuses.
const (
	CacheUnused    CacheStatus = "" // the request has nothing to do with the cache
	CacheMiss      CacheStatus = "miss"
	CacheHash      CacheStatus = "hash"
	CacheSemantic  CacheStatus = "semantic"  // the answer to another question that means the same
	CacheStale     CacheStatus = "stale"     // no provider answered
	CacheCoalesced CacheStatus = "coalesced" // another request's call answers it
)

// OrMiss is what a record says.
func (c CacheStatus) OrMiss() string {
	if c == CacheUnused {
		c = CacheMiss
	}
	return string(c)
}

// measure is what the metrics count; ok is false for what has nothing to do with the cache.
func (c CacheStatus) measure() (m telemetry.Cache, ok bool) {
	switch c {
	case CacheUnused:
		return 0, false
	case CacheMiss:
		return telemetry.CacheMiss, true
	case CacheHash:
		return telemetry.CacheHash, true
	case CacheSemantic:
		return telemetry.CacheSemantic, true
	case CacheStale:
		return telemetry.CacheStale, true
	case CacheCoalesced:
		return telemetry.CacheCoalesced, true
	}
	return 0, false
}
