package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
		running  runInfo
		ok       bool
		detail   string
	}{
		{"no gateway runs", runInfo{}, false, "in use by another program"},
		{"the gateway runs there", runInfo{PID: 1, HTTP: taken}, true, "used by the gateway that runs"},
		{"the gateway runs beside an Envoy of its own", runInfo{PID: 1}, true, "used by the gateway that runs"},
		{"the gateway runs elsewhere", runInfo{PID: 1, HTTP: "127.0.0.1:1"}, false, "in use by another program"},
	} {
		found := checkPorts(t.Context(), c.running, cfg)
		if len(found) != 1 || found[0].OK != c.ok || !strings.Contains(found[0].Detail, c.detail) {
			t.Errorf("%s: %+v, want %s", c.sentence, found, c.detail)
		}
	}
}

func TestACertificateThatEndsSoonIsFound(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := selfSigned(time.Now())
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
		"\n/opt/envoy  version: 9e5580933739/1.40.0/Clean/RELEASE/BoringSSL\n\n": "version 1.40.0",
		"something else": "of an unknown version",
		"":               "of an unknown version",
	} {
		if got := envoyVersion(out); got != want {
			t.Errorf("%q is %s, want %s", out, got, want)
		}
	}
}
