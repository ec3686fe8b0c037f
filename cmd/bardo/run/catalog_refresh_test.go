package run

import (
	"testing"
	"time"
)

func TestJitterIsATenth(t *testing.T) {
	for range 1000 {
		if d := jittered(time.Hour); d < 54*time.Minute || d > 66*time.Minute+1 {
			t.Fatal(d)
		}
	}
	if d := jittered(1); d < 1 || d > 2 {
		t.Error(d)
	}
}
