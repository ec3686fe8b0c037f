package envoy

import "syscall"

// ownGroup keeps the terminal's interrupt from Envoy, so that it can drain, and kills it when its parent dies.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
