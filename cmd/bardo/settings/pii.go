package settings

import (
	"context"
	"maps"
	"slices"
	"strings"

	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/internal/config"
)

// PersonalData is what looks for personal data and secrets. Patterns that cannot be used make it fail for every text, so that nothing is sent unmasked; the
// configuration's own check reports them before.
func PersonalData(cfg *config.PII) *pii.Memo {
	types := pii.Default
	if len(cfg.Types) > 0 {
		types = []pii.Type{pii.PrivateKey, pii.SeedPhrase}
		for _, t := range cfg.Types {
			types = append(types, pii.Type(strings.ToUpper(t)))
		}
	}
	detectors := []pii.Detector{pii.Detectors{Types: types, Regions: cfg.PhoneRegions}}
	if len(cfg.Patterns) > 0 {
		var patterns []pii.Pattern
		for _, name := range slices.Sorted(maps.Keys(cfg.Patterns)) {
			p := cfg.Patterns[name]
			patterns = append(patterns, pii.Pattern{Name: name, Regexp: p.Regexp, Examples: p.Examples, Not: p.Not})
		}
		own, err := pii.NewPatterns(patterns)
		if err != nil {
			detectors = append(detectors, broken{err})
		} else {
			detectors = append(detectors, own)
		}
	}
	return pii.NewMemo(pii.NewScanner(detectors...))
}

// broken is a detector that cannot be used.
type broken struct{ err error }

// Find implements pii.Detector.
func (b broken) Find(context.Context, string, []pii.Span) ([]pii.Span, error) { return nil, b.err }
