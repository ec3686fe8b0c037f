package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy/intent"
	"bardo.money/gateway/policy/resolve"
)

// UnservedModels returns a warning for each name of a model in a configuration that no configured provider serves, with similar names, or with the provider
// that would serve it. It is a warning because providers' own lists of models may change. r resolves among the providers of cfg.
func UnservedModels(cfg *config.Config, r *resolve.Resolver) (warnings []config.Problem) {
	check := func(key, model string) {
		if intent.Auto(model) {
			return
		}
		_, err := r.Resolve(model, "")
		if f, ok := errors.AsType[*fault.Fault](err); ok {
			warnings = append(warnings, config.Problem{Key: key, Message: f.Public, Warning: true})
		}
	}
	for _, tier := range slices.Sorted(maps.Keys(cfg.Inference.Tiers)) {
		check("inference.tiers."+tier+".provider", cfg.Inference.Tiers[tier].Provider)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Limits.Ladder)) {
		for i, model := range cfg.Limits.Ladder[name] {
			check(fmt.Sprintf("limits.ladder.%s[%d]", name, i), model)
		}
	}
	for i, model := range cfg.Pipeline.SemanticOnly.Models {
		check(fmt.Sprintf("pipeline.semantic_only.models[%d]", i), model)
	}
	return warnings
}
