package request

import (
	"slices"

	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
)

// FilterByOccasion removes the candidates that the operator excludes, at this time, from agents' requests for a feature. The error, if none is left,
// is a fault that states the reason.
func (v *View) FilterByOccasion(f policy.Feature) error {
	withheld := ""
	v.Found = slices.DeleteFunc(v.Found, func(to policy.Resolution) bool {
		reason := v.Config.Provider(to.Provider).Occasions.Withholds(f, &v.Hints)
		if reason != "" {
			withheld = string(to.Provider) + ": " + reason
		}
		return reason != ""
	})
	if len(v.Found) == 0 && withheld != "" {
		return fault.Newf(fault.InvalidRequest, "the operator does not allow agents this now: %s", withheld)
	}
	return nil
}
