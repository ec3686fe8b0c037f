package run

import (
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/config"
)

// answerStores are the answers that are served again, and the questions by which they are found.
type answerStores struct {
	answers   *cache.Store
	questions *semantic.Index
	meaning   *semantic.Model // nil: this process has no model
}

// openAnswers makes the stores of a data path. The model is not read before a request needs it.
func (g *gateway) openAnswers(cfg *config.Config) {
	g.questions = semantic.New(0)
	g.answers = cache.New(cache.Options{MaxBytes: cfg.Inference.Caching.MaxBytes, Removed: g.questions.Remove})
	g.metrics.WatchCache(g.answers.Size)
	g.metrics.WatchQuestions(g.questions.Size)
	if e := g.usedModels().Embedder(); e.Dims() > 0 {
		g.meaning = &semantic.Model{Embedder: e, Log: g.log}
	}
	if g.meaning == nil && cfg.Pipeline.Semantic != "off" {
		g.log.Warn("pipeline.semantic: the semantic cache is off, because this process has no embedding model", "mode", cfg.Pipeline.Semantic)
	}
}
