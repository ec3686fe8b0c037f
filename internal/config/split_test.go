package config_test

import (
	"testing"

	"bardo.money/gateway/internal/config"
)

func TestWhereAPartIsReached(t *testing.T) {
	for listen, want := range map[config.Socket]config.Socket{
		"127.0.0.1:1": "127.0.0.1:1", "0.0.0.0:1": "127.0.0.1:1", ":1": "127.0.0.1:1", "[::]:1": "[::1]:1", "xds.internal:1": "xds.internal:1",
		"unix:///run/x.sock": "unix:///run/x.sock", "": "",
	} {
		if got := listen.Reachable(); got != want {
			t.Errorf("what listens at %q is reached at %q, want %q", listen, got, want)
		}
	}
	for _, tt := range []struct {
		xds  config.XDS
		name string
	}{
		{config.XDS{Listen: "0.0.0.0:1"}, "127.0.0.1"},
		{config.XDS{Listen: "0.0.0.0:1", Address: "xds.internal:1"}, "xds.internal"},
		{config.XDS{Address: "10.0.0.1:1", Name: "control-plane"}, "control-plane"},
	} {
		if got := tt.xds.ServerName(); got != tt.name {
			t.Errorf("%+v is expected to be %q, want %q", tt.xds, got, tt.name)
		}
	}
}

func TestWhatCanBeANodesName(t *testing.T) {
	for name, want := range map[string]bool{"gw-1": true, "GW.example": true, "a": true, "": false, "-a": false, "a-": false, "a b": false, "a_b": false} {
		if config.ValidNode(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}
