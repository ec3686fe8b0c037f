package settings

import (
	"bardo.money/gateway/extproc/governor"
	"bardo.money/gateway/extproc/layers/compress"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// Governor is the configuration of the layers' governor. Its initial values are the layers' own.
func Governor(cfg *config.Config) governor.Options {
	p := &cfg.Pipeline
	return governor.Options{
		Mode: governor.Mode(p.Governor), Freeze: p.GovernorFreeze,
		Base: policy.Knobs{CompressFrom: compress.MinBody, MaxTools: toolprune.MaxAgentTools, Similarity: cfg.Inference.Caching.Threshold},
	}
}
