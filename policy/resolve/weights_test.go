package resolve

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

func about(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestD14WeightsSumToOne(t *testing.T) {
	last := weights{cost: -1, quality: 2, features: 2}
	for i := range 101 {
		w := weightsAt(float64(i) / 100)
		if sum := w.cost + w.quality + w.latency + w.features; !about(sum, 1) {
			t.Fatalf("at %d: %v", i, sum)
		}
		if w.cost <= last.cost || w.quality >= last.quality || w.features >= last.features {
			t.Fatalf("at %d: %+v after %+v", i, w, last)
		}
		last = w
	}
	if w := weightsAt(0); !about(w.cost, 0.25) || !about(w.quality, 0.4) || !about(w.latency, 0.15) || !about(w.features, 0.2) {
		t.Errorf("when cost does not matter: %+v", w)
	}
	if w := weightsAt(1); !about(w.cost, 0.6/1.05) || !about(w.quality, 0.2/1.05) || !about(w.latency, 0.15/1.05) || !about(w.features, 0.1/1.05) {
		t.Errorf("when nothing else matters: %+v", w)
	}
}

func TestD14EveryTermIsBetweenZeroAndOne(t *testing.T) {
	for _, row := range []struct {
		about          string
		latency, bound time.Duration
		want           float64
	}{
		{"no bound", time.Hour, 0, 1},
		{"a bound without end", time.Second, math.MaxInt64, 1},
		{"at once", time.Nanosecond, time.Second, 1},
		{"half of the time", time.Second, 2 * time.Second, 0.5},
		{"too slow", time.Minute, time.Second, 0},
		{"nobody knows", 0, time.Second, 0.5},
	} {
		if got := latencyScore(row.latency, row.bound); math.Abs(got-row.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", row.about, got, row.want)
		}
	}
	for in, want := range map[float64]float64{-1: 0, 0: 0, 0.3: 0.3, 1: 1, 7: 1, math.Inf(1): 1, math.Inf(-1): 0} {
		if got := unit(in); got != want {
			t.Errorf("%v becomes %v", in, got)
		}
	}
	if got := unit(math.NaN()); got != 0 {
		t.Errorf("no number becomes %v", got)
	}
	d := ranking{n: newNeed(&policy.Intent{}, Rules{})}
	if m := d.measure(strict); m.covered(&option{}) != 1 {
		t.Errorf("nothing wanted is covered by %v", m.covered(&option{}))
	}
}

// The batch comparison of many options agrees with checking them one by one.
func TestQuicklyIsStanding(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var count [strict + 1]int
	for range 20_000 {
		in := policy.Intent{
			Quality: policy.Quality(rnd.IntN(6)), Effort: policy.Effort(rnd.IntN(6)), PrivacyTier: policy.PrivacyTier(rnd.IntN(4)),
			Tools: rnd.IntN(2) == 0, Images: rnd.IntN(3) == 0, Schema: rnd.IntN(2) == 0, MaxLatency: time.Duration(rnd.IntN(5)) * time.Second,
			InputTokens: rnd.Int64N(200), OutputTokens: rnd.Int64N(200) - 5,
		}
		if rnd.IntN(8) == 0 {
			in.Subsystem = rulesOnly
		}
		if rnd.IntN(6) == 0 {
			in.Security = policy.SecurityPrivate
		}
		if rnd.IntN(40) == 0 {
			in.InputTokens, in.OutputTokens = math.MaxInt64-rnd.Int64N(3), math.MaxInt64-rnd.Int64N(3)
		}
		for _, f := range policy.Features() {
			if rnd.IntN(24) == 0 {
				in.Require = append(in.Require, f)
			}
		}
		n := newNeed(&in, Rules{Exhausted: []Exhausted{"", Continue, Fail, ContinueE2E}[rnd.IntN(4)]})
		c := candidate{providerOptions: &providerOptions{p: &kind.Provider{Private: rnd.IntN(2) == 0}}}
		o := option{
			has: set(rnd.Uint64()|rnd.Uint64()|rnd.Uint64()) &^ hasPrivate, quality: policy.Quality(1 + rnd.IntN(5)),
			latency: time.Duration(rnd.IntN(9)) * time.Second, context: rnd.Int64N(400), output: orUnknown(rnd.IntN(200)),
		}
		if c.p.Private {
			o.has |= hasPrivate
		}
		if rnd.IntN(4) == 0 {
			o.context = unknown
		}
		n.room = roomForAll // with less room, options are checked one by one
		slow, quick := n.fit(&c, &o), n.quickFit(&o)
		if slow != quick {
			t.Fatalf("%v, %v: %+v for %+v", slow, quick, o, in)
		}
		count[slow]++
	}
	if count[unfit] < 100 || count[relaxed] < 100 || count[strict] < 100 {
		t.Errorf("some are rare: %v", count)
	}
}
