//go:build !linux

package ledger

import (
	"errors"
	"os"
)

// preallocate takes no disk space on this system.
func preallocate(*os.File, int64) error { return errors.ErrUnsupported }
