package ledger

import (
	"os"
	"syscall"
)

// preallocate takes disk space for a file's first bytes, and makes it as long. Not every file system can.
func preallocate(f *os.File, size int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, size) }
