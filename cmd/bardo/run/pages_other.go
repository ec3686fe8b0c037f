//go:build !linux

package run

const programFile = ""

// dropStartPages does nothing on this system.
func dropStartPages(string) {}
