package classifier_test

import (
	"testing"

	"bardo.money/gateway/extproc/classifier"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/intent"
)

func TestTheClassifierJudgesWhatNobodyElseDoes(t *testing.T) {
	c := &classifier.Classifier{}
	for _, row := range []struct {
		about string
		c     *classifier.Classifier
		hints policy.Hints
		facts intent.Facts
		want  bool
	}{
		{"auto", c, policy.Hints{}, intent.Facts{Model: "auto", Text: "hi"}, true},
		{"no classifier", nil, policy.Hints{}, intent.Facts{Model: "auto", Text: "hi"}, false},
		{"a model", c, policy.Hints{}, intent.Facts{Model: "m", Text: "hi"}, false},
		{"a subsystem", c, policy.Hints{Subsystem: "risk"}, intent.Facts{Model: "auto", Text: "hi"}, false},
		{"a quality", c, policy.Hints{Quality: policy.QualityUnset + 1}, intent.Facts{Model: "auto", Text: "hi"}, false},
		{"no text", c, policy.Hints{}, intent.Facts{Model: "auto"}, false},
	} {
		if got := row.c.Applies(&row.hints, &row.facts); got != row.want {
			t.Errorf("%s: %v", row.about, got)
		}
		if row.want && !row.c.MayApply(&row.hints, row.facts.Model) {
			t.Errorf("%s: it judges what it may not", row.about)
		}
	}
}

func TestANoteSaysWhatWasJudgedOrWhyNot(t *testing.T) {
	for _, row := range []struct {
		r    *intent.Reading
		why  string
		want string
	}{
		{nil, "off", "off"},
		{nil, "late", ""},
		{&intent.Reading{Level: 2.34}, "", "level=2.3"},
		{&intent.Reading{Level: 1, Unsafe: true}, "", "level=1.0;unsafe"},
	} {
		if got := classifier.Note(row.r, row.why); got != row.want {
			t.Errorf("%+v %q: %q, want %q", row.r, row.why, got, row.want)
		}
	}
}
