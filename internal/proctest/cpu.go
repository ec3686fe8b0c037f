package proctest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime is the processor time that f takes on its thread. Unlike the time by the clock it hardly depends on what else runs. What other goroutines of f do is not in it.
func CPUTime(t testing.TB, f func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := threadTime(t)
	f()
	return threadTime(t) - begin
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		t.Fatal(err)
	}
	return time.Duration(now.Nano())
}
