package catalog

import (
	"cmp"

	"bardo.money/gateway/internal/modelfile"
	"bardo.money/gateway/policy"
)

// classes are the quality classes by the mean of a model's strengths: the first one whose limit is above it applies.
var classes = []struct {
	below float64
	class policy.Quality
}{
	{0.25, policy.QualityMinimum},
	{0.45, policy.QualityLow},
	{0.65, policy.QualityMedium},
	{0.85, policy.QualityHigh},
}

// quality returns the stated class, else the one for the mean of the known strengths, else none.
func quality(m *modelfile.Model) policy.Quality {
	if q, ok := policy.ParseQuality(m.Quality); ok {
		return q
	}
	mean, ok := mean(m.Strengths)
	if !ok {
		return policy.QualityUnset
	}
	for _, c := range classes {
		if mean < c.below {
			return c.class
		}
	}
	return policy.QualityMaximum
}

func mean(s *modelfile.Strengths) (m float64, ok bool) {
	var sum, n float64
	for _, v := range values(s) {
		if *v != nil {
			sum, n = sum+**v, n+1
		}
	}
	return sum / max(n, 1), n > 0
}

// values returns pointers to a model's strengths; nil if none are known.
func values(s *modelfile.Strengths) []**float64 {
	if s == nil {
		return nil
	}
	return []**float64{&s.Reasoning, &s.CodeGeneration, &s.ToolCallAccuracy, &s.SchemaAdherence, &s.DeFiKnowledge, &s.InstructionFollowing}
}

func mergeStrengths(base, over *modelfile.Strengths) *modelfile.Strengths {
	if base == nil || over == nil {
		return cmp.Or(over, base)
	}
	out := *over
	for i, v := range values(&out) {
		*v = cmp.Or(*v, *values(base)[i])
	}
	return &out
}
