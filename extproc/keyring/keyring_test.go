package keyring_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"bardo.money/gateway/extproc/keyring"
)

var now = time.Unix(1_000_000, 0)

func ring(n int) *keyring.Ring {
	var ids []keyring.ID
	for i := range n {
		ids = append(ids, keyring.ID(strconv.Itoa(i)))
	}
	return keyring.New(ids)
}

func take(t *testing.T, r *keyring.Ring, want int, prefer keyring.ID, tried ...int) {
	t.Helper()
	if got := r.Acquire(now, prefer, tried); got != want {
		t.Errorf("took key %d, want %d", got, want)
	}
}

func TestRequestsAreDistributed(t *testing.T) {
	r := ring(3)
	for _, want := range []int{0, 1, 2, 0, 1} {
		take(t, r, want, "")
	}
	r.Release(1)
	r.Release(1)
	take(t, r, 1, "") // it has the fewest requests in flight
}

func TestAKeyReturnsAfterItsCooldown(t *testing.T) {
	r := ring(2)
	if another := r.Cooldown(0, now, time.Minute); !another {
		t.Error("the other key does not count as awake")
	}
	take(t, r, 1, "")
	take(t, r, 1, "")
	if another := r.Cooldown(1, now, 30*time.Second); another {
		t.Error("a key is awake")
	}
	take(t, r, 1, "") // all in cooldown: the one that ends first
	if n := r.Available(now.Add(31 * time.Second)); n != 1 {
		t.Errorf("%d keys are awake after 31 s", n)
	}
	if n := r.Available(now.Add(time.Minute + 1)); n != 2 {
		t.Errorf("%d keys are awake after a minute", n)
	}
}

func TestACooldownIsBounded(t *testing.T) {
	r := ring(1)
	r.Cooldown(0, now, 24*time.Hour)
	if r.Available(now.Add(4*time.Minute)) != 0 || r.Available(now.Add(5*time.Minute+1)) != 1 {
		t.Error("a rest is not 5 minutes at most")
	}
	r = ring(1)
	r.Cooldown(0, now, 0)
	if r.Available(now) != 0 || r.Available(now.Add(time.Second)) != 1 {
		t.Error("a rest is not a second at least")
	}
}

func TestAPreferredKeyIsUsedIfAvailableAndUntried(t *testing.T) {
	r := ring(3)
	take(t, r, 2, "2")
	take(t, r, 2, "2") // although it is the busiest
	take(t, r, 0, "2", 2)
	r.Cooldown(2, now, time.Minute)
	take(t, r, 1, "2")
	take(t, r, 0, "nobody")
}

func TestTriedKeysComeLast(t *testing.T) {
	r := ring(2)
	r.Cooldown(1, now, time.Minute)
	take(t, r, 1, "", 0) // in cooldown, but not tried
	take(t, r, 0, "", 0, 1)
}

func TestAnEmptyRingHasNoKey(t *testing.T) {
	var r *keyring.Ring
	if r.Acquire(now, "", nil) != -1 || r.Cooldown(0, now, 0) || r.Available(now) != 0 || r.ID(0) != "" {
		t.Error("a ring without keys has one")
	}
	r.Release(0)
	r.Inherit(ring(1))
}

func TestCooldownsSurviveAReload(t *testing.T) {
	old := keyring.New([]keyring.ID{"a", "b"})
	old.Cooldown(1, now, time.Minute)
	r := keyring.New([]keyring.ID{"b", "c"})
	r.Inherit(old)
	take(t, r, 1, "")
	take(t, r, 1, "")
}

func TestFingerprintsAreUniqueAndRevealNothing(t *testing.T) {
	a, b := keyring.Fingerprint("sk-one"), keyring.Fingerprint("sk-two")
	if a == b || a != keyring.Fingerprint("sk-one") || len(a) != 12 {
		t.Errorf("got %q and %q", a, b)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := ring(4)
	var wait sync.WaitGroup
	for range 64 {
		wait.Go(func() {
			i := r.Acquire(now, "1", nil)
			r.Cooldown(i, now, time.Second)
			r.Release(i)
		})
	}
	wait.Wait()
	for i := range 4 { // none is in flight any more: each is taken once
		take(t, r, r.Acquire(now.Add(time.Hour), keyring.ID(strconv.Itoa(i)), nil), keyring.ID(strconv.Itoa(i)))
	}
}
