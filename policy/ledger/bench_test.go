package ledger

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/ledger/commit"
)

// BenchmarkPairs is a reserve and a durable capture by 128 workers, at the sustained rate.
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
			h, err := reserveWithRetry(b, l, policy.Account(strconv.FormatInt(n%keys, 10)), strconv.FormatInt(n, 10))
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

// reserveWithRetry reserves, and retries while too many charges wait for the store.
func reserveWithRetry(b *testing.B, l *Ledger, of policy.Account, request string) (*Hold, error) {
	b.Helper()
	for {
		h, err := l.Reserve(b.Context(), of, request, 2000)
		if _, full := errors.AsType[*UnwritableError](err); !full || b.Context().Err() != nil {
			return h, err
		}
		select {
		case <-b.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

// benchEnv names the store that a child process of BenchmarkPairsOfTwoProcesses works on, until its input ends.
const benchEnv = "LEDGER_BENCH_STORE"

// BenchmarkPairsOfTwoProcesses is BenchmarkPairs while another process does the same on the same store.
func BenchmarkPairsOfTwoProcesses(b *testing.B) {
	path := storePath(b)
	l := gateway(b, path)
	for k := range benchKeys {
		withKey(b, l, policy.Account(strconv.Itoa(k)), 1_000_000*usd)
	}
	child := exec.CommandContext(b.Context(), os.Args[0])
	child.Env = append(os.Environ(), benchEnv+"="+path)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	out := bufio.NewScanner(stdout)
	out.Scan() // it is ready
	var own pairCount
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := own.runPair(b.Context(), l, "parent"); err != nil {
				b.Error(err)
				return
			}
		}
	})
	took := b.Elapsed().Seconds()
	if err := in.Close(); err != nil {
		b.Fatal(err)
	}
	out.Scan()
	var pairs, worst int64
	if _, err := fmt.Sscan(out.Text(), &pairs, &worst); err != nil {
		b.Fatalf("%q: %v", out.Text(), err)
	}
	if err := child.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/took, "pairs/s")
	b.ReportMetric(float64(pairs)/took, "other-pairs/s")
	b.ReportMetric(float64(own.worst.Load())/1e6, "worst-ms")
	b.ReportMetric(float64(worst)/1e6, "other-worst-ms")
}

const benchKeys = 16

// pairCount counts pairs of a reserve and a capture.
type pairCount struct{ pairs, worst atomic.Int64 }

func (c *pairCount) runPair(ctx context.Context, l *Ledger, who string) error {
	n := c.pairs.Add(1)
	began := time.Now()
	h, err := l.Reserve(ctx, policy.Account(strconv.FormatInt(n%benchKeys, 10)), who+strconv.FormatInt(n, 10), 2000)
	if err != nil {
		return err
	}
	if _, err = l.Capture(ctx, h, Charge{Amount: 1500, Provider: "openai", Model: "m", Status: "ok", Record: make([]byte, 512)}); err != nil {
		return err
	}
	for took := int64(time.Since(began)); ; {
		worst := c.worst.Load()
		if took <= worst || c.worst.CompareAndSwap(worst, took) {
			return nil
		}
	}
}

// servePairs is run by the child process.
func servePairs(path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := open(ctx, path, Options{Gateway: true})
	if err != nil {
		return err
	}
	var count pairCount
	var workers errgroup.Group
	for range 128 {
		workers.Go(func() error {
			for ctx.Err() == nil {
				if err := count.runPair(context.WithoutCancel(ctx), l, "child"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	err = errors.Join(err, workers.Wait(), l.Close())
	fmt.Println(count.pairs.Load(), count.worst.Load())
	return err
}

// BenchmarkCaptureAlone is a durable capture that is committed alone.
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

// BenchmarkApplied is the total cost of a charge: its capture, and its part of the commits that apply it.
func BenchmarkApplied(b *testing.B) {
	l := gateway(b, storePath(b))
	withKey(b, l, "k", 1_000_000*usd)
	record := make([]byte, 700)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		h := reserve(b, l, "k", strconv.Itoa(i), 2000)
		if _, err := l.Capture(b.Context(), h, Charge{Amount: 1500, Record: record}); err != nil {
			b.Fatal(err)
		}
	}
	flush(b, l)
}

// BenchmarkApply applies groups of 100 charges to a store with many requests, and measures processor time and written bytes per charge.
func BenchmarkApply(b *testing.B) {
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprint(keys, " keys"), func(b *testing.B) {
			const group, before = 100, 100_000
			l := gateway(b, storePath(b))
			for k := range keys {
				id := policy.Account(fmt.Sprint("key", k))
				withKey(b, l, id, 1_000_000*usd)
				l.Release(reserve(b, l, id, "first", 1_000_000*usd)) // all of it is in the block
			}
			n := 0
			apply := func() {
				ops := make([]*commit.Op, group)
				for i := range ops {
					ops[i] = chargeOp(l, fmt.Sprint("key", n%keys))
					n++
				}
				commitGroup(b, l, ops)
			}
			for n < before {
				apply()
			}
			cpu, written := processorTime(b), bytesWritten(b)
			b.ReportAllocs()
			for b.Loop() {
				apply()
			}
			charges := float64(b.N) * group
			b.ReportMetric(float64(processorTime(b)-cpu)/charges, "cpu-ns/charge")
			b.ReportMetric(float64(bytesWritten(b)-written)/charges, "written-B/charge")
			b.ReportMetric(float64(b.Elapsed())/charges, "ns/charge")
		})
	}
}

// chargeOp is a charge of an account whose block pays.
func chargeOp(l *Ledger, key string) *commit.Op {
	h := &Hold{account: l.account(policy.Account(key)), request: newRequestID(), amount: 1500}
	p := h.pay(&Charge{
		RequestID: h.request, Account: h.account.name, Amount: 1500, ProviderCost: 1_400_000_000, Tokens: Tokens{Input: 250, Output: 30},
		Provider: "openai", Model: "gpt-4o-mini", Status: "ok", Record: make([]byte, 700), At: time.Now(),
	}, false)
	o := l.captureOp(p)
	o.Done = p.settle
	return o
}

// newRequestID is an id like the gateway's: it begins with the time.
func newRequestID() string {
	return fmt.Sprintf("req_%08x%s", time.Now().UnixMicro()>>14, rand.Text()[:16])
}

// processorTime is the processor time of this process.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// bytesWritten is the number of bytes that this process has written to files.
func bytesWritten(b *testing.B) (n int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	var read int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", &read, &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkReserve is a reserve from the block, which precedes a provider's call.
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

// BenchmarkRecord is a request of a metered key.
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
