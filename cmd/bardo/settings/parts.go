package settings

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/rule"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/quota"
)

// StructuredOutputs are the rules for structured outputs.
func StructuredOutputs(cfg *config.Config) runtime.Structured {
	s := &cfg.Inference.StructuredOutputs
	return runtime.Structured{Enabled: s.Enabled, PreferTool: !s.PreferSchemaEnforcement, Validate: s.Validation, Retries: s.Retries()}
}

// Hedging configures the call of a second candidate if the first is slow.
func Hedging(cfg *config.Config) runtime.Hedging {
	h := &cfg.Routing.Hedging
	return runtime.Hedging{After: time.Duration(h.After), SharePct: h.SharePct}
}

// Endpoint is a provider's endpoint, for its adapter. Equivalent endpoints use the path and host name of the first one.
func Endpoint(p config.Provider) provider.Endpoint {
	e := provider.Endpoint{
		Provider: p.ID, Key: p.Key, Authority: string(p.ID), Dialect: chat.Dialect(p.Format),
		Betas: p.Betas, CacheControl: p.CacheControl, Characters: p.Characters, Fallbacks: p.Fallbacks, Allow: p.Allow, Responses: p.Responses, NoCompletions: p.NoCompletions,
		APIVersion: p.APIVersion, Region: p.Region,
	}
	if p.Sort != "" { // one of three words
		e.Preferences = []byte(`{"sort":"` + p.Sort + `"}`)
	}
	if len(p.Endpoints) > 0 {
		e.Authority, e.BasePath = p.Endpoints[0].Host, p.Endpoints[0].Path
	}
	return e
}

// QuotaRules are the limits of requests and tokens.
func QuotaRules(cfg *config.Config) quota.Rules {
	general, prepaid := cfg.Limits.Rates()
	return quota.Rules{
		Default:       policy.Limits{RPM: general, TokensPerHour: cfg.Limits.TokensPerHour},
		PrepaidRPM:    prepaid,
		MaxConcurrent: cfg.Limits.MaxConcurrent,
		BillOverage:   cfg.Limits.Overage == "bill",
		Share:         cfg.Limits.Share(),
		Quotas:        quotas(cfg.Limits.Quotas),
	}
}

// quotas are the configured quotas. The configuration's validation has already reported errors of their expressions; a quota with one refuses every request.
func quotas(configured []config.Quota) []quota.Quota {
	out := make([]quota.Quota, len(configured))
	for i := range configured {
		c := &configured[i]
		q := quota.Quota{Name: c.Name, Per: quota.Scope(c.Per), Window: c.Window, Limit: quota.Millionths(c.Limit)}
		var whenErr error
		if c.When != "" {
			q.When, whenErr = rule.ParseFilter(c.When)
		}
		if cost, err := rule.ParseMeasure(c.Cost); err == nil && whenErr == nil {
			q.Cost = cost
		}
		out[i] = q
	}
	return out
}

// Cheaper is the policy for requests that their budget or balance cannot pay for.
func Cheaper(cfg *config.Config) policy.Cheaper {
	c := policy.Cheaper{Free: cfg.Billing.WhenEmpty == "free", Reserve: cfg.Billing.CriticalReserve}
	for _, models := range cfg.Limits.Ladder {
		ladder := make([]policy.ModelID, len(models))
		for i, m := range models {
			ladder[i] = policy.ModelID(m)
		}
		c.Ladders = append(c.Ladders, ladder)
	}
	return c
}

// RedisTLS returns a TLS configuration that trusts the authorities in a file; nil for "": the system's.
func RedisTLS(file string) (*tls.Config, error) {
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

// TuneGC trades memory for tail latency, up to a limit, unless the operator has set GOGC and GOMEMLIMIT. The limit includes what the configuration allows for
// request bodies and stored answers: with less, the collector would run constantly. In Envoy's process the heap may grow further, since the collector competes
// with Envoy's own threads.
func TuneGC(cfg *config.Config, inEnvoy bool) {
	const baseMemory, minLimit = 64 << 20, 192 << 20
	percent := 250
	if inEnvoy {
		percent = 400
	}
	limit := max(minLimit, baseMemory+cfg.Limits.MaxInflightBodyBytes+cfg.Inference.Caching.MaxBytes)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}
