//go:build !linux

package run

// dropStartPages does nothing: what the kernel maps of a file is not known here.
func dropStartPages() {}
