package proctest_test

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"bardo.money/gateway/internal/proctest"
)

// TestStartedProgramsOutliveThreads: a program is not killed when the thread that started it ends.
func TestStartedProgramsOutliveThreads(t *testing.T) {
	t.Parallel()
	var cmds []*exec.Cmd
	ends := make(chan struct{})
	for range 8 {
		go func() { // returns while it is locked: the runtime ends its thread
			runtime.LockOSThread()
			cmd := exec.CommandContext(t.Context(), "sleep", "60")
			err := proctest.Start(cmd, syscall.SIGKILL)
			if err != nil {
				t.Error(err)
			}
			cmds = append(cmds, cmd)
			ends <- struct{}{}
		}()
		<-ends
	}
	died := make(chan string, len(cmds))
	for _, cmd := range cmds {
		if cmd.Process == nil {
			continue
		}
		go func() {
			_ = cmd.Wait() // it is killed below
			died <- cmd.ProcessState.String()
		}()
	}
	select {
	case how := <-died:
		t.Errorf("a program ended with the thread of its caller: %s", how)
	case <-time.After(300 * time.Millisecond):
	}
	for _, cmd := range cmds {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have exited already
		}
	}
}
