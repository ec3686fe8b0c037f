//go:build !linux

package chargelog

import (
	"errors"
	"os"
)

// preallocate takes no disk space on this system.
func preallocate(*os.File, int64) error { return errors.ErrUnsupported }

// osFile is a file.
type osFile struct{ *os.File }
