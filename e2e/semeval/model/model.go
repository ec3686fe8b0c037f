// Package model opens the embedding model that make models installs, for evaluations.
package model

import (
	"log/slog"
	"path/filepath"

	"bardo.money/gateway/internal/proctest"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/models/onnx"
)

// Open finds the model. The caller closes the host.
func Open() (*models.Host, models.Embedder, error) {
	root, err := proctest.Root()
	if err != nil {
		return nil, nil, err
	}
	m, err := manifest.BuiltIn()
	if err != nil {
		return nil, nil, err
	}
	h, err := models.NewHost(models.Options{
		Manifest: m, Dirs: manifest.Dirs{filepath.Join(root, ".tools", "models")}, Log: slog.New(slog.DiscardHandler), Meter: telemetry.New(telemetry.Build{}),
		Load: func(path string) (models.Runtime, error) {
			version, err := onnx.Load(path)
			return models.Runtime{Version: version, Open: func(path, output string) (models.Session, error) { return onnx.Open(path, output) }}, err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return h, h.Embedder(), nil
}
