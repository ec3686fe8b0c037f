// Package limits opens the counters of callers' limits: in this process, or in a Redis that gateways share. Package policy/quota defines what the limits mean.
package limits

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/extproc/api"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/policy/quota"
	"bardo.money/gateway/policy/quota/redis"
)

// Options configure Open. All are required.
type Options struct {
	Config  *config.Config
	Secret  func() []byte // shared by all gateways that use the Redis, if the configuration has no store.cache_key
	Spent   quota.SpentSince
	Budgets quota.BudgetSpent
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Limits counts callers' use. A nil Limits counts nothing.
type Limits struct {
	*quota.Limiter
	store *redis.Store // nil: this process counts alone
	log   *slog.Logger
	share bool
}

// Open opens the limits. It is no error if Redis does not answer; a wrong configuration is.
func Open(ctx context.Context, o Options) (*Limits, error) {
	l := &Limits{log: o.Log, share: o.Config.Limits.Share() > 0}
	rules := quota.Options{Rules: settings.QuotaRules(o.Config), SpentSince: o.Spent}
	if at := o.Config.Store.LimitsRedis(); at != nil {
		tlsConfig, err := settings.RedisTLS(o.Config.Store.LimitsCA)
		if err != nil {
			return nil, fmt.Errorf("store.limits_ca: %w", err)
		}
		l.store, err = redis.Open(ctx, redis.Options{URL: at, TLS: tlsConfig, Secret: o.secret(), Timeout: o.Config.Store.LimitsTimeout, Log: o.Log})
		if err != nil {
			return nil, fmt.Errorf("store.limits: %w", err)
		}
		rules.Budgets, rules.Lifetime = o.Budgets, o.Config.Store.LimitsLease
		rules.Store, rules.Decided = l.store, func(by quota.Decider) { o.Metrics.LimitDecided(string(by)) }
		o.Metrics.WatchLimits(func() bool { return l.store.Problem() == nil })
	}
	l.Limiter = quota.New(rules)
	return l, nil
}

func (o *Options) secret() []byte {
	if key := o.Config.Store.CacheKey; key.IsSet() {
		return []byte(key.Reveal())
	}
	return o.Secret()
}

// Checks report the shared Redis in /readyz?verbose.
func (l *Limits) Checks() []api.ReadyDetail {
	if l == nil || l.store == nil {
		return nil
	}
	c := api.ReadyDetail{Name: "shared limits", OK: true}
	if err := l.store.Problem(); err != nil {
		c.OK, c.Detail = false, "it does not answer, and this gateway "+l.fallback()+": "+err.Error()
	}
	return []api.ReadyDetail{c}
}

func (l *Limits) fallback() string {
	if l.share {
		return "gives out its part of each limit"
	}
	return "refuses callers that have a limit"
}

// closeTimeout bounds how long a stop waits until counts are stored.
const closeTimeout = time.Second

// Close stores pending counts until ctx is done, and closes the connections. It is called after the last request.
func (l *Limits) Close(ctx context.Context) {
	if l == nil || l.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := l.Limiter.Close(ctx); err != nil {
		l.log.Warn("what callers used was not stored in time", "error", err)
	}
	_ = l.store.Close() // never fails
}
