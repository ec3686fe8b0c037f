package chat_test

import (
	"testing"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/jsonx"
)

func TestEstimateTokens(t *testing.T) {
	tests := []struct {
		stats jsonx.Stats
		want  int64
	}{
		{jsonx.Stats{}, 0},
		{jsonx.Stats{TextBytes: 1}, 1},
		{jsonx.Stats{TextBytes: 300}, 100},
		{jsonx.Stats{TextBytes: 300, Opaque: 2}, 3300},
	}
	for _, tt := range tests {
		if got := chat.EstimateTokens(tt.stats); got != tt.want {
			t.Errorf("%+v: got %d, want %d", tt.stats, got, tt.want)
		}
	}
}
