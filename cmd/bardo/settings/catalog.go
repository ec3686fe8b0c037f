package settings

import (
	"fmt"
	"os"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy/catalog"
)

// Catalog is the embedded catalog, overridden by the operator's file.
func Catalog(cfg *config.Config) (*catalog.Catalog, error) {
	files := []modelfile.File{catalog.Embedded()}
	if path := cfg.Models.Catalog; path != "" {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("models.catalog: %w", err)
		}
		file, problems := config.ParseModels(path, b)
		if config.Failed(problems) {
			return nil, fmt.Errorf("models.catalog: %w", problems[0])
		}
		files = append(files, file)
	}
	return catalog.New(files...).WithKinds(Kinds...), nil
}
