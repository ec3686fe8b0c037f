package chatcompletion

import (
	"strings"
	"testing"

	"bardo.money/gateway/internal/jsonx"
)

func TestASpotIsReadAsItIsWritten(t *testing.T) {
	t.Parallel()
	for _, at := range []Spot{{1, 0}, {0, 1}, {12, 3}} {
		id := strings.TrimPrefix(string(at.appendID(nil)), `,"id":`)
		if got := ReadSpot(jsonx.Value{Raw: jsonx.Raw(id)}); got != at {
			t.Errorf("%s is read as %v, want %v", id, got, at)
		}
	}
	for _, id := range []string{`null`, `"rs_1"`, `"bardo-behind-"`, `"bardo-behind-1"`, `"bardo-behind--1-0"`, `"bardo-behind-x-0"`, `5`} {
		if got := ReadSpot(jsonx.Value{Raw: jsonx.Raw(id)}); got != (Spot{}) {
			t.Errorf("%s is read as %v", id, got)
		}
	}
}
