// Package catalogtest has the catalog's embedded file for tests of packages that know no catalog besides.
package catalogtest

import (
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy/catalog"
)

// Embedded is the file of models that every gateway knows.
func Embedded() modelfile.File { return catalog.Embedded() }
