// Package limits opens what counts callers against their limits: in this process, or in a Redis where gateways count together. What the limits mean is for
// policy/quota.
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

// Options of Open. All are required.
type Options struct {
	Config  *config.Config
	Secret  func() []byte // of all gateways that count together, where the configuration has no store.cache_key
	Spent   quota.SpentSince
	Budgets quota.BudgetSpent
	Metrics *telemetry.Metrics
	Log     *slog.Logger
}

// Limits counts callers. A nil one counts nobody and has nothing to close.
type Limits struct {
	*quota.Limiter
	store *redis.Store // nil: this process counts alone
	log   *slog.Logger
	share bool
}

// Open opens the limits. A Redis that is away is no error; one that cannot be reached as configured is.
func Open(ctx context.Context, o Options) (*Limits, error) {
	l := &Limits{log: o.Log, share: o.Config.Limits.Share() > 0}
	rules := quota.Options{Rules: settings.QuotaRules(o.Config), SpentSince: o.Spent}
	if at := o.Config.Store.LimitsRedis(); at != nil {
		own, err := settings.RedisTLS(o.Config.Store.LimitsCA)
		if err != nil {
			return nil, fmt.Errorf("store.limits_ca: %w", err)
		}
		l.store, err = redis.Open(ctx, redis.Options{URL: at, TLS: own, Secret: o.secret(), Timeout: o.Config.Store.LimitsTimeout, Log: o.Log})
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

// Checks are what /readyz?verbose shows of a Redis.
func (l *Limits) Checks() []api.ReadyDetail {
	if l == nil || l.store == nil {
		return nil
	}
	c := api.ReadyDetail{Name: "shared limits", OK: true}
	if err := l.store.Problem(); err != nil {
		c.OK, c.Detail = false, "it does not answer, and this gateway "+l.alone()+": "+err.Error()
	}
	return []api.ReadyDetail{c}
}

func (l *Limits) alone() string {
	if l.share {
		return "gives out its part of each limit"
	}
	return "refuses callers that have a limit"
}

// closeTime is how long a stop waits for what was counted to be stored.
const closeTime = time.Second

// Close stores what was counted, at most until the context is done, and ends the connections. It is for after the last request.
func (l *Limits) Close(ctx context.Context) {
	if l == nil || l.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	if err := l.Limiter.Close(ctx); err != nil {
		l.log.Warn("what callers used was not stored in time", "error", err)
	}
	_ = l.store.Close() // it never fails
}
