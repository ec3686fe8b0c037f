// Package answers opens and closes the stores of cached answers (in memory, in a file, or shared through Redis), and the store of vectors.
package answers

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/disk"
	"bardo.money/gateway/extproc/cache/redis"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/vectors"
	"bardo.money/gateway/policy"
)

// Options configure the stores.
type Options struct {
	Home     home.Dir
	Secret   []byte // encrypts stored answers if the configuration has no key
	Embedder models.Embedder
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
}

// Stores are the cached answers, and the index of their questions. A nil Stores is empty.
type Stores struct {
	Answers   *cache.Store
	Questions *semantic.Index
	Meaning   *semantic.Model // nil: this process has no embedding model
	Shared    *redis.Store    // nil: not shared with other gateways
	Vectors   *vectors.Store  // nil: vectors are in memory

	onDisk  *disk.File // nil: answers are not in a file
	options Options
}

// Open opens the stores of a data path. The model is loaded by the first request that needs it. If a file or a server cannot be used, that is logged, and
// answers are kept in memory.
func Open(ctx context.Context, cfg *config.Config, options Options) *Stores {
	s := &Stores{options: options}
	if cfg.Store.CacheKey.IsSet() {
		s.options.Secret = []byte(cfg.Store.CacheKey.Reveal())
	}
	s.Questions = semantic.New(0)
	o := cache.Options{MaxBytes: cfg.Inference.Caching.MaxBytes, Removed: s.Questions.Remove}
	if path := cfg.Store.CacheFile(string(s.options.Home)); path != "" {
		s.openFile(ctx, path)
	}
	if at := cfg.Store.CacheRedis(); at != nil {
		s.openShared(ctx, cfg, at)
	}
	if s.Shared != nil { // avoids an interface that holds a nil pointer
		o.Shared = s.Shared
	}
	if f := s.onDisk; f != nil {
		o.Added = f.Added
		o.Removed = func(tenant policy.Account, k cache.Key) {
			s.Questions.Remove(tenant, k)
			f.Removed(tenant, k)
		}
	}
	s.Answers = cache.New(o)
	s.load(ctx)
	s.options.Metrics.WatchCache(s.Answers.Size)
	s.options.Metrics.WatchQuestions(s.Questions.Size)
	if e := options.Embedder; e.Dims() > 0 {
		s.openVectors(ctx, cfg)
		s.Meaning = &semantic.Model{Embedder: e, Log: s.options.Log}
	}
	if s.Meaning == nil && cfg.Pipeline.Semantic != "off" {
		s.options.Log.Warn("pipeline.semantic: the semantic cache is off, because this process has no embedding model", "mode", cfg.Pipeline.Semantic)
	}
	return s
}

// openShared opens the store that gateways share. If it is misconfigured, answers are kept in memory.
func (s *Stores) openShared(ctx context.Context, cfg *config.Config, at *url.URL) {
	tlsConfig, err := settings.RedisTLS(cfg.Store.CacheCA)
	if err != nil {
		s.options.Log.Error("store.cache_ca: answers are kept in memory alone", "error", err)
		return
	}
	shared, err := redis.Open(ctx, redis.Options{
		URL: at, Secret: s.options.Secret, Timeout: cfg.Store.CacheTimeout, MaxBytes: cfg.Inference.Caching.MaxBytes, Log: s.options.Log, TLS: tlsConfig,
		Lost: s.options.Metrics.AnswersUnwritten, Looked: func(r redis.Outcome) { s.options.Metrics.SharedLookup(string(r)) },
	})
	if err != nil {
		s.options.Log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	s.Shared = shared
	s.Questions.SetShared(shared)
	shared.Start(s.Questions)
	s.options.Metrics.WatchShared(func() bool { return shared.Problem() == nil })
}

// openVectors opens the store of vectors, if configured. It connects to the database in the background.
func (s *Stores) openVectors(ctx context.Context, cfg *config.Config) {
	if !cfg.Store.Vectors.Postgres() {
		return
	}
	db, err := home.Connect(ctx, string(cfg.Store.Vectors), false)
	if err == nil {
		s.Vectors, err = vectors.Open(vectors.Options{
			DB: db, Secret: s.options.Secret, Timeout: cfg.Store.VectorsTimeout, Log: s.options.Log,
			Looked: func(result vectors.Outcome, texts int) { s.options.Metrics.VectorsLookedUp(string(result), texts) },
		})
	}
	if err != nil {
		s.options.Log.Error("store.vectors: vectors are kept in memory alone", "error", err)
		return
	}
	s.Questions.SetVectors(s.Vectors)
}

// Checks report the shared stores in /readyz?verbose. Requests are served without them.
func (s *Stores) Checks() (checks []api.ReadyDetail) {
	if s == nil {
		return nil
	}
	if s.Shared != nil {
		checks = append(checks, check("shared cache", s.Shared.Problem()))
	}
	if s.Vectors != nil {
		checks = append(checks, check("store of vectors", s.Vectors.Problem()))
	}
	return checks
}

func check(name string, problem error) api.ReadyDetail {
	c := api.ReadyDetail{Name: name, OK: problem == nil}
	if problem != nil {
		c.Detail = "it does not answer, and requests go on without it: " + problem.Error()
	}
	return c
}

// openFile opens the file of stored answers. Without it, answers are kept in memory.
func (s *Stores) openFile(ctx context.Context, path string) {
	f, err := disk.Open(ctx, disk.Options{Path: path, Secret: s.options.Secret, Log: s.options.Log, Lost: s.options.Metrics.AnswersUnwritten})
	if err != nil {
		s.options.Log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	s.onDisk = f
}

// load reads the stored answers from the file.
func (s *Stores) load(ctx context.Context) {
	if s.onDisk == nil {
		return
	}
	n, err := s.onDisk.Load(ctx, s.Answers, s.Questions)
	if err != nil {
		s.options.Log.Error("store.cache: not every stored answer could be read", "entries", n, "error", err)
		return
	}
	s.options.Log.Debug("stored answers were read", "entries", n)
}

// closeTimeout bounds how long a stop waits until stored answers are written.
const closeTimeout = time.Second

// Close writes pending answers, and closes the file or the connections.
func (s *Stores) Close(parent context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(parent, closeTimeout)
	defer cancel()
	var err error
	switch {
	case s.onDisk != nil:
		err = s.onDisk.Close(ctx)
	case s.Shared != nil:
		err = s.Shared.Close(ctx)
	}
	if err != nil {
		s.options.Log.Warn("stored answers were not written in time", "error", err)
	}
	if s.Vectors == nil {
		return
	}
	if err := s.Vectors.Close(ctx); err != nil {
		s.options.Log.Warn("vectors were not written in time", "error", err)
	}
}
