package ledger

import (
	"strconv"
	"sync/atomic"
	"testing"

	"bardo.money/gateway/policy"
)

// BenchmarkPairs is a reserve and a durable capture by 128 workers.
func BenchmarkPairs(b *testing.B) {
	l := gateway(b, storePath(b))
	const keys = 16
	for k := range keys {
		withKey(b, l, policy.Account(strconv.Itoa(k)), 1_000_000*usd)
	}
	record := make([]byte, 512)
	var next atomic.Int64
	b.SetParallelism(64) // times GOMAXPROCS
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n := next.Add(1)
			h, err := l.Reserve(b.Context(), policy.Account(strconv.FormatInt(n%keys, 10)), strconv.FormatInt(n, 10), 2000)
			if err != nil {
				b.Error(err)
				return
			}
			_, err = l.Capture(b.Context(), h, Charge{Amount: 1500, Provider: "openai", Model: "m", Status: "ok", Record: record})
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkCaptureAlone is a durable capture that shares its commit with nobody.
func BenchmarkCaptureAlone(b *testing.B) {
	l := gateway(b, storePath(b))
	withKey(b, l, "k", 1_000_000*usd)
	record := make([]byte, 512)
	for i := 0; b.Loop(); i++ {
		h := reserve(b, l, "k", strconv.Itoa(i), 2000)
		if _, err := l.Capture(b.Context(), h, Charge{Amount: 1500, Record: record}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReserve is what stands before a provider's call: a reserve out of the block.
func BenchmarkReserve(b *testing.B) {
	l := gateway(b, storePath(b))
	withKey(b, l, "k", 1_000_000*usd)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h, err := l.Reserve(b.Context(), "k", "r", 2000)
			if err != nil {
				b.Error(err)
				return
			}
			l.Release(h)
		}
	})
}

// BenchmarkRecord is a request of a metered key, written behind.
func BenchmarkRecord(b *testing.B) {
	l := gateway(b, storePath(b))
	record := make([]byte, 512)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := l.Record(Charge{RequestID: strconv.Itoa(i), Account: "m", Amount: 1500, Record: record}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSpentSince is the check of a daily limit.
func BenchmarkSpentSince(b *testing.B) {
	l := gateway(b, storePath(b))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.SpentSince(b.Context(), "k", l.o.Now()); err != nil {
			b.Fatal(err)
		}
	}
}
