package quota

import (
	"testing"
	"time"
)

func TestClockSetBackRefusesForAMinuteAtMost(t *testing.T) {
	now := morning.UnixNano()
	b := bucket{}
	for range 10 {
		b, _ = b.take(now, 10)
	}
	if _, wait := b.take(now-int64(time.Hour), 10); wait <= 0 || wait > minute {
		t.Errorf("wait %v", time.Duration(wait))
	}
}

func TestWindowTurnsOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		from int64
		at   int64
		want int64
	}{
		{"the same hour", 100, 100, 7},
		{"the next hour", 100, 101, 0},
		{"a request that was overtaken at the turn", 100, 99, 7},
		{"the clock was set back", 100, 98, 0},
		{"the clock was set forward", 100, 9999, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := window{at: c.from, n: 7}
			w.roll(c.at)
			if w.n != c.want {
				t.Errorf("count %d, want %d", w.n, c.want)
			}
		})
	}
}

// In any period a bucket admits at most a full minute's requests plus those of the period, for any arrivals.
func FuzzBucketNeverExceedsItsRate(f *testing.F) {
	f.Add(uint16(100), []byte{0, 0, 0, 255, 3})
	f.Add(uint16(1), []byte{})
	f.Add(uint16(7), []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	f.Fuzz(func(t *testing.T, rate uint16, gaps []byte) {
		rpm := int(rate)%1000 + 1
		now := morning.UnixNano()
		start, passed := now, int64(0)
		b := bucket{}
		for _, gap := range gaps {
			now += int64(gap) * int64(gap) * int64(time.Millisecond)
			next, wait := b.take(now, rpm)
			if wait > 0 {
				if _, again := next.take(now+wait, rpm); again > 0 {
					t.Fatalf("refused again after the returned wait: %v", time.Duration(again))
				}
				continue
			}
			b = next
			passed++
			if most := int64(rpm) + (now-start)/(minute/int64(rpm)) + 1; passed > most {
				t.Fatalf("%d passed, want at most %d", passed, most)
			}
		}
	})
}

func TestLearningNeverForgetsACharge(t *testing.T) {
	for _, c := range []struct {
		name                   string
		known, between, stored int64 // seen here before the read, seen here during it, read
		want                   int64
	}{
		{"after a restart", 0, 0, 9, 9},
		{"all of it was seen here", 9, 0, 9, 9},
		{"the store lags behind", 9, 0, 4, 9},
		{"others spent too", 3, 0, 9, 9},
		{"a charge during the read", 0, 2, 9, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := usage{spent: window{n: c.known + c.between}}
			u.setOthers(window{n: c.known}, c.stored)
			u.setOthers(window{n: c.known}, c.stored) // a second reader
			if sum := u.spent.n + u.others; sum != c.want {
				t.Errorf("spent %d, want %d", sum, c.want)
			}
		})
	}
}
