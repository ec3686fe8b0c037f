//go:build unix && !linux

package envoy

import "syscall"

// ownGroup keeps the terminal's interrupt from Envoy, so that it can drain.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
