package seedtest

import (
	"slices"
	"testing"
)

func TestSeeds(t *testing.T) {
	t.Setenv("BARDO_SEED", "")
	t.Setenv("BARDO_SOAK", "")
	if got := Seeds(3); !slices.Equal(got, []uint64{1}) {
		t.Errorf("without either: %d", got)
	}
	t.Setenv("BARDO_SOAK", "1")
	got := Seeds(3)
	slices.Sort(got)
	if len(slices.Compact(got)) != 4 || got[0] != 1 {
		t.Errorf("in a soak: %d", got)
	}
	t.Setenv("BARDO_SEED", "7")
	if got := Seeds(3); !slices.Equal(got, []uint64{7}) {
		t.Errorf("one to repeat: %d", got)
	}
}
