package record

import "bardo.money/gateway/internal/telemetry"

// CacheStatus is the cache result of a request, as in X-Bardo-Cache.
type CacheStatus string

// The cache statuses.
const (
	CacheUnused    CacheStatus = "" // the cache does not apply to the request
	CacheMiss      CacheStatus = "miss"
	CacheHash      CacheStatus = "hash"
	CacheSemantic  CacheStatus = "semantic"  // the answer to another question with the same meaning
	CacheStale     CacheStatus = "stale"     // no provider answered
	CacheCoalesced CacheStatus = "coalesced" // another request's call answers it
)

// OrMiss returns the status for a record, miss instead of "".
func (c CacheStatus) OrMiss() string {
	if c == CacheUnused {
		c = CacheMiss
	}
	return string(c)
}

// measure returns the status that the metrics count; ok is false if the cache does not apply.
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
