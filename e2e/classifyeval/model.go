package classifyeval

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"

	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
	"bardo.money/gateway/models/onnx"
	"bardo.money/gateway/policy/classify"
	"bardo.money/gateway/policy/intent"
)

// Open returns the models that `make models` installed below a root. The caller closes them.
func Open(root string) (*models.Host, error) {
	m, err := manifest.BuiltIn()
	if err != nil {
		return nil, err
	}
	return models.NewHost(models.Options{
		Manifest: m, Dirs: manifest.Dirs{filepath.Join(root, ".tools", "models")}, Log: slog.New(slog.DiscardHandler), Meter: telemetry.New(telemetry.Build{}),
		Load: func(library string) (models.Runtime, error) {
			version, err := onnx.Load(library)
			return models.Runtime{Version: version, Open: func(path, output string) (models.Session, error) { return onnx.Open(path, output) }}, err
		},
	})
}

// embed makes the vectors of prompts, of what of them is judged.
func embed(ctx context.Context, e models.Embedder, prompts []Prompt) ([]row, error) {
	rows := make([]row, len(prompts))
	for i := range prompts {
		v, err := e.Embed(ctx, classify.Text(prompts[i].Text))
		if err != nil {
			return nil, err
		}
		rows[i] = row{prompts[i], v}
	}
	return rows, nil
}

// Prototypes are the file of prototypes, made of the tuning half by the installed model.
func Prototypes(ctx context.Context, root string) ([]byte, error) {
	h, err := Open(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = h.Close() }() // it was only read
	prompts, err := Tuning(root)
	if err != nil {
		return nil, err
	}
	rows, err := embed(ctx, h.Embedder(), prompts)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = classify.Write(&b, h.Embedder().Tag(), fit(rows))
	return b.Bytes(), err
}

// Judge returns the classifier over the installed model, as the gateway uses it. The caller closes the model.
func Judge(ctx context.Context, root string) (judge func(text string) *intent.Reading, closeModel func(), err error) {
	set, err := classify.Prototypes()
	if err != nil {
		return nil, nil, err
	}
	h, err := Open(root)
	if err != nil {
		return nil, nil, err
	}
	e := h.Embedder()
	judge = func(text string) *intent.Reading {
		text = classify.Text(text)
		if !classify.English(text) {
			return nil
		}
		v, err := e.Embed(ctx, text)
		if err != nil || e.Tag() != set.Tag {
			return nil
		}
		r, ok := set.Classify(v)
		if !ok {
			return nil
		}
		return &r
	}
	return judge, func() { _ = h.Close() }, nil // it was only read
}
