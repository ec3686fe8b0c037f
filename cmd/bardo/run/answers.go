package run

import (
	"context"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/disk"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// answerStores are the answers that are served again, and the questions by which they are found.
type answerStores struct {
	answers   *cache.Store
	questions *semantic.Index
	meaning   *semantic.Model // nil: this process has no model
	onDisk    *disk.File      // nil: answers are in memory alone
}

// openAnswers makes the stores of a data path. The model is not read before a request needs it.
func (g *gateway) openAnswers(ctx context.Context, cfg *config.Config) {
	g.questions = semantic.New(0)
	o := cache.Options{MaxBytes: cfg.Inference.Caching.MaxBytes, Removed: g.questions.Remove}
	if path := cfg.Store.CacheFile(string(g.home)); path != "" {
		g.openAnswerFile(ctx, cfg, path)
	}
	if f := g.onDisk; f != nil {
		o.Added = f.Added
		o.Removed = func(tenant policy.Account, k cache.Key) {
			g.questions.Remove(tenant, k)
			f.Removed(tenant, k)
		}
	}
	g.answers = cache.New(o)
	g.loadAnswers(ctx)
	g.metrics.WatchCache(g.answers.Size)
	g.metrics.WatchQuestions(g.questions.Size)
	if e := g.usedModels().Embedder(); e.Dims() > 0 {
		g.meaning = &semantic.Model{Embedder: e, Log: g.log}
	}
	if g.meaning == nil && cfg.Pipeline.Semantic != "off" {
		g.log.Warn("pipeline.semantic: the semantic cache is off, because this process has no embedding model", "mode", cfg.Pipeline.Semantic)
	}
}

// openAnswerFile opens the file of stored answers. Without it, they are in memory.
func (g *gateway) openAnswerFile(ctx context.Context, cfg *config.Config, path string) {
	secret := []byte(cfg.Store.CacheKey.Reveal())
	if !cfg.Store.CacheKey.IsSet() {
		secret = g.layersSecret(cfg)()
	}
	f, err := disk.Open(ctx, disk.Options{Path: path, Secret: secret, Log: g.log, Lost: g.metrics.AnswersUnwritten})
	if err != nil {
		g.log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	g.onDisk = f
}

// loadAnswers brings back what the file has.
func (g *gateway) loadAnswers(ctx context.Context) {
	if g.onDisk == nil {
		return
	}
	n, err := g.onDisk.Load(ctx, g.answers, g.questions)
	if err != nil {
		g.log.Error("store.cache: not every stored answer could be read", "entries", n, "error", err)
		return
	}
	g.log.Debug("stored answers were read", "entries", n)
}

// answersTime is how long a stop waits for stored answers to be written.
const answersTime = time.Second

// closeAnswers writes what waits, and closes the file.
func (g *gateway) closeAnswers(over context.Context) {
	if g.onDisk == nil {
		return
	}
	ctx, cancel := context.WithTimeout(over, answersTime)
	defer cancel()
	if err := g.onDisk.Close(ctx); err != nil {
		g.log.Warn("stored answers were not written in time", "error", err)
	}
}
