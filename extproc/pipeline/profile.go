package pipeline

import "slices"

// The pipeline profiles (D-30). ProfileFull runs all layers.
const (
	ProfileMinimal  = "minimal"
	ProfileFast     = "fast"
	ProfileStandard = "standard"
	ProfileFull     = "full"
)

// runs reports whether a profile runs a layer. An unknown profile, as the empty one, runs all, so that a typo does not disable a protective
// layer.
func runs(profile string, l Layer) bool {
	switch profile {
	case ProfileMinimal, ProfileFast, ProfileStandard:
		return slices.Contains(l.Profiles(), profile)
	}
	return true
}
