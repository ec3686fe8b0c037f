package e2e

import (
	"net/http"
	"syscall"
	"testing"
	"unsafe"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// diskFull is a disk that takes nothing more: the process with the ledger may not write beyond the first byte of any file.
var diskFull = storeFault{"the disk is full", fillDisk, "full"}

func fillDisk(t *testing.T, g *gateway.Gateway) (end func()) {
	t.Helper()
	pid := dataPathOf(t, g)
	before := limitFiles(t, pid, 0)
	return func() { limitFiles(t, pid, before) }
}

// limitFiles sets the size that a process may write files to, and returns what it was.
func limitFiles(t *testing.T, pid int, size uint64) (before uint64) {
	t.Helper()
	const fileSize = 1 // RLIMIT_FSIZE
	var old syscall.Rlimit
	prlimit := func(set, get *syscall.Rlimit) {
		_, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), fileSize, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
		if e != 0 {
			t.Fatal(e)
		}
	}
	prlimit(nil, &old)
	prlimit(&syscall.Rlimit{Cur: size, Max: old.Max}, nil)
	return old.Cur
}

// TestD82AFullDiskGivesNothingAway: the disk is full, so that not even the charges that wait can be kept on it.
func TestD82AFullDiskGivesNothingAway(t *testing.T) {
	t.Parallel()
	testUnwritable(t, diskFull)
}

// TestD82WhatCostsNothingIsServedWithoutTheLedger: while nobody can be charged, a free candidate answers; the paid ones behind it are not
// tried, nor is a paid model asked to verify a free answer.
func TestD82WhatCostsNothingIsServedWithoutTheLedger(t *testing.T) {
	t.Parallel()
	free, paid := fake.Start(t, fake.Config{Dialect: fake.Anthropic, Name: "free"}), fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "paid"})
	const price = "{input: 3, output: 4}"
	g := gateway.Run(t, gateway.Options{Config: inOrder, Providers: []gateway.Provider{
		{ID: "free", Fake: free, Format: "anthropic", Models: []gateway.Model{{ID: "claude-opus-4-6", Price: "{input: 0, output: 0, cached_input: 0, cache_write: 0, cache_write_1h: 0}"}, {ID: "both", Price: "{input: 0, output: 0}"}}},
		{ID: "paid", Fake: paid, Models: []gateway.Model{{ID: "gpt-4.1", Price: price}, {ID: "both", Price: price}}},
	}})
	u := &unwritable{g: g, p: paid}
	diskFull.begin(t, g)
	expensive := ask{dialect: fake.OpenAI, model: "gpt-4.1"}
	if got := g.Do(t, expensive.call()); got.Status != http.StatusOK { // its charge waits
		t.Fatalf("%d %s", got.Status, got.Body)
	}
	eventually(t, "/readyz fails", func() bool { return u.ready(t, g.URL, diskFull.reason) == http.StatusServiceUnavailable })
	paid.Forget()

	mustFail(t, expensive, g.Do(t, expensive.call()), http.StatusServiceUnavailable, "gateway_unavailable")
	for _, stream := range []bool{false, true} {
		got := g.Do(t, ask{dialect: fake.OpenAI, model: "claude-opus-4-6", stream: stream}.call())
		if got.Status != http.StatusOK || got.Header.Get("X-Bardo-Provider") != "free" {
			t.Errorf("what costs nothing: %d %s", got.Status, got.Body)
		}
	}
	free.Forget()
	verified := g.Do(t, shaper("openai").call("claude-opus-4-6", false, "May it?", "", "X-Bardo-Verify: true"))
	mustFail(t, expensive, verified, http.StatusServiceUnavailable, "gateway_unavailable")
	if n := len(free.Generations()); n != 0 {
		t.Errorf("%d calls for an answer that nobody can verify", n)
	}
	free.Behave(fake.Behaviour{Status: http.StatusInternalServerError})
	if got := g.Do(t, ask{dialect: fake.OpenAI, model: "both"}.call()); got.Status < http.StatusInternalServerError {
		t.Errorf("a free provider that fails: %d %s", got.Status, got.Body)
	}
	if n := len(paid.Generations()); n != 0 {
		t.Errorf("%d calls of a provider that nobody can be charged for", n)
	}
}
