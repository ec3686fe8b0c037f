package pipeline

import "slices"

// The pipeline profiles (D-30). ProfileFull runs all layers.
const (
	ProfileMinimal  = "minimal"
	ProfileFast     = "fast"
	ProfileStandard = "standard"
	ProfileFull     = "full"
)

// runs reports whether an exchange's profile runs a layer. An unknown profile, as the empty one, runs all, so that a typo does not disable a protective
// layer.
func runs(x *Exchange, l Layer) bool {
	if x.ProtectOnly {
		if _, ok := l.(Protecting); !ok {
			return false
		}
	}
	switch x.Profile {
	case ProfileMinimal, ProfileFast, ProfileStandard:
		return slices.Contains(l.Profiles(), x.Profile)
	}
	return true
}

// Planned names the layers that an exchange's profile runs.
func (p *Pipeline) Planned(x *Exchange) (names []string) {
	for _, l := range p.layers {
		if runs(x, l) {
			names = append(names, l.Name())
		}
	}
	return names
}
