// Package catalogtest provides the catalog's embedded file to tests of packages that do not import the catalog.
package catalogtest

import (
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy/catalog"
)

// Embedded returns the embedded file of models.
func Embedded() modelfile.File { return catalog.Embedded() }
