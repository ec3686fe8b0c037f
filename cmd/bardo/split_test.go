package main

import (
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtlstest"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
	"bardo.money/gateway/xds/state"
)

func TestANodeHasAName(t *testing.T) {
	cfg := &config.Config{}
	if err := state.ValidateNodeID(nodeName(cfg)); err != nil {
		t.Errorf("by its host: %v", err)
	}
	cfg.Extproc.Node = "gw-1"
	if got := nodeName(cfg); got != "gw-1" {
		t.Errorf("as configured: %q", got)
	}
}

func TestEachNodeHasASecretOfItsOwn(t *testing.T) {
	a, b := egressSecret("master", "gw-1"), egressSecret("master", "gw-2")
	if a == b || a != egressSecret("master", "gw-1") || a == egressSecret("another", "gw-1") || len(a) < 26 {
		t.Errorf("%q and %q", a, b)
	}
}

func TestWhatIsKeptIsFoundAgain(t *testing.T) {
	h := home(t.TempDir())
	if ids, err := h.disabled(); err != nil || len(ids) != 0 {
		t.Errorf("before anything was kept: %v, %v", ids, err)
	}
	if v, err := h.keptView(); err != nil || v.Secret != "" {
		t.Errorf("before anything was heard: %+v, %v", v, err)
	}
	view := feed.View{
		Version: "1", Secret: "secret", Clusters: []policy.ProviderID{"a.1"},
		Providers: []health.Status{{Provider: "a", State: health.Down, Reason: "why", CoolUntil: time.Unix(1, 0).UTC()}},
	}
	if err := h.keep(keptView, view); err != nil {
		t.Fatal(err)
	}
	got, err := h.keptView()
	if err != nil || got.Secret != view.Secret || got.Clusters[0] != "a.1" || got.Providers[0] != view.Providers[0] {
		t.Errorf("found %+v, %v", got, err)
	}
	for name, read := range map[string]func() error{
		"disabled.json": func() error { _, err := h.disabled(); return err },
		keptView:        func() error { _, err := h.keptView(); return err },
	} {
		if err := h.keep(name, "neither"); err != nil {
			t.Fatal(err)
		}
		if err := read(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a broken %s: %v", name, err)
		}
	}
}

func TestTheDoctorLooksAtThePeersCertificates(t *testing.T) {
	ca, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(name string, valid time.Duration) config.PeerTLS {
		f, err := ca.Write(t.TempDir(), name, valid)
		if err != nil {
			t.Fatal(err)
		}
		return config.PeerTLS(f)
	}
	const long = 30 * 24 * time.Hour
	for name, tt := range map[string]struct {
		tls  config.PeerTLS
		at   config.Socket
		want string // part of what is wrong; "" if nothing is
	}{
		"a good one of a pair":         {issue("gw-1", long), "10.0.0.1:1", ""},
		"one for another node":         {issue("gw-2", long), "10.0.0.1:1", "gw-2"},
		"the control plane's":          {issue("control-plane", long), "", ""},
		"one that is over":             {issue("gw-1", -time.Hour), "10.0.0.1:1", "expired"},
		"one that ends soon":           {issue("gw-1", time.Hour), "10.0.0.1:1", "ends on"},
		"one that is not there at all": {config.PeerTLS{Cert: "/no/a", Key: "/no/b", CA: "/no/c"}, "10.0.0.1:1", "/no/a"},
	} {
		cfg := &config.Config{Extproc: config.Extproc{Node: "gw-1"}, XDS: config.XDS{Listen: "127.0.0.1:1", Address: tt.at, TLS: tt.tls}}
		found := checkPeers(cfg, time.Now())
		if len(found) != 1 || found[0].OK != (tt.want == "") || !strings.Contains(found[0].Detail, tt.want) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if found := checkPeers(&config.Config{XDS: config.XDS{Listen: "127.0.0.1:1"}}, time.Now()); len(found) != 0 {
		t.Errorf("without certificates: %+v", found)
	}
}
