package settings

import (
	"os"
	"path/filepath"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// LocalModels are the options of the models on this machine, and where their files may be.
func LocalModels(cfg *config.Config, h home.Dir) (models.Options, error) {
	m, err := manifest.BuiltIn()
	if err != nil {
		return models.Options{}, err
	}
	return models.Options{
		Manifest: m, Dirs: modelDirs(cfg, h), Library: cfg.Models.Runtime, Threads: cfg.Models.Threads,
		Choice: map[manifest.Kind]string{manifest.Embedding: cfg.Models.Embedding, manifest.Injection: cfg.Models.Injection, manifest.Entities: cfg.Models.Entities},
	}, nil
}

// modelDirs are the directories of models. New ones are installed in the first. All files are verified by their hashes, so the owner of a directory does not
// matter.
func modelDirs(cfg *config.Config, h home.Dir) manifest.Dirs {
	if cfg.Models.Dir != "" {
		return manifest.Dirs{cfg.Models.Dir}
	}
	dirs := manifest.Dirs{h.Path("models")}
	if self, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(self); err == nil {
			self = target
		}
		above := filepath.Dir(filepath.Dir(self))
		dirs = append(dirs, filepath.Join(above, ".tools", "models"), filepath.Join(above, "share", "bardo", "models"))
	}
	return dirs
}
