// Package attempts limits how often an address may try to log in. It does not know what is tried.
package attempts

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The number of attempts that an address may make in a burst, and the time until each further one.
const (
	Burst        = 10
	Every        = 6 * time.Second
	maxAddresses = 4096
)

// Limiter limits attempts by address, IPv6 by /64. The zero value is ready to use. Safe for concurrent use.
type Limiter struct {
	mu   sync.Mutex
	free map[netip.Prefix]time.Time // when the address has all of its attempts again
}

// Wait returns how long an address has to wait for its next attempt; 0 if it has one left.
func (l *Limiter) Wait(now time.Time, from netip.Addr) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return waits(l.full(now, network(from)), now)
}

// Take counts an attempt. If none is left it returns how long to wait, and counts nothing.
func (l *Limiter) Take(now time.Time, from netip.Addr) (wait time.Duration) {
	at := network(from)
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.full(now, at)
	if wait = waits(full, now); wait > 0 {
		return wait
	}
	l.forget(now)
	l.free[at] = full.Add(Every)
	return 0
}

// network returns the network by which attempts are counted.
func network(from netip.Addr) netip.Prefix {
	bits := 32
	if from.Is6() {
		bits = 64
	}
	at, _ := from.Prefix(bits) // the zero prefix for an unknown address: all of them share it
	return at
}

// full returns when a network has all of its attempts again.
func (l *Limiter) full(now time.Time, at netip.Prefix) time.Time {
	if l.free == nil {
		l.free = map[netip.Prefix]time.Time{}
	}
	if full := l.free[at]; full.After(now) {
		return full
	}
	return now
}

func waits(full, now time.Time) time.Duration { return max(full.Sub(now)-(Burst-1)*Every, 0) }

// forget drops addresses that have all of their attempts; if that frees no space, any address.
func (l *Limiter) forget(now time.Time) {
	if len(l.free) < maxAddresses {
		return
	}
	for at, full := range l.free {
		if full.Before(now) {
			delete(l.free, at)
		}
	}
	for at := range l.free {
		if len(l.free) < maxAddresses {
			return
		}
		delete(l.free, at)
	}
}

// Address returns the client address of a request; the zero value if it is unknown.
func Address(r *http.Request) netip.Addr {
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return at.Addr().Unmap()
	}
	return netip.Addr{}
}
