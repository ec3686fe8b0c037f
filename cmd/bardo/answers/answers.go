// Package answers opens the stores of answers that the running gateway serves again, and closes them: in memory, in a file, or shared through Redis; and that of vectors.
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

// Options are what the stores are opened with.
type Options struct {
	Home     home.Dir
	Secret   []byte // that stored answers are encrypted with where the configuration has no key of its own
	Embedder models.Embedder
	Metrics  *telemetry.Metrics
	Log      *slog.Logger
}

// Stores are the answers that are served again, and the questions by which they are found. The nil Stores are those of a process that serves none.
type Stores struct {
	Answers   *cache.Store
	Questions *semantic.Index
	Meaning   *semantic.Model // nil: this process has no model
	Shared    *redis.Store    // nil: no other gateway has them
	Vectors   *vectors.Store  // nil: they are in memory

	onDisk  *disk.File // nil: answers are in no file
	options Options
}

// Open makes the stores of a data path. The model is not read before a request needs it. A file or a server that cannot be used is logged, and answers
// are kept in memory.
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
	if s.Shared != nil { // not an interface that holds nil
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

// openShared opens the store that gateways share. With an error of the operator's, answers are in memory.
func (s *Stores) openShared(ctx context.Context, cfg *config.Config, at *url.URL) {
	own, err := settings.RedisTLS(cfg.Store.CacheCA)
	if err != nil {
		s.options.Log.Error("store.cache_ca: answers are kept in memory alone", "error", err)
		return
	}
	shared, err := redis.Open(ctx, redis.Options{
		URL: at, Secret: s.options.Secret, Timeout: cfg.Store.CacheTimeout, MaxBytes: cfg.Inference.Caching.MaxBytes, Log: s.options.Log, TLS: own,
		Lost: s.options.Metrics.AnswersUnwritten, Looked: func(r redis.Outcome) { s.options.Metrics.SharedLookup(string(r)) },
	})
	if err != nil {
		s.options.Log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	s.Shared = shared
	s.Questions.Share(shared)
	shared.Start(s.Questions)
	s.options.Metrics.WatchShared(func() bool { return shared.Problem() == nil })
}

// openVectors opens the store of vectors, if there is one. The database is connected to in the background.
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
	s.Questions.Keep(s.Vectors)
}

// Checks are what /readyz?verbose shows of stores that gateways share. Requests are served without them.
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

// openFile opens the file of stored answers. Without it, they are in memory.
func (s *Stores) openFile(ctx context.Context, path string) {
	f, err := disk.Open(ctx, disk.Options{Path: path, Secret: s.options.Secret, Log: s.options.Log, Lost: s.options.Metrics.AnswersUnwritten})
	if err != nil {
		s.options.Log.Error("store.cache: answers are kept in memory alone", "error", err)
		return
	}
	s.onDisk = f
}

// load brings back what the file has.
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

// closeTime is how long a stop waits for stored answers to be written.
const closeTime = time.Second

// Close writes what waits, and closes the file, or the connections.
func (s *Stores) Close(over context.Context) {
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(over, closeTime)
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
