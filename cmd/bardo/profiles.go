package main

import (
	"fmt"
	"io"
	"strings"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/profile"
)

// profiles are how parts of an agent want their answers made, by the table and the operator's word.
func (g *gateway) profiles(cfg *config.Config) *profile.Profiles {
	p, warnings := profile.New(profileSettings(cfg))
	for _, w := range warnings {
		g.log.Warn(w)
	}
	return p
}

// warnOfProfiles tells of profiles in a file that nothing will heed.
func warnOfProfiles(w io.Writer, file string, cfg *config.Config) {
	_, warnings := profile.New(profileSettings(cfg))
	for _, text := range warnings {
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
			Effort: effort, VisibleThinking: p.VisibleThinking, MaxTokens: p.MaxTokens, Stop: p.Stop,
			CacheControl: p.CacheControl, WebSearch: p.WebSearch, TEE: p.TEE, Seed: p.Seed,
		}
	}
	return s
}
