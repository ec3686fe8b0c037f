//go:build !linux

package run

const programFile = ""

// dropStartPages does nothing: what the kernel maps of a file is not known here.
func dropStartPages(string) {}
