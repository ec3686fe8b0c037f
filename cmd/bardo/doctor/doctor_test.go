package doctor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/internal/config"
)

func TestAPortOfTheRunningGatewayIsNoConflict(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	taken := l.Addr().String()
	cfg := &config.Config{}
	cfg.Listen.HTTP, cfg.Listen.HTTPS, cfg.Listen.EnvoyAdmin = config.Addr(taken), "off", "off"
	for _, c := range []struct {
		sentence string
		running  home.RunInfo
		ok       bool
		detail   string
	}{
		{"no gateway runs", home.RunInfo{}, false, "in use by another program"},
		{"the gateway runs there", home.RunInfo{PID: 1, HTTP: taken}, true, "used by the gateway that runs"},
		{"the gateway runs beside an Envoy of its own", home.RunInfo{PID: 1}, true, "used by the gateway that runs"},
		{"the gateway runs elsewhere", home.RunInfo{PID: 1, HTTP: "127.0.0.1:1"}, false, "in use by another program"},
		{"the gateway runs on the port of --port", home.RunInfo{PID: 1, HTTP: "127.0.0.1:1"}, true, "is free; the gateway that runs uses 127.0.0.1:1"},
	} {
		if c.ok && c.running.HTTP == "127.0.0.1:1" {
			_ = l.Close()
		}
		found := Ports(t.Context(), c.running, cfg)
		if len(found) != 1 || found[0].OK != c.ok || !strings.Contains(found[0].Detail, c.detail) {
			t.Errorf("%s: %+v, want %s", c.sentence, found, c.detail)
		}
	}
}

func TestAControlPlaneAloneIsKnownByItsConfiguration(t *testing.T) {
	tls := config.PeerTLS{Cert: "c", Key: "k", CA: "a"}
	for _, c := range []struct {
		sentence string
		xds      config.XDS
		extproc  config.Extproc
		want     bool
	}{
		{"a control plane for other machines", config.XDS{Listen: "0.0.0.0:18000", TLS: tls}, config.Extproc{}, true},
		{"all in one", config.XDS{Listen: "127.0.0.1:18000"}, config.Extproc{}, false},
		{"a pair that says where its control plane is", config.XDS{Address: "plane:18000", TLS: tls}, config.Extproc{}, false},
		{"a pair beside its control plane", config.XDS{Listen: "10.0.0.1:18000", TLS: tls}, config.Extproc{Node: "gw-1"}, false},
		{"parts that meet on Unix sockets", config.XDS{Listen: "unix:///run/xds.sock", TLS: tls}, config.Extproc{}, false},
	} {
		if got := isPlane(t.Context(), home.Dir(t.TempDir()), &config.Config{XDS: c.xds, Extproc: c.extproc}); got != c.want {
			t.Errorf("%s: %t", c.sentence, got)
		}
	}
}

func TestPortsOfAControlPlane(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	cfg := &config.Config{XDS: config.XDS{Listen: config.Socket(l.Addr().String()), Admin: "127.0.0.1:0"}}
	found := checkPlanePorts(t.Context(), home.Dir(t.TempDir()), cfg)
	if len(found) != 2 || found[0].Check != "xds.listen" || found[0].OK || found[1].Check != "xds.admin" || !found[1].OK {
		t.Errorf("%+v", found)
	}
}

func TestACertificateThatEndsSoonIsFound(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := home.SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config.Config{}
	cfg.Listen.HTTPS = "127.0.0.1:0"
	cfg.Listen.TLS.Cert, cfg.Listen.TLS.Key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string][]byte{cfg.Listen.TLS.Cert: cert, cfg.Listen.TLS.Key: key} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if f := checkCertificate(cfg, time.Now()); !f.OK {
		t.Errorf("a new certificate: %+v", f)
	}
	if f := checkCertificate(cfg, time.Now().AddDate(1, 0, -3)); f.OK || f.Fix != "renew the certificate" {
		t.Errorf("three days before its end: %+v", f)
	}
}

func TestEnvoyVersion(t *testing.T) {
	for out, want := range map[string]string{
		"\n/opt/envoy  version: 9e5580933739/1.40.0/Clean/RELEASE/BoringSSL\n\n": "1.40.0",
		"something else": "",
		"":               "",
	} {
		if got, ok := envoyVersion(out); got != want || ok != (want != "") {
			t.Errorf("%q is %q, %v, want %q", out, got, ok, want)
		}
	}
}

// TestAnOldEnvoyIsReported: it rejects the gateway's configuration, and exits at the start without a clear reason.
func TestAnOldEnvoyIsReported(t *testing.T) {
	pinned := envoy.PinnedVersion()
	for version, want := range map[string]Finding{
		pinned:    pass("envoy", "/opt/envoy, version %s", pinned),
		"1.999.0": pass("envoy", "/opt/envoy, version 1.999.0; the gateway is tested with %s", pinned),
		"2.0.0":   pass("envoy", "/opt/envoy, version 2.0.0; the gateway is tested with %s", pinned),
		"1.14.1":  fail("envoy", "use Envoy "+pinned+", which `make tools` installs", "/opt/envoy, version 1.14.1, is older than %s, with which the gateway is tested", pinned),
		"0.999.0": fail("envoy", "use Envoy "+pinned+", which `make tools` installs", "/opt/envoy, version 0.999.0, is older than %s, with which the gateway is tested", pinned),
		"odd":     fail("envoy", "use Envoy "+pinned+", which `make tools` installs", "/opt/envoy, version odd, is older than %s, with which the gateway is tested", pinned),
	} {
		if got := checkEnvoyVersion("/opt/envoy", version); got != want {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
	}
}

// TestFilesThatCannotBeWrittenAreReported, and the check creates none.
func TestFilesThatCannotBeWrittenAreReported(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{}
	if found := checkFiles(home.Dir(dir), cfg); len(found) != 0 {
		t.Errorf("without files: %+v", found)
	}
	cfg.Telemetry.Events, cfg.Audit.File = "file:"+filepath.Join(dir, "none", "events"), "none/audit"
	for _, f := range checkFiles(home.Dir(dir), cfg) {
		if f.OK || f.Detail == "" || !strings.Contains(f.Fix, f.Check) {
			t.Errorf("%+v", f)
		}
	}
	cfg.Telemetry.Events, cfg.Audit.File = "file:"+filepath.Join(dir, "events"), "audit"
	found := checkFiles(home.Dir(dir), cfg)
	if len(found) != 2 || !found[0].OK || !found[1].OK || found[0].Detail != filepath.Join(dir, "audit") {
		t.Errorf("%+v", found)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v are left, %v", entries, err)
	}
	cfg.Audit.File = dir
	if f := checkFiles(home.Dir(dir), cfg)[0]; f.OK {
		t.Errorf("a directory: %+v", f)
	}
}
