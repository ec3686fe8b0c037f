package proctest

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter starts programs on one thread, which lives as long as this process: the kernel sends a child its Pdeathsig when the thread that forked it
// ends, and the Go runtime ends the thread of a goroutine that returns while it is locked to it.
var starter = sync.OnceValue(func() chan func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// Start starts a program in its own process group, which is sent the signal when this process ends, and only then. Other settings in cmd.SysProcAttr
// are kept. The caller waits for it as for any other.
func Start(cmd *exec.Cmd, signal syscall.Signal) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, signal
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
