package injectioneval

import (
	"log/slog"

	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/models/onnx"
)

// OpenModels finds the local models in a directory. The caller closes them.
func OpenModels(dir string) (*models.Host, error) {
	m, err := manifest.BuiltIn()
	if err != nil {
		return nil, err
	}
	load := func(path string) (models.Runtime, error) {
		version, err := onnx.Load(path)
		return models.Runtime{Version: version, Open: func(path, output string) (models.Session, error) { return onnx.Open(path, output) }}, err
	}
	return models.NewHost(models.Options{
		Manifest: m, Dirs: manifest.Dirs{dir}, Load: load, Log: slog.New(slog.DiscardHandler), Meter: telemetry.New(telemetry.Build{}),
	})
}
