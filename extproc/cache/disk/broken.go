package disk

import (
	"errors"

	"github.com/mattn/go-sqlite3"
)

// isBroken reports whether SQLite found a file corrupt, or not a database.
func isBroken(err error) bool {
	e, ok := errors.AsType[sqlite3.Error](err)
	return ok && (e.Code == sqlite3.ErrNotADB || e.Code == sqlite3.ErrCorrupt)
}
