package auth

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bardo.money/gateway/policy"
)

// BenchmarkKeyCheck checks a key that was used before: alone, and during a flood of unknown keys. The metric "ratio" is how much slower it is then.
func BenchmarkKeyCheck(b *testing.B) {
	var alone float64
	b.Run("known", func(b *testing.B) { alone = checkKnown(b, newBench(b, policy.Principal{Name: "ada"})) })
	b.Run("known,flooded", func(b *testing.B) {
		bn := newBench(b, policy.Principal{Name: "ada"})
		sent, stop := flood(b, bn)
		started := time.Now()
		flooded := checkKnown(b, bn)
		took := time.Since(started)
		stop()
		b.ReportMetric(float64(sent.Load())/took.Seconds(), "unknown/s")
		if alone > 0 {
			b.ReportMetric(flooded/alone, "ratio")
		}
	})
}

// checkKnown verifies the bench's key b.N times, and returns the nanoseconds that one took.
func checkKnown(b *testing.B, bn *bench) float64 {
	b.Helper()
	r := Request{Header: with(bn.key)}
	if _, ok, err := bn.keys.Verify(b.Context(), r); !ok {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for b.Loop() {
		if _, ok, err := bn.keys.Verify(context.Background(), r); !ok {
			b.Fatal(err)
		}
	}
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}

// flood sends about 10,000 requests with unknown keys a second, in small bursts, until it is stopped.
func flood(b *testing.B, bn *bench) (sent *atomic.Int64, stop func()) {
	b.Helper()
	const keys, burst = 1024, 50
	unknown := make([]Request, keys)
	for i := range unknown {
		unknown[i] = Request{Header: with(newKey(b))}
	}
	sent = &atomic.Int64{}
	ctx, cancel := context.WithCancel(b.Context())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			for range burst {
				_, _, _ = bn.keys.Verify(ctx, unknown[n%keys]) // they are refused
				n++
			}
			sent.Add(burst)
		}
	})
	return sent, func() { cancel(); done.Wait() }
}
