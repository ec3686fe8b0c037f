package settings

import (
	"fmt"
	"os"

	"bardo.money/gateway/extproc/layers/defi"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
)

// Facts are the operator's facts about tokens and protocols; nil if there are none.
func Facts(cfg *config.Config) (*defi.Facts, error) {
	path := cfg.Pipeline.DeFi.Facts
	if path == "" {
		return nil, nil //nolint:nilnil // none configured
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pipeline.defi.facts: %w", err)
	}
	f, err := defi.Parse(b)
	if err != nil {
		return nil, fmt.Errorf("pipeline.defi.facts: %s: %w", path, err)
	}
	return f, nil
}

// DeFiPlans are the plans whose requests get facts; none: all plans.
func DeFiPlans(cfg *config.Config) (plans []policy.Tier) {
	for _, p := range cfg.Pipeline.DeFi.Plans {
		plans = append(plans, policy.Tier(p))
	}
	return plans
}
