// Package catalogtest reads the catalog's embedded file for tests of packages that do not read configurations themselves.
package catalogtest

import (
	"sync"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy/catalog"
)

// Embedded is the file of models that every gateway knows. A test of the catalog shows that it is read without problems.
var Embedded = sync.OnceValue(func() modelfile.File {
	file, _ := config.ParseModels(catalog.EmbeddedFile())
	return file
})
