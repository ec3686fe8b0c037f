// Package profile computes the inference parameters of a subsystem's requests: sampling, reasoning effort, schema, prompt caching. It merges the
// built-in table, the operator's overrides, the client's hints and the agent's vitality into one chat.Profile per request. It is pure: it reads
// no clock, and does not know providers or their formats.
package profile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/near"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

// Settings are the operator's settings. The zero value is the built-in table.
type Settings struct {
	Overrides      map[string]policy.Profile // by subsystem; those of locked rows are ignored with a warning
	KeyPrefix      string                    // prefix of prompt cache keys; "" means "golem"
	NoMarks        bool                      // do not set cache_control on prompts
	WebSearch      bool                      // REM dreams may search the web
	SealTestaments bool                      // testaments run in attested hardware
	AttestDreams   bool                      // the consolidation of dreams runs in attested hardware
	Reanneal       float64                   // 0 means DefaultReanneal
}

// Profiles computes profiles; nil uses the built-in table. It is immutable and safe for concurrent use.
type Profiles struct {
	Settings
}

// New prepares settings, and warns of those that are ignored.
func New(s Settings) (p *Profiles, warnings []string) {
	s.Overrides = maps.Clone(s.Overrides)
	for _, name := range slices.Sorted(maps.Keys(s.Overrides)) {
		switch row := RowOf(name); {
		case row == nil:
			warnings = append(warnings, fmt.Sprintf("inference.profiles.%s: no subsystem with a profile has this name%s; it is ignored", name, similar(name)))
		case row.Locked:
			warnings = append(warnings, fmt.Sprintf("inference.profiles.%s: this profile is locked; what is said about it is ignored", name))
		default:
			continue
		}
		delete(s.Overrides, name)
	}
	return &Profiles{Settings: s}, warnings
}

// similar returns the subsystem whose name resembles a misspelled one, or all subsystems with a profile if none does.
func similar(name string) string {
	if like := near.Names(name, Names(), 1); len(like) > 0 {
		return ", the nearest is " + like[0]
	}
	return ": there are " + strings.Join(Names(), ", ")
}

// Decision is the profile of one request, with explanations.
type Decision struct {
	Profile *chat.Profile
	Row     string // name of the table's row, "" for none
	Locked  bool
	Applied policy.Profile // the effective values
	Ignored []string       // hints that a locked row ignores, in a fixed order

	Reasoning Reasoning // reasoning of the answer
}

// Build computes a request's profile; nil if it has none. in is the request's intent, if known: it provides the preferences for providers.
func (p *Profiles) Build(h *policy.Hints, in *policy.Intent, now time.Time) *Decision {
	if p == nil {
		p = &Profiles{}
	}
	row, security := RowOf(h.Subsystem), h.SecurityClass
	if in != nil {
		security = max(security, in.Security)
	}
	selected := ReasoningOf(h.Subsystem, security)
	if row == nil && selected.Depth == policy.EffortUnset && !hasEffect(h, in) {
		return nil
	}
	d := &Decision{Profile: &chat.Profile{Subsystem: h.Subsystem, Role: h.Role}}
	d.Profile.NoGuidance = h.Subsystem == "" && (h.Profile == nil || h.Profile.Effort == policy.EffortUnset)
	d.addPreferences(h, in)
	if row != nil {
		d.Row, d.Locked = row.Name, row.Locked
	}
	d.Applied = p.combine(row, h, EffortFor(h, security), now)
	enclave := in != nil && in.PrivacyTier == policy.PrivacyTEE
	if enclave {
		d.Applied.TEE = new(true)
	}
	d.Reasoning = reasoning(&d.Applied, selected)
	if d.Locked {
		d.Ignored = parameterNames(h.Profile)
		lock(d.Profile, &d.Applied)
		d.Profile.Default.TEE = enclave || h.TEE != nil && *h.TEE // who may read a prompt is not a parameter of its answer
		return d
	}
	d.Profile.Default, d.Profile.MaxTokens = params(&d.Applied), d.Applied.MaxTokens
	return d
}

// hasEffect reports whether hints or intent need a profile without a subsystem's row.
func hasEffect(h *policy.Hints, in *policy.Intent) bool {
	return h.Profile != nil || h.WebSearch != nil || h.TEE != nil || h.Role != "" || h.Quality != policy.QualityUnset ||
		h.SecurityClass != policy.SecurityStandard || h.CostSensitivity != nil || h.MaxLatency > 0 ||
		in != nil && (in.Security != policy.SecurityStandard || in.PrivacyTier == policy.PrivacyTEE)
}

// addPreferences sets the preferences for providers that choose among others.
func (d *Decision) addPreferences(h *policy.Hints, in *policy.Intent) {
	c, quality, security := d.Profile, h.Quality, h.SecurityClass
	if h.CostSensitivity != nil {
		c.CostSensitivity = *h.CostSensitivity
	}
	c.MaxLatency = h.MaxLatency
	if in != nil {
		quality, security = cmp.Or(in.Quality, quality), max(in.Security, security)
		c.CostSensitivity, c.MaxLatency = in.CostSensitivity, in.MaxLatency
	}
	c.Quality, c.Confidential = quality.String(), security != policy.SecurityStandard
}

// combine merges hints, the operator's overrides and the table, in this precedence; effort is the default effort. Then schedules and vitality
// apply. A locked row is not changed by any of them.
func (p *Profiles) combine(row *Row, h *policy.Hints, effort policy.Effort, now time.Time) policy.Profile {
	if row != nil && row.Locked {
		out := row.Profile
		p.cache(&out, row, h)
		return out
	}
	var out policy.Profile
	if h.Profile != nil {
		out = *h.Profile
	}
	out.WebSearch, out.TEE = cmp.Or(h.WebSearch, out.WebSearch), cmp.Or(h.TEE, out.TEE)
	atMoment := out.Temperature == nil // a temperature that the caller sets for this call follows no schedule
	if row != nil {
		owner, ok := p.Overrides[h.Subsystem]
		if !ok {
			owner = p.Overrides[row.Name]
		}
		fill(&out, &owner)
		fill(&out, &row.Profile)
		p.cache(&out, row, h)
		p.special(&out, row, h, now)
	}
	out.Effort = cmp.Or(out.Effort, effort)
	if row != nil && atMoment && out.Temperature != nil {
		out.Temperature = new(scheduled(row, *out.Temperature, h, cmp.Or(p.Reanneal, DefaultReanneal)))
	}
	applyVitality(&out, row, h)
	return out
}

// applyVitality applies a stated vitality, or that of a stated phase.
func applyVitality(out *policy.Profile, row *Row, h *policy.Hints) {
	vitality, ok := intent.VitalityOf(h)
	if !ok {
		return
	}
	if out.Temperature != nil && (row == nil || !row.KeepsTemperature) {
		out.Temperature = new(MortalTemperature(*out.Temperature, vitality))
	}
	if row == nil || !keepsEffort(h.Subsystem) {
		out.Effort = MortalEffort(out.Effort, vitality)
	}
}

// cache sets the cache key and cache control of the row's prompts.
func (p *Profiles) cache(out *policy.Profile, row *Row, h *policy.Hints) {
	if row.Keyed && h.GolemID != "" && out.PromptCacheKey == "" {
		out.PromptCacheKey = cmp.Or(h.CacheKey, CacheKey(p.KeyPrefix, h.GolemID, h.Subsystem, h.DreamCycleID))
	}
	if row.Marked && !p.NoMarks && out.CacheControl == nil {
		out.CacheControl = new(true)
	}
}

// CacheKey returns the key that groups the prompts of a subsystem in a provider's cache (D-28). prefix "" means golem.
func CacheKey(prefix, golem, subsystem, cycle string) string {
	switch row := RowOf(subsystem); {
	case row != nil && row.Name == "dream_rem":
		return "dream-rem-" + golem
	case row != nil && row.Name == "dream_nrem" && cycle != "":
		subsystem += "-" + cycle
	}
	return cmp.Or(prefix, "golem") + "-" + golem + "-" + subsystem
}

// special sets what only some rows request, if the operator allows it.
func (p *Profiles) special(out *policy.Profile, row *Row, h *policy.Hints, now time.Time) {
	switch row.Name {
	case "dream_rem":
		if out.WebSearch == nil && p.WebSearch {
			out.WebSearch = new(searches(h.Scenario, now))
		}
	case "dream_integration":
		if out.TEE == nil && p.AttestDreams {
			out.TEE = new(true)
		}
	case "death_testament":
		if out.TEE == nil && p.SealTestaments {
			out.TEE = new(true)
		}
	}
}

const (
	fewEpisodes = 3 // with fewer memories of something, a dream searches for it
	recent      = 72 * time.Hour
)

// searches reports whether a dream needs the web: its subject is recent, or the agent has few memories of it. For a dream without a stated subject
// the operator's setting decides.
func searches(s policy.Scenario, now time.Time) bool {
	if len(s.Entities)+len(s.Times) == 0 {
		return true
	}
	return slices.ContainsFunc(s.Entities, func(e policy.Entity) bool { return e.Episodes < fewEpisodes }) ||
		slices.ContainsFunc(s.Times, func(t time.Time) bool { return now.Sub(t).Abs() <= recent })
}

// EffortOf returns the effort for a requested quality class, if nothing else sets it (D-27).
func EffortOf(q policy.Quality) policy.Effort {
	switch q {
	case policy.QualityUnset:
		return policy.EffortUnset
	case policy.QualityMinimum, policy.QualityLow:
		return policy.EffortLow
	case policy.QualityMedium:
		return policy.EffortMedium
	case policy.QualityHigh, policy.QualityMaximum:
	}
	return policy.EffortHigh
}
