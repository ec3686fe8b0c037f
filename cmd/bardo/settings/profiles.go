package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/schema"
)

// ProfileSettings are the configured inference profiles.
func ProfileSettings(cfg *config.Config) profile.Settings {
	in := &cfg.Inference
	s := profile.Settings{
		Overrides: make(map[string]policy.Profile, len(in.Profiles)),
		KeyPrefix: in.Caching.PromptCacheKeyPrefix, NoMarks: !in.Caching.AutoCacheControl,
		WebSearch: in.WebSearchEnabled, SealTestaments: in.SealedTestament, AttestDreams: in.IntegrationPhaseAttestation,
		Reanneal: in.ReannealFactor,
	}
	for name, p := range in.Profiles {
		effort, _ := policy.ParseEffort(p.ReasoningEffort) // validated by the schema
		s.Overrides[name] = policy.Profile{
			Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP,
			FrequencyPenalty: p.FrequencyPenalty, PresencePenalty: p.PresencePenalty,
			Effort: effort, VisibleThinking: p.VisibleThinking, SchemaName: knownSchema(p.ResponseSchema), MaxTokens: p.MaxTokens, Stop: p.Stop,
			CacheControl: p.CacheControl, WebSearch: p.WebSearch, TEE: p.TEE, Seed: p.Seed,
		}
	}
	return s
}

// knownSchema is the name if it is that of a published schema, else "".
func knownSchema(name string) string {
	if _, ok := schema.Get(name); !ok {
		return ""
	}
	return name
}

// UnknownSchemas returns warnings about profiles whose schema is not published.
func UnknownSchemas(cfg *config.Config) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Inference.Profiles)) {
		if s := cfg.Inference.Profiles[name].ResponseSchema; s != "" && knownSchema(s) == "" {
			nearest := ": there are " + strings.Join(schema.Names(), ", ")
			if like := near.Names(s, schema.Names(), 1); len(like) > 0 {
				nearest = ", the nearest is " + like[0]
			}
			warnings = append(warnings, fmt.Sprintf("inference.profiles.%s.response_schema: no schema %q is published%s; it is ignored", name, s, nearest))
		}
	}
	return warnings
}
