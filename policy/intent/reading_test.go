package intent_test

import (
	"testing"

	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

const (
	plainText = "Which is the larger of the two?"
	hardText  = "Prove that the scheme converges, derive its rate, justify each assumption, and construct a counterexample where one of them fails."
)

func TestR11AReadingCorrectsTheRulesOnlyWhereItIsSure(t *testing.T) {
	for _, row := range []struct {
		about string
		f     intent.Facts
		level float64
		want  policy.Quality
	}{
		{"nothing is near", intent.Facts{Text: plainText}, 1.5, policy.QualityLow},
		{"it is harder than it looks", intent.Facts{Text: plainText}, 2.2, policy.QualityMedium},
		{"it is much harder", intent.Facts{Text: plainText}, 2.8, policy.QualityHigh},
		{"it is easier than it looks", intent.Facts{Text: hardText}, 1.2, policy.QualityHigh},
		{"it is as hard as it looks", intent.Facts{Text: hardText}, 2.8, policy.QualityMaximum},
		{"an effort is asked for", intent.Facts{Text: plainText, Effort: policy.EffortLow}, 2.8, policy.QualityLow},
		{"tools say more", intent.Facts{Text: plainText, Tools: 1}, 2.8, policy.QualityLow},
		{"a schema says more", intent.Facts{Text: plainText, Schema: true}, 2.8, policy.QualityLow},
	} {
		row.f.Model = "auto"
		before := build(policy.Hints{}, row.f, "").Quality
		row.f.Reading = &intent.Reading{Level: row.level}
		b := build(policy.Hints{}, row.f, "")
		if b.Quality != row.want || (b.Task.Reconsidered != "") != (b.Quality != before) {
			t.Errorf("%s: %s before, %s with it, %q", row.about, before, b.Quality, b.Task.Reconsidered)
		}
		row.f.Reading.Unsafe = true
		if b := build(policy.Hints{}, row.f, ""); b.Quality != max(before, row.want) {
			t.Errorf("%s, unsafe: %s before, %s with it", row.about, before, b.Quality)
		}
		if hinted := build(policy.Hints{Quality: policy.QualityMinimum}, row.f, ""); hinted.Quality != policy.QualityMinimum {
			t.Errorf("%s: a hint gave way: %s", row.about, hinted.Quality)
		}
		row.f.Model = "m"
		if named := build(policy.Hints{}, row.f, ""); named.Task.Reconsidered != "" || named.Quality != policy.QualityUnset {
			t.Errorf("%s: a named model: %+v", row.about, named.Task)
		}
	}
}
