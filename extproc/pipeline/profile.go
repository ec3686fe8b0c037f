package pipeline

import "slices"

// profiles are the layers that each profile runs (D-30). The full one runs all.
var profiles = map[string][]string{
	"minimal":  {"l3"},
	"fast":     {"l1", "l3", "l6"},
	"standard": {"l1", "l2", "l3", "l4", "l5", "l6"},
}

// Runs reports whether a profile runs a layer. A profile that is not known runs all: it may leave out no protection by a slip of the pen.
func Runs(profile, layer string) bool {
	layers, ok := profiles[profile]
	return !ok || slices.Contains(layers, layer)
}
