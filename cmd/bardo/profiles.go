package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
	"bardo.money/gateway/policy/schema"
)

// profiles are how parts of an agent want their answers made, by the table and the operator's word.
func (g *gateway) profiles(cfg *config.Config) *profile.Profiles {
	p, warnings := profile.New(profileSettings(cfg))
	for _, w := range append(warnings, unknownSchemas(cfg)...) {
		g.log.Warn(w)
	}
	return p
}

// warnOfProfiles tells of profiles in a file that nothing will heed.
func warnOfProfiles(w io.Writer, file string, cfg *config.Config) {
	_, warnings := profile.New(profileSettings(cfg))
	for _, text := range append(warnings, unknownSchemas(cfg)...) {
		key, message, _ := strings.Cut(text, ": ")
		_, _ = fmt.Fprintln(w, config.Problem{File: file, Key: key, Message: message, Warning: true}) // nowhere to report a broken terminal to
	}
}

func profileSettings(cfg *config.Config) profile.Settings {
	in := &cfg.Inference
	s := profile.Settings{
		Overrides: make(map[string]policy.Profile, len(in.Profiles)),
		KeyPrefix: in.Caching.PromptCacheKeyPrefix, NoMarks: !in.Caching.AutoCacheControl,
		WebSearch: in.WebSearchEnabled, SealTestaments: in.SealedTestament, AttestDreams: in.IntegrationPhaseAttestation,
		Reanneal: in.ReannealFactor,
	}
	for name, p := range in.Profiles {
		effort, _ := policy.ParseEffort(p.ReasoningEffort) // checked by its schema
		s.Overrides[name] = policy.Profile{
			Temperature: p.Temperature, TopP: p.TopP, TopK: p.TopK, MinP: p.MinP,
			FrequencyPenalty: p.FrequencyPenalty, PresencePenalty: p.PresencePenalty,
			Effort: effort, VisibleThinking: p.VisibleThinking, SchemaName: knownSchema(p.ResponseSchema), MaxTokens: p.MaxTokens, Stop: p.Stop,
			CacheControl: p.CacheControl, WebSearch: p.WebSearch, TEE: p.TEE, Seed: p.Seed,
		}
	}
	return s
}

// knownSchema is the name of a published schema, "" for any other.
func knownSchema(name string) string {
	if _, ok := schema.Get(name); !ok {
		return ""
	}
	return name
}

// unknownSchemas warns of profiles whose schema nobody published.
func unknownSchemas(cfg *config.Config) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(cfg.Inference.Profiles)) {
		if s := cfg.Inference.Profiles[name].ResponseSchema; s != "" && knownSchema(s) == "" {
			warnings = append(warnings, fmt.Sprintf("inference.profiles.%s.response_schema: no schema %q is published; it is ignored", name, s))
		}
	}
	return warnings
}
