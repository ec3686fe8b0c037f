package doctor

import (
	"crypto/tls"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/mtls"
	"bardo.money/gateway/internal/mtlstest"
)

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
		want string // part of the failure; "" if it passes
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

// TestTheDoctorConnectsToTheControlPlane as the sidecar does: names and authorities of both sides are verified.
func TestTheDoctorConnectsToTheControlPlane(t *testing.T) {
	ours, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	others, err := mtlstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *mtlstest.Authority, name string) config.PeerTLS {
		f, err := a.Write(t.TempDir(), name, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return config.PeerTLS(f)
	}
	plane, err := mtls.Load(mtls.Files(issue(ours, "plane")), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", plane.Server(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("settings")) // fails for a client that was rejected
			_ = c.Close()
		}
	}()
	foreign := issue(others, "gw-1")
	foreign.CA = issue(ours, "gw-1").CA
	for name, tt := range map[string]struct {
		xds  config.XDS
		want string // part of the failure; "" if it passes
	}{
		"it is there":       {config.XDS{Name: "plane", TLS: issue(ours, "gw-1")}, ""},
		"another name":      {config.XDS{Name: "planet", TLS: issue(ours, "gw-1")}, "not planet"},
		"another authority": {config.XDS{Name: "plane", TLS: foreign}, "bad certificate"},
		"nobody is there":   {config.XDS{Address: "127.0.0.1:1", Name: "plane", TLS: issue(ours, "gw-1")}, "connection refused"},
	} {
		if tt.xds.Address == "" {
			tt.xds.Address = config.Socket(l.Addr().String())
		}
		found := checkPlane(t.Context(), &config.Config{XDS: tt.xds})
		if len(found) != 1 || found[0].OK != (tt.want == "") || !strings.Contains(found[0].Detail, tt.want) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	if found := checkPlane(t.Context(), &config.Config{XDS: config.XDS{Listen: "127.0.0.1:1"}}); len(found) != 0 {
		t.Errorf("a gateway that is not split: %+v", found)
	}
}
