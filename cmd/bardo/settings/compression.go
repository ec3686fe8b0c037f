package settings

import (
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// Summaries are when and how old turns of long conversations are summarised.
func Summaries(cfg *config.Compression) compress.Summaries {
	return compress.Summaries{
		Mode: compress.Summary(cfg.Summary), Trigger: int64(cfg.SummaryTrigger), MaxTokens: cfg.SummaryMaxTokens,
		MaxCost: policy.Pico(1_000_000).Times(int64(cfg.SummaryMaxUSD)), Timeout: cfg.SummaryTimeout,
	}
}
