package envoy

import "syscall"

// ownGroup keeps the terminal's interrupt from Envoy, so that it can drain, and ends it with its parent.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
