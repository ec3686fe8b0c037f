package pipeline

import "slices"

// The pipeline profiles (D-30). ProfileFull runs all layers.
const (
	ProfileMinimal  = "minimal"
	ProfileFast     = "fast"
	ProfileStandard = "standard"
	ProfileFull     = "full"
)

// runs reports whether an exchange's profile runs a layer. An unknown or empty profile runs all, so that a typo does not disable a protecting layer.
func (s *stage) runs(x *Exchange) bool {
	if x.ProtectOnly && !s.protects {
		return false
	}
	switch x.Profile {
	case ProfileMinimal, ProfileFast, ProfileStandard:
		return slices.Contains(s.profiles, x.Profile)
	}
	return true
}

// Planned returns the names of the layers that an exchange's profile runs.
func (p *Pipeline) Planned(x *Exchange) (names []string) {
	for i := range p.layers {
		if s := &p.layers[i]; s.runs(x) {
			names = append(names, s.Name())
		}
	}
	return names
}
