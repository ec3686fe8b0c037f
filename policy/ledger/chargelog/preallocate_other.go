//go:build !linux

package chargelog

import (
	"errors"
	"os"
)

// preallocate is not supported on this system.
func preallocate(*os.File, int64) error { return errors.ErrUnsupported }

// osFile is a file.
type osFile struct{ *os.File }
