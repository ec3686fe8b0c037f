package chargelog

import (
	"errors"
	"os"
	"syscall"
)

// preallocate takes disk space for a file's first bytes, and makes it as long. Not every file system can.
func preallocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// osFile is a file whose sync leaves out what nobody needs to read it.
type osFile struct{ *os.File }

// Sync returns when what was written is on disk.
func (f osFile) Sync() error { return syscall.Fdatasync(int(f.Fd())) }
