package chargelog

import (
	"errors"
	"os"
	"syscall"
)

// preallocate allocates disk space for a file's first bytes, and extends the file. The error is errors.ErrUnsupported if the file system cannot.
func preallocate(f *os.File, size int64) error {
	err := syscall.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// osFile is a file whose Sync leaves out metadata that is not needed to read it.
type osFile struct{ *os.File }

// Sync returns when the written data is on disk.
func (f osFile) Sync() error { return syscall.Fdatasync(int(f.Fd())) }
