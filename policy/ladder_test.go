package policy

import (
	"slices"
	"testing"
)

func TestTheModelsBelowOne(t *testing.T) {
	l := Ladders{{"opus", "sonnet", "haiku"}, {"big", "small"}}
	for m, want := range map[ModelID][]ModelID{"opus": {"sonnet", "haiku"}, "sonnet": {"haiku"}, "haiku": {}, "big": {"small"}, "other": nil} {
		if got := l.Below(m); !slices.Equal(got, want) {
			t.Errorf("below %s: %v, want %v", m, got, want)
		}
	}
}
