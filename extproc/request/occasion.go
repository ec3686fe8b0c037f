package request

import (
	"slices"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// FilterByOccasion removes the candidates that the operator keeps an agent's request for a feature from at this time. The error, if none is left, is a fault that
// says why.
func (v *View) FilterByOccasion(f policy.Feature) error {
	withheld := ""
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		why := v.Config.Provider(to.Provider).Occasions.Withholds(f, &v.Hints)
		if why != "" {
			withheld = string(to.Provider) + ": " + why
		}
		return why != ""
	})
	if len(v.Found) == 0 && withheld != "" {
		return fault.Newf(fault.InvalidRequest, "the operator does not let agents have this now: %s", withheld)
	}
	return nil
}
