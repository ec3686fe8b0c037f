package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/disk"
	"bardo.money/gateway/extproc/cache/redis"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// answerStores are the answers that are served again, and the questions by which they are found.
type answerStores struct {
	answers   *cache.Store
	questions *semantic.Index
	meaning   *semantic.Model // nil: this process has no model
	onDisk    *disk.File      // nil: answers are in no file
	shared    *redis.Store    // nil: no other gateway has them
}

// openAnswers makes the stores of a data path. The model is not read before a request needs it.
func (g *gateway) openAnswers(ctx context.Context, cfg *config.Config) {
	g.questions = semantic.New(0)
	o := cache.Options{MaxBytes: cfg.Inference.Caching.MaxBytes, Removed: g.questions.Remove}
	if path := cfg.Store.CacheFile(string(g.home)); path != "" {
		g.openAnswerFile(ctx, cfg, path)
	}
	if at := cfg.Store.CacheRedis(); at != nil {
		g.openShared(ctx, cfg, at)
	}
	if g.shared != nil { // not an interface that holds nil
		o.Shared = g.shared
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

// answersSecret is what stored answers are encrypted with.
func (g *gateway) answersSecret(cfg *config.Config) []byte {
	if cfg.Store.CacheKey.IsSet() {
		return []byte(cfg.Store.CacheKey.Reveal())
	}
	return g.layersSecret(cfg)()
}

// openShared opens the store that gateways share. With an error of the operator's, answers are in memory.
func (g *gateway) openShared(ctx context.Context, cfg *config.Config, at *url.URL) {
	own, err := redisTLS(cfg.Store.CacheCA)
	if err != nil {
		g.log.Error("store.cache_ca: answers are kept in memory alone", "error", err)
		return
	}
	s, err := redis.Open(ctx, redis.Options{
		URL: at, Secret: g.answersSecret(cfg), Timeout: cfg.Store.CacheTimeout, MaxBytes: cfg.Inference.Caching.MaxBytes, Log: g.log, TLS: own,
		Lost: g.metrics.AnswersUnwritten, Looked: func(r redis.Outcome) { g.metrics.SharedLookup(string(r)) },
	})
	if err != nil {
		g.log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	g.shared = s
	g.questions.Share(s)
	s.Start(g.questions)
	g.metrics.WatchShared(func() bool { return s.Problem() == nil })
}

// redisTLS trusts the authorities of a file; "" is the system's.
func redisTLS(file string) (*tls.Config, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // the default
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificates", file)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

// sharedProblem is why the store that gateways share is not used; "" if it is, or there is none.
func (a *answerStores) sharedProblem() string {
	if a.shared == nil {
		return ""
	}
	if err := a.shared.Problem(); err != nil {
		return "it does not answer, and requests go on without it: " + err.Error()
	}
	return ""
}

// openAnswerFile opens the file of stored answers. Without it, they are in memory.
func (g *gateway) openAnswerFile(ctx context.Context, cfg *config.Config, path string) {
	f, err := disk.Open(ctx, disk.Options{Path: path, Secret: g.answersSecret(cfg), Log: g.log, Lost: g.metrics.AnswersUnwritten})
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

// closeAnswers writes what waits, and closes the file, or the connections.
func (g *gateway) closeAnswers(over context.Context) {
	ctx, cancel := context.WithTimeout(over, answersTime)
	defer cancel()
	var err error
	switch {
	case g.onDisk != nil:
		err = g.onDisk.Close(ctx)
	case g.shared != nil:
		err = g.shared.Close(ctx)
	}
	if err != nil {
		g.log.Warn("stored answers were not written in time", "error", err)
	}
}
