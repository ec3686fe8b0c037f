package attempts

import (
	"net/http"
	"net/netip"
	"testing"
	"time"
)

func TestAddressesThatAreRememberedAreBounded(t *testing.T) {
	var lim Limiter
	now := time.Now()
	for i := range 3 * maxAddresses {
		at := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if wait := lim.Take(now, at); wait > 0 {
			t.Fatalf("address %d waits %s", i, wait)
		}
		if len(lim.free) > maxAddresses {
			t.Fatalf("%d addresses", len(lim.free))
		}
	}
	if wait := lim.Take(now, netip.Addr{}); wait > 0 {
		t.Error("an unknown address waits")
	}
	near, same := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	for range Burst {
		lim.Take(now, near)
	}
	if lim.Take(now, same) == 0 {
		t.Error("an address of the same network is another one")
	}
}

// TestAnAddressWaitsForItsNextAttempt: Wait does not count as an attempt.
func TestAnAddressWaitsForItsNextAttempt(t *testing.T) {
	var lim Limiter
	now, at := time.Now(), netip.MustParseAddr("192.0.2.1")
	for i := range Burst {
		if wait := lim.Wait(now, at); wait != 0 {
			t.Fatalf("before attempt %d: %s", i, wait)
		}
		lim.Take(now, at)
	}
	if wait := lim.Wait(now, at); wait != Every {
		t.Errorf("it waits %s", wait)
	}
	if wait := lim.Take(now, at); wait != Every {
		t.Errorf("it waits %s", wait)
	}
	if wait := lim.Wait(now.Add(Every), at); wait != 0 {
		t.Errorf("later it waits %s", wait)
	}
	if wait := lim.Wait(now, netip.MustParseAddr("192.0.2.2")); wait != 0 {
		t.Errorf("another address waits %s", wait)
	}
}

func TestAddress(t *testing.T) {
	for from, want := range map[string]string{"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::1", "": "invalid IP", "@": "invalid IP"} {
		if got := Address(&http.Request{RemoteAddr: from}).String(); got != want {
			t.Errorf("%q: %s, want %s", from, got, want)
		}
	}
}
