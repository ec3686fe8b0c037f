package doctor

import (
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/internal/config"
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
