package mcp

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Results of calls that are not sent.
const (
	refused = "refused" // by a rule of the operator
	limited = "limited" // the key has too many calls under way
)

// slots count calls under way. The zero value has none. Safe for concurrent use.
type slots[K comparable] struct {
	mu sync.Mutex
	of map[K]int // without those that have none
}

// take counts a call, unless there are already as many as the limit; 0 is no limit.
func (s *slots[K]) take(k K, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && s.of[k] >= limit {
		return false
	}
	if s.of == nil {
		s.of = map[K]int{}
	}
	s.of[k]++
	return true
}

// give ends a call.
func (s *slots[K]) give(k K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[k]--; s.of[k] == 0 {
		delete(s.of, k)
	}
}

// admit counts a call under way at its key and its server. end must be called once if there is no error.
func (x *exchange) admit(k *call) (end func(), f *rpcError) {
	account, server := x.caller.Account, k.server.Name
	if !x.ofKeys.take(account, x.caller.MaxCalls) {
		x.Meter.MCPRequest(server, x.method, limited, 0)
		x.w.Header().Set("Retry-After", "1")
		return nil, &rpcError{
			status: http.StatusTooManyRequests, code: codeLimited,
			message: "this key has " + strconv.Itoa(x.caller.MaxCalls) + " calls under way, the most that it may have (mcp.max_concurrent): try again when one has ended",
		}
	}
	if !x.ofServers.take(server, k.server.MaxCalls) {
		x.ofKeys.give(account)
		err := failure{why: busy}
		k.measure(x.method, time.Now(), err)
		return nil, k.failed502(err)
	}
	return func() {
		x.ofServers.give(server)
		x.ofKeys.give(account)
	}, nil
}
