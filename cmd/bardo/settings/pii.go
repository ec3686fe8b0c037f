package settings

import (
	"context"
	"maps"
	"slices"
	"strings"

	personal "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/occasion"
)

// PersonalData detects personal data and secrets. Invalid patterns make it fail for every text, so that nothing is sent unmasked; the configuration's
// validation has already reported them.
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
			detectors = append(detectors, failing{err})
		} else {
			detectors = append(detectors, own)
		}
	}
	return pii.NewMemo(pii.NewScanner(detectors...))
}

// Names detects names with a local model; the zero value if the configuration chooses none.
func Names(cfg *config.Config, model models.Recognizer) personal.Names {
	if !FindsNames(cfg) {
		return personal.Names{}
	}
	in := &cfg.Pipeline.PII.Names
	types := []pii.Type{pii.Person, pii.Place}
	if len(in.Types) > 0 {
		types = nil
		for _, t := range in.Types {
			types = append(types, pii.Type(strings.ToUpper(t)))
		}
	}
	return personal.Names{Finder: pii.NewMemo(pii.NewScanner(named{model, types})), Timeout: in.Timeout, Allow: in.OnError == "allow"}
}

// FindsNames reports whether a configuration chooses a model for names.
func FindsNames(cfg *config.Config) bool {
	return cfg.Models.Entities != models.Off && cfg.Models.Entities != ""
}

// named is a detector of names of some types.
type named struct {
	model models.Recognizer
	types []pii.Type
}

// labels maps a model's labels to types. Other labels are not personal data.
var labels = map[string]pii.Type{"PER": pii.Person, "LOC": pii.Place, "ORG": pii.Organization}

// minNameLen is the minimum length of a name, in bytes: the vault replaces shorter values only where they were found.
const minNameLen = 4

// Find implements pii.Detector.
func (n named) Find(ctx context.Context, text string, out []pii.Span) ([]pii.Span, error) {
	all, err := n.model.Entities(ctx, text)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if t := labels[e.Label]; slices.Contains(n.types, t) && e.End-e.Start >= minNameLen {
			out = append(out, pii.Span{Start: e.Start, End: e.End, Type: t, Confidence: float32(e.Score)})
		}
	}
	return out, nil
}

// failing is a detector that always fails.
type failing struct{ err error }

// Find implements pii.Detector.
func (b failing) Find(context.Context, string, []pii.Span) ([]pii.Span, error) { return nil, b.err }

// Occasions are the occasions on which agents use more than text at a kind of provider; nil: always.
func Occasions(cfg *config.Config, kind string) *occasion.Rules {
	if v := cfg.Providers.Venice; kind == config.KindVenice && v != nil && v.Multimodal != nil {
		return &occasion.Rules{Embeddings: v.Multimodal.Embeddings, Alerts: v.Multimodal.Alerts, Artifacts: v.Multimodal.Artifacts}
	}
	return nil
}

// PromptKeys are the keys whose requests are logged.
func PromptKeys(cfg *config.Prompts) map[policy.Account]bool {
	out := make(map[policy.Account]bool, len(cfg.Keys))
	for _, id := range cfg.Keys {
		out[policy.Account(id)] = true
	}
	return out
}
