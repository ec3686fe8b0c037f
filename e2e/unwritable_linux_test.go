package e2e

import (
	"syscall"
	"testing"
	"unsafe"

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
