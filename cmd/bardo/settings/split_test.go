package settings

import (
	"testing"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/xds/state"
)

func TestANodeHasAName(t *testing.T) {
	cfg := &config.Config{}
	if err := state.ValidateNodeID(NodeName(cfg)); err != nil {
		t.Errorf("by its host: %v", err)
	}
	cfg.Extproc.Node = "gw-1"
	if got := NodeName(cfg); got != "gw-1" {
		t.Errorf("as configured: %q", got)
	}
}
